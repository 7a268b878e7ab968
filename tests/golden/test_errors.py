"""Every kind of error as a user meets it: the text is pinned, line numbers apart."""

import math
import re
import traceback

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import wholestep as ws
import wholestep.numpy as wnp
from wholestep import nn, optim
from wholestep.errors import WholestepError, is_internal

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def shape_matmul():
    w = np.ones((4, 5), np.float32)
    ws.grad(lambda x: (x @ w).sum())(np.ones((2, 3), np.float32))


@case
def shape_broadcast():
    ws.grad(lambda x: (x + np.ones(4)).sum())(np.ones((2, 3)))


@case
def shape_reshape():
    ws.grad(lambda x: x.reshape(4, 4).sum())(np.ones((2, 3)))


@case
def shape_concatenate():
    ws.grad(lambda x: np.concatenate([x, np.ones((3, 2))], axis=1).sum())(np.ones((2, 3)))


@case
def shape_assignment():
    def f(x):
        y = x.copy()
        y[0] = np.ones(5)
        return y.sum()

    ws.grad(f)(np.ones((2, 3)))


@case
def dtype_longdouble():
    ws.grad(lambda x: x * 2.0)(np.longdouble(1.0))


@case
def masked_array():
    ws.grad(lambda x: (x * x).sum())(np.ma.array([1.0, 2.0], mask=[0, 1]))


@case
def matrix_in_a_closure():
    m = np.ones((2, 2)).view(np.matrix)
    ws.grad(lambda x: (m * x).sum())(np.ones((2, 2)))


@case
def dtype_meaningless():
    ws.jit(lambda x: x << 2)(np.ones(3))


@case
def dtype_in_place():
    def f(x):
        count = wnp.zeros(3, dtype=np.int64)
        count += x
        return count

    ws.jit(f)(np.ones(3))


@case
def unsupported_call():
    ws.grad(lambda x: np.is_busday(x).sum())(np.ones(3))


@case
def unsupported_method():
    ws.grad(lambda x: x.byteswap().sum())(np.ones(3))


@case
def value_dependent_size():
    ws.jit(lambda n: np.zeros(n))(3)


@case
def value_dependent_slice():
    ws.jit(lambda x, i: x[i : i + 2])(np.ones(5), 1)


@case
def arguments_of_the_function():
    ws.jit(np.sum, np.ones(3))


@case
def vectors_for_axes():
    ws.vmap(np.sum, np.ones(3))


@case
def value_dependent_if():
    def relu(x):
        if x > 0:
            return x
        return 0.0

    ws.jit(relu)(3.0)


@case
def value_dependent_while_in_vmap():
    def halve(x):
        while x > 1:
            x = x / 2
        return x

    ws.vmap(halve)(np.array([3.0, 5.0]))


@case
def value_dependent_shape():
    ws.jit(lambda x: np.exp(x[x > 0]).reshape(3, -1))(np.ones(3))


@case
def escaped():
    kept = []
    ws.grad(lambda x: kept.append(x) or x * 2.0)(1.0)
    kept[0] * 3.0


@case
def conversion_float():
    ws.grad(lambda x: float(x) * x, rewrite=False)(3.0)


@case
def conversion_array():
    ws.grad(lambda x: np.asarray(x).sum(), rewrite=False)(np.ones(3))


@case
def conversion_index():
    table = np.arange(4.0)
    ws.grad(lambda x: np.sum(x * table[np.argsort(x)]), rewrite=False)(np.ones(3))


@case
def conversion_into_plain_array():
    def f(x):
        y = np.zeros(3)
        np.add(x, 1.0, out=y)
        return y.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@case
def index_out_of_range():
    ws.grad(lambda x: x[5])(np.ones(3))


@case
def index_out_of_range_traced():
    ws.jit(lambda x, i: x[i])(np.ones(3), 7)


@case
def index_too_many():
    ws.grad(lambda x: x[0, 1, 2])(np.ones((2, 3)))


@case
def wrong_axis():
    ws.grad(lambda x: x.sum(axis=2).sum())(np.ones((2, 3)))


@case
def non_scalar_loss():
    ws.grad(lambda x: x * 2.0)(np.ones(3))


@case
def integer_argument():
    ws.grad(lambda params: params["w"] * params["layers"][1])({"w": 1.0, "layers": [2.0, 3]})


@case
def integer_loss():
    ws.grad(lambda x: np.argmax(x))(np.ones(3))


@case
def complex_loss():
    ws.grad(lambda x: x * 1j)(1.0)


@case
def unused_argument():
    ws.grad(lambda x, y: x * 2.0, argnums=(0, 1), allow_unused=False)(1.0, 2.0)


@case
def captured_array_changed():
    table = np.ones(3)
    f = ws.jit(lambda x: x * table)
    f(2.0)
    table[0] = 5.0
    f(2.0)


@case
def unhashable_static():
    ws.jit(lambda x, axes: x.sum(axis=tuple(axes)), static_argnums=1)(np.ones((2, 3)), [0, 1])


@case
def static_argument_that_is_not_there():
    ws.jit(lambda x, n: x * n, static_argnums=2)(1.0, 2)


@case
def reverse_of_while():
    ws.grad(lambda x: ws.while_loop(lambda y: y < 10, lambda y: y * 2, x))(1.0)


@case
def branches_differ():
    ws.jit(lambda x: ws.cond(x > 0, lambda x: x, lambda x: x.astype(np.float32), x))(np.float64(1))


@case
def carry_changes():
    ws.scan(lambda c, x: (c.sum(), x), np.zeros(3), np.ones(4))


@case
def batch_sizes_differ():
    ws.vmap(lambda x, y: x + y)(np.ones(2), np.ones(3))


@case
def no_such_axis_name():
    ws.vmap(lambda x: ws.psum(x, "i"), axis_name="j")(np.ones(2))


@case
def rule_gives_wrong_shape():
    @ws.custom_vjp
    def f(x):
        return x * 2.0

    f.defvjp(lambda x: (x * 2.0, None), lambda _, g: (g.sum(),))
    ws.grad(lambda x: f(x).sum())(np.ones(3))


@case
def rule_closes_over_traced():
    def f(x, y):
        @ws.custom_vjp
        def inner(x):
            return x * y

        inner.defvjp(lambda x: (x * y, None), lambda _, g: (g,))
        return inner(x)

    ws.grad(f, argnums=(0, 1))(1.0, 2.0)


@case
def cotangent_of_wrong_shape():
    _, pullback = ws.vjp(lambda x: x * 2.0, np.ones(3))
    pullback(np.ones(4))


@case
def write_to_captured_in_loop():
    def f(x):
        total = wnp.zeros(3)

        def step(c, row):
            total[0] = row
            return c, row

        ws.scan(step, 0.0, x)
        return total.sum()

    ws.grad(f)(np.ones(3))


@case
def no_such_frontier():
    ws.frontier_grad(lambda x: ws.capture("hidden", x) * 2.0, stop="h")(1.0)


@case
def wrong_gradient():
    @ws.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x) * 1.001,))
    ws.gradcheck(f, np.array([0.3, 0.4]))


X, Y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)


def line(model, batch):
    return nn.mse(model(batch["x"]), batch["y"])


def compiled(loss=line, **options):
    options = {"optimizer": optim.sgd(0.1), **options}
    return ws.compile(loss, nn.Linear(3, 1, key=0), batch={"x": X, "y": Y}, **options)


@case
def optimizer_is_text():
    compiled(optimizer="adam")


@case
def optimizer_is_not_called():
    compiled(optimizer=optim.adam)


@case
def optimizer_class():
    optim.Adam(1e-3)


@case
def loss_is_text():
    compiled("mse")


@case
def loss_returns_nothing():
    def loss(model, batch):
        nn.mse(model(batch["x"]), batch["y"])

    compiled(loss)


@case
def loss_is_a_vector():
    def loss(model, batch):
        rest = model(batch["x"]) - batch["y"]
        return rest[:, 0] ** 2

    compiled(loss)


@case
def loss_is_a_pair():
    def loss(model, batch):
        return line(model, batch), model

    compiled(loss)


@case
def fit_of_a_model():
    ws.fit(nn.Linear(3, 1, key=0), {"x": X, "y": Y})


@case
def callback_is_a_function():
    ws.fit(compiled(), {"x": X, "y": Y}, callbacks=[lambda run: None])


@case
def two_arguments_to_a_step():
    compiled()(X, Y)


@case
def capture_without_a_label():
    ws.grad(lambda x: ws.capture(x * 2, "twice").sum())(np.ones(2))


@case
def no_such_device():
    compiled(device="gpu")


@case
def no_batch_is_left():
    list(ws.Loader({"x": X}, 16, drop_last=True))


@case
def label_outside():
    nn.cross_entropy(np.ones((2, 4)), np.array([0, 5]))


@case
def label_outside_in_a_program():
    ws.jit(lambda x, y: nn.cross_entropy(x, y))(np.ones((2, 4)), np.array([0, 5]))


@case
def label_outside_in_the_interpreter():
    ws.jit(lambda x, y: nn.cross_entropy(x, y), device="reference")(np.ones((2, 4)), np.array([0, -1]))


@case
def channels_last():
    nn.Conv2d(1, 4, 3, key=0)(np.ones((2, 8, 8, 1), np.float32))


@case
def layer_without_a_key():
    nn.Linear(3, 4)(np.ones(3, np.float32))


@case
def model_without_a_key():
    ws.jit(lambda model, x: model(x))(nn.Sequential(nn.relu, nn.Linear(3, 4)), np.ones(3, np.float32))


@case
def foreign_name():
    nn.Sequential(nn.ReLU())


@case
def foreign_parameter():
    optim.adam(learning_rate=1e-3)


@case
def forward_and_no_call():
    class Net(nn.Module):
        def forward(self, x):
            return x

    Net()(X)


@case
def conversion_by_math():
    ws.grad(lambda x: math.sin(x), rewrite=False)(1.0)


@case
def conversion_by_np_array():
    ws.grad(lambda x: np.array([x[0], 2 * x[1]]).sum(), rewrite=False)(np.ones(3))


@case
def conversion_by_np_mean():
    ws.grad(lambda x: np.mean([x[0], 2 * x[1]]), rewrite=False)(np.ones(3))


@case
def conversion_of_a_slice():
    def f(x):
        out = np.zeros((3, 2))
        out[:, 0] = x
        return out.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@case
def conversion_of_an_element():
    def f(x):
        z = np.zeros(3)
        z[0] = x[0]
        return z.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@case
def conversion_into_an_array_from_outside():
    table = np.zeros(3)

    def f(x):
        table[0] = x[0]
        return table.sum()

    ws.grad(f)(np.ones(3))


@case
def conversion_into_an_argument_from_outside():
    ws.grad(lambda x, table: np.add(x, 1.0, out=table).sum())(np.ones(3), np.zeros(3))


@case
def assignment_into_an_array_of_the_surrounding_function():
    def f(x):
        z = np.zeros(3)

        def step(carry, v):
            z[0] = v
            return carry + z[0], None

        return ws.scan(step, x[0], x)[0]

    ws.grad(f)(np.ones(3))


@case
def conversion_after_the_trace():
    kept = []
    ws.grad(lambda x: kept.append(x.sum()) or (x * x).sum())(np.ones(3))
    float(kept[0])


@case
def grad_of_a_value():
    ws.grad(np.sin(1.0))


@case
def grad_with_the_argument():
    ws.grad(np.sin, 3.0)


@case
def function_in_c_without_a_formula():
    def order(a):
        return scipy.special.gammainc(a, 2.0).sum()

    ws.to_file(ws.grad(order), "order.c", np.ones(3))


@case
def function_in_c_of_sizes_without_numbers():
    ws.to_file(np.exp, "f.c", ws.ShapeDtype((ws.Dim("rows"), 3), "float64"))


@case
def function_in_c_by_the_name_of_one_of_the_library():
    ws.to_file(np.exp, "exp.c", np.ones(3))


@case
def function_for_a_page():
    ws.to_file(np.exp, "f.html", np.ones(3))


@case
def step_as_a_function():
    ws.to_file(compiled(), "f.c", X)


@case
def masked_array_function():
    ws.grad(lambda x: np.ma.masked_where(x > 1, x).mean())(np.ones(3))


@case
def result_to_be_recomputed():
    ws.grad(lambda x: ws.checkpoint(np.sin(x)))(1.0)


@case
def losses_formatted_after_the_trace():
    losses = []
    ws.jit(lambda x: losses.append(np.sum(x)) or np.sum(x))(np.ones(3))
    f"{losses[0]:.3f}"


@case
def rounded_by_python():
    ws.jit(lambda x: round(x, 2), rewrite=False)(1.0)


@case
def sorted_by_python():
    ws.jit(lambda x: np.stack(sorted(x)))(np.ones(3))


@case
def sorted_in_place():
    def smallest(x):
        elements = list(x)
        elements.sort()
        return elements[0]

    ws.jit(smallest)(np.ones(3))


@case
def largest_by_a_key():
    ws.jit(lambda x: max(x, key=lambda v: -v))(np.ones(3))


@case
def roots_of_traced_coefficients():
    ws.jit(lambda p: np.abs(np.roots(p)))(np.ones(3))


@case
def any_of_python():
    ws.jit(lambda x: x if any(x > 1) else -x)(np.ones(3))


@case
def among_the_elements():
    ws.jit(lambda x: x if 2.0 in x else -x)(np.ones(3))


@case
def number_of_each_kind():
    ws.jit(lambda k: np.bincount(k))(np.array([1, 2]))


@case
def different_values():
    ws.jit(lambda k: np.unique(k, return_counts=True))(np.array([1, 2]))


@case
def places_of_a_mask():
    ws.jit(lambda x: np.where(x > 1)[0])(np.ones(3))


@case
def array_of_text():
    ws.jit(lambda x: x)(np.array(["a", "b"]))


@case
def array_of_dates():
    ws.jit(lambda x: x)(np.array(["2020-01-01"], "datetime64[D]"))


@case
def iterator_of_memory():
    ws.jit(lambda x: sum(v for v in np.nditer(x)))(np.ones(3))


@case
def scipy_twin():
    ws.grad(lambda x: scipy.linalg.norm(x))(np.ones(3))


@case
def numpy_without_a_cover():
    ws.grad(lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)).sum())(np.ones(3))


@pytest.mark.parametrize("name", CASES)
def test_message(name, golden):
    with pytest.raises(WholestepError) as caught:
        CASES[name]()
    message, printed = str(caught.value), "".join(traceback.format_exception(caught.value))
    files = re.findall(r'^  File "(.*)", line', printed, re.M)
    assert files and not [file for file in files if is_internal(file)], printed
    assert "test_errors.py:" in message, "the message names the user's line"
    assert "src/wholestep" not in message and "/wholestep/" not in message, "an internal frame is in the message"
    kinds = ", ".join(base.__name__ for base in type(caught.value).__mro__ if base.__module__ == "builtins")
    text = re.sub(r"at line \d+", "at line N", re.sub(r"\S*test_errors\.py:\d+", "test_errors.py", message))
    golden(f"{type(caught.value).__name__} ({kinds})\n{text}")
