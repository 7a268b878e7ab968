"""The contract of jit, trace and eval_shape: one trace for each kind of call, strict, and with its reasons."""

import copy
import gc
import pickle
import threading
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, ShapeError, WholestepError
from wholestep.ir.text import parse, text_and_objects
from wholestep.ir.verify import verify

X = np.array([0.5, -1.0, 2.0])


def test_one_trace_for_each_kind_of_call():
    f = ws.jit(lambda x, flag=False: x * 2.0 if not flag else x)
    f(X), f(2 * X), f(np.ones(3))
    assert f.traces == 1
    f(X.astype(np.float32))
    f(np.ones(4))
    f(X, flag=True)
    f(1.0)
    f(np.float64(1.0))
    assert f.traces == 6
    assert f.reasons[0] == "first call"
    assert f.reasons[1] == "types changed: f64[3] -> f32[3]"
    assert "structure" in f.reasons[3]


def test_the_reason_tells_numbers_from_arrays_without_axes():
    f = ws.jit(lambda x: x * 2.0)
    f(np.array(1.0)), f(f(np.array(1.0)))
    assert f.reasons[1:] == ["types changed: f64 array -> f64 number of NumPy"]


def test_static_arguments():
    f = ws.jit(
        lambda x, axis, mode="a": x.sum(axis=axis) if mode == "a" else x,
        static_argnums=np.int64(1),
        static_argnames="mode",
    )
    x = np.ones((2, 3))
    assert f(x, 0).shape == (3,) and f(x, 1).shape == (2,) and f(x, 1, mode="b").shape == (2, 3)
    assert f.traces == 3
    assert f(x, axis=0).shape == (3,)
    with pytest.raises(ws.errors.StaticArgumentError, match="does not hash"):
        f(x, [0])
    with pytest.raises(ws.errors.TreeError):
        ws.jit(lambda x: x, static_argnames="nothing")


def test_methods_decorate():
    class Model:
        k = 3.0

        @ws.jit
        def scaled(self, x):
            return x * self.k

    model = Model()
    np.testing.assert_array_equal(model.scaled(X), 3 * X)
    np.testing.assert_array_equal(model.scaled(X), 3 * X)
    assert Model.scaled.traces == 1


def test_constants_are_listed_and_watched():
    table = np.arange(3.0)
    f = ws.jit(lambda x: x * table + table)
    f(X)
    assert len(f.constants) == 1 and f.constants[0] is table
    table[1] = 9.0
    with pytest.raises(ws.errors.MutationError):
        f(X)
    table[1] = 1.0
    f(X)


def test_a_changed_array_inside_a_loop_is_an_error():
    table = np.ones(3)
    f = ws.jit(lambda x: ws.scan(lambda carry, _: (carry + table, None), x, None, length=2)[0])
    assert f(np.zeros(3)).tolist() == [2.0, 2.0, 2.0]
    table[0] = 5.0
    with pytest.raises(ws.errors.MutationError):
        f(np.zeros(3))


def test_jit_inside_other_transforms():
    inner = ws.jit(lambda x: np.sin(x) * x)
    np.testing.assert_allclose(ws.grad(lambda x: inner(x).sum())(X), np.cos(X) * X + np.sin(X))
    np.testing.assert_allclose(ws.vmap(inner)(X), np.sin(X) * X)
    assert inner.traces == 2
    outer = ws.jit(lambda x: ws.grad(lambda y: inner(y * x).sum())(x))
    assert outer(X).shape == (3,)


def test_closing_over_a_traced_array_is_not_cached():
    def f(x):
        return ws.jit(lambda y: y * x)(2.0)

    assert ws.grad(f)(3.0) == 2.0
    assert ws.jit(ws.grad(f))(3.0) == 2.0


def test_graphs_print_parse_and_verify():
    def f(w, xs):
        def step(h, x):
            h = ws.cond(h.sum() > 0, np.tanh, np.sin, w @ h + x)
            return h, h[0]

        return ws.scan(ws.checkpoint(step), np.zeros(3), xs)[1].sum()

    graph = ws.trace(ws.value_and_grad(f))(np.eye(3), np.ones((4, 3)))
    verify(graph)
    source, objects = text_and_objects(graph)
    again = parse(source, objects)
    verify(again)
    assert str(again) == source


def test_text_that_is_no_graph():
    for source in ("", "x = 1", "def f(x: f64): return y", "def f(x: f64):\n  y: f64 = __import__(x)\n  return y", "("):
        with pytest.raises(ws.errors.GraphError):
            parse(source)
    with pytest.raises(ws.errors.GraphError, match="gives"):
        parse("def f(x: f64[3]):\n  y: f64[2] = sin(x)\n  return y")


def test_eval_shape_with_symbolic_sizes():
    B, T = ws.Dim("B"), ws.Dim("T")
    x = ws.ShapeDtype((B, T, 4), np.float32)
    w = ws.ShapeDtype((4, 8), np.float32)
    cases = {
        "matmul": (lambda x, w: x @ w, (B, T, 8)),
        "flatten": (lambda x, w: x.reshape(-1, 4), (B * T, 4)),
        "concatenate": (lambda x, w: np.concatenate([x, x[:, :1]], axis=1), (B, T + 1, 4)),
        "pairs": (lambda x, w: x.reshape(B, T * 2, 2), (B, 2 * T, 2)),
        "mean": (lambda x, w: x.mean(axis=(0, 2)), (T,)),
        "slice": (lambda x, w: x[:, :-1], (B, T - 1, 4)),
        "every second": (lambda x, w: x[:, ::2], (B, (T + 1) // 2, 4)),
        "softmax": (lambda x, w: np.exp(x) / np.exp(x).sum(-1, keepdims=True), (B, T, 4)),
        "gradient": (lambda x, w: ws.grad(lambda w: np.tanh(x @ w).sum())(w), (4, 8)),
        "batch gradient": (lambda x, w: ws.grad(lambda x: np.tanh(x @ w).sum())(x), (B, T, 4)),
        "vmap": (lambda x, w: ws.vmap(lambda row: row @ w)(x), (B, T, 8)),
        "scan": (lambda x, w: ws.scan(lambda c, r: (c + r.sum(), r[0]), np.float32(0), x)[1], (B, 4)),
    }
    for name, (f, shape) in cases.items():
        found = ws.eval_shape(f, x, w)
        assert found.shape == shape and found.dtype == np.float32, name
    with pytest.raises(ws.errors.ShapeError):
        ws.eval_shape(lambda x, w: x + np.ones((3, 5, 4)), x, w)
    assert ws.eval_shape(lambda x: {"a": x.astype(int)}, X)["a"] == ws.ShapeDtype((3,), np.int64)


def test_threads_trace_side_by_side():
    failures = []

    def work(k):
        try:
            for _ in range(20):
                np.testing.assert_allclose(ws.grad(lambda x: (np.sin(x) * k).sum())(X), np.cos(X) * k)
                np.testing.assert_allclose(ws.jit(lambda x: x * k)(X), X * k)
        except Exception as error:  # any exception in a thread is a failure to report
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_grows_from_step_to_step():
    step = ws.jit(ws.value_and_grad(lambda x: (np.tanh(x) ** 2).sum()))
    eager = ws.value_and_grad(lambda x: (np.tanh(x) ** 2).sum())

    def run(n):
        for _ in range(n):
            step(X), eager(X)
        gc.collect()

    run(50)
    tracemalloc.start()
    run(50)
    before = tracemalloc.get_traced_memory()[0]
    run(1000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50_000, "a step that kept one array would keep a hundred bytes each time"


@ws.jit
def doubled(x):
    return 2.0 * x


def repeated(x, n):
    return x * np.ones(n)


def test_a_program_goes_to_another_process_as_its_function():
    assert pickle.loads(pickle.dumps(doubled)) is doubled and copy.deepcopy([doubled]) == [doubled]
    made = ws.jit(repeated, static_argnames="n", device="reference")
    made(1.0, 2)
    other = pickle.loads(pickle.dumps(made))
    assert other.traces == 0 and other.device == "reference" and other(2.0, n=3).tolist() == [2.0] * 3
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ws.jit(lambda x: x))


def test_a_shape_without_an_array_has_no_negative_size():
    with pytest.raises(ShapeError, match=r"(?s)'rows' is a str, and no size of an axis.*ws.Dim\('rows'\)"):
        ws.ShapeDtype(("rows", 2))
    with pytest.raises(ShapeError, match=r"2.0 is a float, and no size of an axis"):
        ws.ShapeDtype(2.0)
    with pytest.raises(ShapeError, match=r"ShapeDtype: shape \(2, -1\) has a negative size"):
        ws.ShapeDtype((2, -1))
    assert ws.ShapeDtype(0).shape == (0,)
    assert ws.ShapeDtype(2, "f4") == ws.ShapeDtype(2, "f32")
    with pytest.raises(DtypeError, match='"i8" is int64 in NumPy and int8 in the text') as found:
        ws.ShapeDtype(2, "i8")
    assert 'hint: write "int64" or "int8"' in str(found.value)


def test_a_python_number_is_compared_with_another():
    compared = ws.jit(lambda n: (n <= 3, 2 < n, n == 3, n != 2.5, 10**30 > n))
    assert [bool(x) for x in compared(3)] == [True, True, True, True, True]
    assert [bool(x) for x in compared(2)] == [True, False, False, True, True]


def test_static_values_that_are_equal_and_differ_have_programs_of_their_own():
    scaled = ws.jit(lambda x, by: x.astype(int) * by[0], static_argnames="by")
    assert [scaled(np.ones(2), by=by).dtype for by in ((2,), (2.0,), (np.float32(2),))] == [
        "int64",
        "float64",
        "float64",
    ]
    assert scaled.traces == 3 and scaled(np.ones(2), by=(2.0,)).dtype == "float64" and scaled.traces == 3
    signed = ws.jit(np.copysign, static_argnums=1)
    assert [float(signed(1.0, zero)) for zero in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0] and signed.traces == 2
    undefined = ws.jit(lambda x, by: x * by, static_argnums=1)
    assert np.isnan(undefined(1.0, float("nan"))) and np.isnan(undefined(1.0, float("nan"))) and undefined.traces == 1
    zero = 0.0
    read = ws.jit(lambda x: np.copysign(x, zero))
    assert read(1.0) == 1.0
    zero = -0.0
    assert read(1.0) == -1.0


def test_the_order_of_keys_is_that_of_the_call():
    joined = ws.jit(lambda d: np.concatenate(list(d.values())))
    a, b = np.array([1.0]), np.array([2.0, 3.0])
    for _ in range(2):  # by the slow path, and by the fast one
        assert joined({"a": a, "b": b}).tolist() == joined({"a": a, "b": b}).tolist() == [1.0, 2.0, 3.0]
        assert joined({"b": b, "a": a}).tolist() == joined({"b": b, "a": a}).tolist() == [2.0, 3.0, 1.0]
    assert joined.traces == 2
    free = ws.jit(lambda **arrays: np.concatenate([*arrays.values()]))
    assert [free(a=a, b=b)[0], free(b=b, a=a)[0]] == [1.0, 2.0]
    named = ws.jit(lambda a, b: a - b[0])
    assert named(a=a, b=b) == named(b=b, a=a) == -1.0 and named.traces == 1


@pytest.mark.parametrize(
    "number",
    [lambda t: t.max(), lambda t: t[0], np.mean, lambda t: t * 2, lambda t: 1.0 if t[0] > 5 else -1.0],
    ids=["max", "element", "mean", "product", "branch"],
)
def test_an_array_that_numpy_turned_into_a_number_is_watched(number):
    table = np.arange(3.0)
    scaled = ws.jit(lambda x: x * number(table))
    assert np.array_equal(scaled(np.ones(3)), np.ones(3) * number(table))
    table[0] = 100.0
    with pytest.raises(ws.errors.MutationError, match=r"f64\[3\]"):
        scaled(np.ones(3))
    table[0] = 0.0
    assert np.array_equal(scaled(np.ones(3)), np.ones(3) * number(table))


def test_what_is_said_of_a_dataclass_makes_it_a_tree() -> None:
    @dataclass
    class Layer:
        w: Any
        b: Any = field(default=0.0, kw_only=True)

    def loss(layer: Any, x: Any) -> Any:
        return np.sum(layer.w * x) + layer.b

    layer, x = Layer(np.ones(3), b=np.float64(2.0)), np.arange(3.0)
    hints = set()
    for call in (
        lambda: ws.jit(loss)(layer, x),
        lambda: ws.grad(loss)(layer, x),
        lambda: ws.compile(loss, layer, optimizer=ws.optim.sgd(0.1), batch=x),
    ):
        with pytest.raises(WholestepError, match="makes it a tree") as caught:
            call()
        hints.add(str(caught.value).partition("hint: ")[2].removesuffix(" makes it a tree"))
    (hint,) = hints
    eval(hint, {"ws": ws, "Layer": Layer})  # the text that a user is to write
    assert float(ws.jit(loss)(layer, x)) == 5.0
    assert ws.grad(loss)(layer, x).w.tolist() == [0.0, 1.0, 2.0]


class Holder:
    """An object of a user's class with a dictionary in it."""

    def __init__(self, terms: Any) -> None:
        self.terms = terms


ws.tree.register(Holder, lambda h: ((h.terms,), None, ("terms",)), lambda _, terms: Holder(*terms))


class Terms(ws.nn.Module):
    """A model with a dictionary in it."""

    def __init__(self, terms: Any) -> None:
        self.terms = terms


@pytest.mark.parametrize("kind", [dict, Holder, Terms])
def test_keys_in_another_order_are_another_program_in_whatever_holds_them(kind: Any) -> None:
    def told(held: Any) -> Any:
        total = np.float64(0.0)
        for term in (held if isinstance(held, dict) else held.terms).values():
            total = total * 10.0 + term
        return total

    jitted, a, b = ws.jit(told), np.float64(1.0), np.float64(2.0)
    for _ in range(3):
        assert [jitted(kind({"a": a, "b": b})), jitted(kind({"b": b, "a": a}))] == [12.0, 21.0]


def test_outlines_of_models_are_equal_in_any_order_of_keys() -> None:
    one, other = [Terms({k: np.array(float(k == "b")) for k in keys}) for keys in ("ab", "ba")]
    assert ws.tree.structure(one) != ws.tree.structure(other)
    added = ws.tree.map(lambda x, y: x + y, one, other)
    assert added.terms == {"a": 0.0, "b": 2.0}
