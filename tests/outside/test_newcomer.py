"""A hundred mistakes of newcomers: each gets an error or a warning that names their line and the remedy."""

import math
import pickle
import random
import re
import time
import warnings
from math import exp

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, optim
from wholestep.errors import WholestepError, WholestepWarning
from wholestep.train.loop.callbacks import EarlyStopping

R = np.random.default_rng(0)
X, Y = R.normal(size=(16, 3)).astype(np.float32), R.normal(size=(16, 1)).astype(np.float32)
LABELS = R.integers(0, 4, 16)
BATCH = {"x": X, "y": Y}

MISTAKES = {}


def mistake(*words):
    """A decorator of a function with one mistake: the words that its message must contain."""

    def note(f):
        assert f.__name__ not in MISTAKES
        MISTAKES[f.__name__] = f, words
        return f

    return note


def linear(key=0):
    return nn.Linear(3, 1, key=key)


def loss(model, batch):
    return nn.mse(model(batch["x"]), batch["y"])


def compiled(f=loss, model=None, batch=None, **options):
    options = {"optimizer": optim.sgd(0.1), **options}
    return ws.compile(f, linear() if model is None else model, batch=BATCH if batch is None else batch, **options)


# Names of other libraries


@mistake("nn.relu")
def torch_activation():
    nn.Sequential(nn.Linear(3, 4, key=0), nn.ReLU())


@mistake("nn.Linear")
def keras_layer():
    nn.Dense(4)


@mistake("nn.cross_entropy")
def torch_loss():
    nn.CrossEntropyLoss()(X, LABELS)


@mistake("nn.mse")
def torch_mse():
    nn.MSELoss()


@mistake("ws.optim.adam")
def torch_optimizer():
    optim.Adam(1e-3)


@mistake("optim.sgd")
def torch_sgd():
    optim.SGD(0.1)


@mistake("adamw")
def torch_adamw():
    optim.AdamW(1e-3)


@mistake("lr")
def keras_learning_rate():
    optim.adam(learning_rate=1e-3)


@mistake("keep")
def torch_rmsprop():
    optim.rmsprop(1e-3, alpha=0.9)


@mistake("rise")
def torch_one_cycle():
    optim.one_cycle(1e-3, 100, pct_start=0.3)


@mistake("cosine")
def torch_scheduler():
    optim.lr_scheduler.CosineAnnealingLR(0.1, 10)


@mistake("inputs")
def torch_conv():
    nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3, key=0)


@mistake("argnums")
def autograd_argnum():
    ws.grad(np.sin, argnum=0)


@mistake("stop_gradient")
def torch_no_grad():
    with ws.no_grad():
        pass


@mistake("np.array")
def torch_tensor():
    ws.tensor([1.0, 2.0])


@mistake("ws.hvp")
def autograd_hvp():
    ws.hessian_vector_product(np.sin)


@mistake("ws.random.key")
def jax_key():
    ws.random.PRNGKey(0)


@mistake("ws.random.normal")
def torch_randn():
    ws.random.randn(3, 4)


@mistake("ws.Loader")
def torch_loader():
    ws.DataLoader(BATCH, batch_size=4)


@mistake("nn.named_parameters")
def torch_parameters():
    linear().parameters()


@mistake("nn.split")
def torch_state_dict():
    linear().state_dict()


@mistake("nn.join")
def torch_load_state_dict():
    linear().load_state_dict({})


@mistake("device=")
def torch_to_device():
    linear().to("cuda")


@mistake("ws.compile")
def keras_compile():
    linear().compile(optimizer="adam", loss="mse")


@mistake("ws.fit")
def keras_fit():
    linear().fit(X, Y)


@mistake("ws.compile")
def torch_zero_grad():
    step = compiled()
    step.zero_grad()


@mistake("ws.grad")
def torch_backward():
    def f(w):
        total = (w * w).sum()
        total.backward()
        return total

    ws.grad(f)(np.ones(3))


@mistake("stop_gradient")
def torch_detach():
    ws.grad(lambda w: (w * w.detach()).sum())(np.ones(3))


@mistake("reshape")
def torch_view():
    ws.grad(lambda w: w.view(3, 1).sum())(np.ones(3))


@mistake("astype")
def torch_float():
    ws.grad(lambda w: w.float().sum())(np.ones(3))


@mistake("copy")
def jax_at():
    ws.grad(lambda w: w.at[0].set(1.0).sum())(np.ones(3))


@mistake("__call__")
def torch_forward():
    class Net(nn.Module):
        def __init__(self):
            self.weight = np.ones(3)

        def forward(self, x):
            return x @ self.weight

    Net()(X)


# Calls


@mistake("key=0")
def no_key():
    nn.Linear(3, 4)(np.ones(3, np.float32))


@mistake("ws.optim.adam")
def optimizer_as_text():
    compiled(optimizer="adam")


@mistake("optim.adam(")
def optimizer_not_called():
    compiled(optimizer=optim.adam)


@mistake("ws.compile")
def fit_of_a_model():
    ws.fit(linear(), BATCH)


@mistake("on_epoch")
def callback_is_a_function():
    ws.fit(compiled(), BATCH, callbacks=[lambda run: None], progress=None)


@mistake("(x, y)")
def two_arguments_to_a_step():
    step = compiled()
    step(X, Y)


@mistake("batch=")
def no_batch():
    ws.compile(loss, linear(), optimizer=optim.sgd(0.1))


@mistake("opencl")
def gpu():
    compiled(device="gpu")


@mistake("cuda")
def tpu():
    ws.jit(np.sin, device="tpu")


@mistake("def loss")
def loss_as_text():
    compiled("mse")


@mistake("drop_last")
def nothing_left():
    list(ws.Loader({"x": X[:5], "y": Y[:5]}, 16, drop_last=True))


@mistake("epochs")
def torch_epochs():
    ws.fit(compiled(), BATCH, num_epochs=2)


@mistake("validation")
def metrics_without_validation():
    ws.fit(compiled(), BATCH, metrics={"mae": loss})


@mistake("one of")
def unknown_precision():
    compiled(precision="half")


@mistake("0 or more")
def rate_is_negative():
    optim.sgd(-0.1)


@mistake("function")
def grad_of_a_value():
    ws.grad(np.sin(1.0))(1.0)


@mistake("grad(f)(x)")
def grad_called_with_the_argument():
    ws.grad(lambda x: x * x, 3.0)


# Losses


@mistake("return")
def loss_without_return():
    def f(model, batch):
        nn.mse(model(batch["x"]), batch["y"])

    compiled(f)


@mistake("np.mean")
def vector_loss():
    compiled(lambda model, batch: (model(batch["x"]) - batch["y"])[:, 0] ** 2)


@mistake("has_aux")
def loss_and_more():
    def f(model, batch):
        out = model(batch["x"])
        return nn.mse(out, batch["y"]), out

    compiled(f)


@mistake("np.mean")
def vector_in_grad():
    ws.grad(lambda x: x * 2)(np.ones(3))


@mistake("argnums")
def gradient_of_labels():
    ws.grad(lambda labels, w: (w * labels).sum())(LABELS, 1.0)


@mistake("0 to 3")
def label_too_large():
    nn.cross_entropy(R.normal(size=(2, 4)), np.array([0, 5]))


@mistake("0 to 3")
def label_too_large_compiled():
    step = ws.compile(
        lambda w, b: nn.cross_entropy(b["x"] @ w, b["y"]),
        np.ones((3, 4), np.float32),
        optimizer=optim.sgd(0.1),
        batch={"x": X, "y": LABELS},
    )
    step({"x": X, "y": np.full(16, 5)})


@mistake("shape")
def column_against_row():
    nn.mse(X[:, :1], Y[:, 0])


@mistake("in")
def wrong_width():
    nn.Linear(5, 2, key=0)(X)


@mistake("np.moveaxis")
def channels_last():
    nn.Conv2d(1, 4, 3, key=0)(np.ones((2, 28, 28, 1), np.float32))


@mistake("batch.x")
def wrong_key_in_the_batch():
    step = compiled()
    step({"X": X, "y": Y})


@mistake("float32")
def double_against_single():
    step = compiled()
    step({"x": X.astype(np.float64), "y": Y})


@mistake("key")
def dropout_without_key():
    compiled(model=nn.Sequential(nn.Linear(3, 4, key=0), nn.Dropout(0.5), nn.Linear(4, 1, key=1)))


# Python on traced values


@mistake("np.where")
def an_if():
    def f(x):
        if x > 0:
            return x
        return -x

    ws.jit(f)(1.0)


@mistake("ws.while_loop")
def a_while():
    def f(x):
        while x > 1:
            x = x / 2
        return x

    ws.jit(f)(5.0)


@mistake("np.where")
def a_maximum():
    ws.jit(lambda x, y: max(x, y), rewrite=False)(1.0, 2.0)


@mistake("np.sin")
def math_sin():
    ws.grad(lambda x: math.sin(x), rewrite=False)(1.0)


@mistake("np.sqrt")
def math_sqrt():
    def f(params):
        norm = math.sqrt(np.sum(params * params))
        return norm

    ws.grad(f, rewrite=False)(np.ones(3))


@mistake("np.exp")
def imported_exp():
    ws.grad(lambda x: exp(x), rewrite=False)(1.0)


@mistake("astype")
def a_float():
    ws.grad(lambda x: float(x) * x, rewrite=False)(3.0)


@mistake("ws.capture")
def an_item():
    def f(x):
        print(x.item())
        return x * x

    ws.grad(f)(3.0)


@mistake("ws.capture")
def numpy_of_it():
    ws.grad(lambda x: x.numpy().sum())(np.ones(3))


@mistake("has_aux=True", "ws.capture")
def kept_in_a_list():
    kept = []

    def f(x):
        kept.append(x * 2)
        return (x * x).sum()

    ws.grad(f)(np.ones(3))
    print(kept[0] + 1)


@mistake("has_aux=True")
def kept_and_converted():
    kept = []

    def f(x):
        kept.append(x.sum())
        return (x * x).sum()

    ws.grad(f)(np.ones(3))
    float(kept[0])


@mistake("ws.numpy.array")
def np_array_of_a_list():
    ws.grad(lambda x: np.array([x[0], 2 * x[1]]).sum(), rewrite=False)(np.ones(3))


@mistake("ws.numpy.asarray")
def np_asarray_of_a_list():
    ws.grad(lambda x: np.asarray([x[0], 2 * x[1]]).sum(), rewrite=False)(np.ones(3))


@mistake("np.stack")
def np_mean_of_a_list():
    ws.grad(lambda x: np.mean([x[0], 2 * x[1]]), rewrite=False)(np.ones(3))


@mistake("np.stack")
def np_max_of_a_list():
    ws.grad(lambda x: np.max([x[0], 2 * x[1]]), rewrite=False)(np.ones(3))


@mistake("`out`", "ws.numpy.zeros")
def columns_of_np_zeros():
    w = R.normal(size=(3, 4))

    def f(x):
        out = np.zeros((16, 4))
        for i in range(4):
            out[:, i] = x @ w[:, i]
        return out.sum()

    ws.grad(f, rewrite=False)(X.astype(np.float64))


@mistake("`z`", "ws.numpy.zeros")
def elements_of_np_zeros():
    def f(x):
        z = np.zeros(3)
        z[0] = x[0]
        return z.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@mistake("`out`", "ws.numpy.empty")
def out_of_np_empty():
    def f(x):
        out = np.empty(3)
        np.multiply(x, 2.0, out=out)
        return out.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@mistake("`total`", "ws.numpy.zeros")
def in_place_sum():
    def f(x):
        total = np.zeros(3)
        total += x
        return total.sum()

    ws.grad(f, rewrite=False)(np.ones(3))


@mistake("wholestep.numpy.array")
def table_by_traced_index():
    table = np.arange(4.0)
    ws.grad(lambda x: np.sum(x * table[np.argsort(x)]), rewrite=False)(np.ones(3))


@mistake("floating-point values")
def histogram():
    ws.grad(lambda x: np.histogram(x)[0].sum())(np.ones(3))


@mistake("np.where")
def shape_of_a_mask():
    ws.jit(lambda x: x[x > 0].reshape(3, -1))(np.ones(3))


@mistake("argument")
def array_changed_after_the_call():
    table = np.ones(3)
    f = ws.jit(lambda x: x * table)
    f(np.ones(3))
    table[0] = 2.0
    f(np.ones(3))


@mistake("tuple")
def unhashable_static():
    ws.jit(lambda x, axes: x.sum(axis=tuple(axes)), static_argnums=1)(np.ones((2, 3)), [0, 1])


@mistake("nn.buffer")
def field_assigned_in_the_forward():
    class Net(nn.Module):
        def __init__(self):
            self.weight = np.ones((3, 1), np.float32)

        def __call__(self, x):
            self.calls = 1
            return x @ self.weight

    compiled(model=Net())


@mistake("nn.frozen")
def integers_in_a_field():
    class Net(nn.Module):
        def __init__(self):
            self.ids = np.arange(3)

    Net()


@mistake("float")
def integer_parameters():
    compiled(lambda w, b: np.mean(b["x"] @ w), np.zeros((3, 1), np.int64))


# Data, checkpoints and training


@mistake("params")
def other_architecture(tmp_path):
    step = compiled(model=nn.MLP([3, 8, 1], key=0))
    step.save(tmp_path / "a.safetensors")
    compiled(model=nn.MLP([3, 16, 1], key=0)).load(tmp_path / "a.safetensors")


@mistake("only=")
def other_optimizer(tmp_path):
    compiled(optimizer=optim.adam(0.1)).save(tmp_path / "a.safetensors")
    compiled(optimizer=optim.sgd(0.1)).load(tmp_path / "a.safetensors")


@mistake("there are")
def unknown_metric():
    ws.fit(compiled(), BATCH, callbacks=[early("val_accuracy")], progress=None)


@mistake("lr")
def unknown_hyper_parameter():
    compiled().set(learning_rate=0.1)


@mistake("step.state")
def pickled_step():
    pickle.dumps(compiled())


@mistake("labels")
def text_labels():
    compiled(batch={"x": X, "y": np.array(["cat", "dog"] * 8)})


@mistake("checkpoint=")
def resume_without_a_checkpoint():
    ws.fit(compiled(), BATCH, resume=True, progress=None)


@mistake("one of them")
def epochs_and_steps():
    ws.fit(compiled(), BATCH, epochs=2, steps=100, progress=None)


@mistake("(carry, None)")
def scan_without_a_result():
    ws.scan(lambda total, x: total + x, 0.0, np.ones(3))


@mistake("np.where")
def cond_on_an_array():
    ws.jit(lambda x: ws.cond(x > 0, lambda x: x, lambda x: -x, x))(np.ones(3))


@mistake("relu(x)")
def activation_called_at_once():
    nn.Sequential(nn.Linear(3, 4, key=0), nn.relu())


@mistake("ws.random.key")
def random_without_a_key():
    ws.random.normal((3, 4))


@mistake("step.params")
def model_of_plain_parameters():
    print(compiled(lambda w, b: np.mean((b["x"] @ w) ** 2), np.ones((3, 1), np.float32)).model)


@mistake("stack")
def many_steps_of_one_batch():
    compiled(steps_per_call=4)


@mistake("ws.capture")
def capture_that_is_not_there():
    compiled(captures="hidden")


@mistake("str.format")
def print_without_values():
    ws.print("{} and {}", 1.0)


@mistake("axis")
def labels_as_a_column():
    nn.cross_entropy(R.normal(size=(16, 4)), LABELS[:, None])


@mistake("astype")
def labels_as_text_of_numbers():
    nn.nll_loss(R.normal(size=(16, 4)), LABELS.astype(np.float64))


@mistake("model")
def optimizer_before_the_model():
    ws.compile(loss, optim.sgd(0.1), batch=BATCH)


@mistake("model")
def the_model_from_outside():
    model = linear()
    compiled(lambda params, batch: nn.mse(model(batch["x"]), batch["y"]), model)


@mistake("*, key")
def numpy_random():
    def f(params, batch):
        return np.mean((batch["x"] @ params["w"] + np.random.normal(size=(16, 1))) ** 2)

    compiled(f, {"w": np.zeros((3, 1), np.float32)})


@mistake("*, key")
def generator_in_a_closure():
    rng = np.random.default_rng(0)
    ws.jit(lambda x: x + rng.normal(size=3))(np.ones(3))


@mistake("*, key")
def python_random():
    ws.jit(lambda x: x * random.random())(np.ones(3))


@mistake("outside")
def clock():
    ws.jit(lambda x: x * time.time())(np.ones(3))


@mistake("optimizer")
def fit_without_an_optimizer():
    ws.fit(compiled(optimizer=None), BATCH, progress=None)


@mistake("diagnose")
def nan_in_the_data():
    ws.fit(
        compiled(),
        {"x": np.full((64, 3), np.nan, np.float32), "y": np.ones((64, 1), np.float32)},
        progress=None,
        epochs=30,
    )


@mistake("key=")
def twin_keys():
    compiled(model=nn.Sequential(nn.Linear(3, 3, key=0), nn.Linear(3, 3, key=0), nn.Linear(3, 1, key=1)))


@mistake("float32")
def mixed_dtypes():
    params = {"a": np.ones((3, 1), np.float32), "b": np.ones(1)}
    compiled(lambda p, b: np.mean((b["x"] @ p["a"] + p["b"]) ** 2), params)


@mistake("unused")
def a_part_that_is_not_used():
    class Net(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(3, 1, key=0), nn.Linear(3, 1, key=1)

        def __call__(self, x):
            return self.a(x)

    compiled(model=Net())


def early(metric):
    return EarlyStopping(metric)


EXCEPTIONS = {}
"""Mistakes whose message names no remedy, each with the reason."""


def judged(f, words, *args):
    """The fault of the answer to a mistake; "" for a good answer."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            f(*args)
        except WholestepError as error:
            text = str(error)
        except Exception as error:
            return f"it ends in {type(error).__name__}: {error}"
        else:
            texts = [str(w.message) for w in caught if issubclass(w.category, WholestepWarning)]
            if not texts:
                return "nothing is said"
            text = texts[0]
    own = {line for g in (f, compiled, loss) for code in family(g.__code__) for *_, line in code.co_lines()}
    if not any(int(line) in own for line in re.findall(r"test_newcomer\.py:(\d+)", text)):
        return f"it does not name the line: {text}"
    if not re.search("hint: |it is one of|it must be", text):
        return f"it does not say what to write: {text}"
    missing = [word for word in words if word not in text]
    return f"it does not say {missing}: {text}" if missing else ""


def family(code):
    """A code object and those inside of it."""
    yield code
    for inner in code.co_consts:
        if hasattr(inner, "co_lines"):
            yield from family(inner)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered(name, tmp_path):
    f, words = MISTAKES[name]
    wrong = judged(f, words, *[tmp_path] * f.__code__.co_argcount)
    if name in EXCEPTIONS:
        assert wrong, "it is answered now: take it off the list"
    else:
        assert not wrong, wrong


def test_the_judge_can_fail():
    def silent():
        pass

    def foreign():
        raise ValueError("no")

    def elsewhere():
        MISTAKES["no_key"][0]()

    assert judged(silent, []) == "nothing is said"
    assert "ValueError" in judged(foreign, [])
    assert "does not name the line" in judged(elsewhere, [])
    assert "does not say ['such']" in judged(MISTAKES["no_key"][0], ["such"])


def test_there_are_a_hundred():
    assert len(MISTAKES) >= 100 and len(EXCEPTIONS) <= 5 and set(EXCEPTIONS) <= set(MISTAKES)
