"""Names and parameters of other libraries: none is one of ours, and every answer names something that there is."""

import inspect
import re

import numpy as np
import pytest

import wholestep as ws
from wholestep.boundary.foreign import KEYWORDS, NAMES
from wholestep.errors import ArgumentError, UnknownNameError, UnsupportedError, WholestepError
from wholestep.frontend.array import Array
from wholestep.frontend.array_methods import METHODS
from wholestep.train.step.step import Step

PLACES = {"ws": ws, "ws.nn": ws.nn, "ws.nn.models": ws.nn.models, "ws.optim": ws.optim, "ws.random": ws.random}
CLASSES = {"model": ws.nn.Module, "step": Step, "x": Array}
ENTRIES = [(place, name) for place, names in NAMES.items() for name in names]


def found(dotted):
    """The object that a dotted name in an answer stands for."""
    first, *rest = dotted.split(".")
    at = {"ws": ws, "np": np, **CLASSES}[first]
    for name in rest:
        if at is Array and name in METHODS:
            return METHODS[name]
        at = getattr(at, name)
    return at


def looked_up(place, name):
    """Look a name up as a user would, in a module, a step, a model or a traced array."""
    if place in PLACES:
        return getattr(PLACES[place], name)
    if place == "step":
        return getattr(STEP, name)
    if place == "model":
        return getattr(ws.nn.Linear(2, 1, key=0), name)
    return ws.jit(lambda x: getattr(x, name))(np.ones(2))


STEP = ws.compile(lambda w, x: np.mean(w * x), np.ones(2), batch=np.ones(2))


def test_there_are_many():
    assert len({name for _, name in ENTRIES}) >= 200 and len(KEYWORDS) >= 60


@pytest.mark.parametrize(("place", "name"), ENTRIES)
def test_a_foreign_name_is_answered_with_one_that_there_is(place, name):
    answer = NAMES[place][name]
    for ours in answer.names.split(", "):
        assert found(ours) is not None
        assert ours != f"{place}.{name}"
    for named in re.findall(r"\b(?:ws|np)\.[\w.]*\w", answer.remark):
        assert found(named) is not None
    expected = UnsupportedError if place == "x" and hasattr(np.ndarray, name) else UnknownNameError
    with pytest.raises(expected) as caught:
        looked_up(place, name)
    assert answer.names.split(", ")[0] in str(caught.value) and "test_foreign_names.py" in str(caught.value)


@pytest.mark.parametrize(("place", "name"), [("ws", "relu"), ("ws", "adam"), ("ws.nn", "GELu"), ("ws.optim", "ADAMW")])
def test_names_of_other_namespaces_and_in_other_letters(place, name):
    with pytest.raises(UnknownNameError, match=r"use ws\.(nn|optim)\."):
        looked_up(place, name)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("relu_", "ws.nn.relu;"),
        ("normalize_", "ws.nn.l2_normalize;"),
        ("adaptive_max_pool2d_with_indices", "ws.nn.adaptive_max_pool;"),
        ("max_pool2d_with_indices", "ws.nn.max_pool2d.*return_indices=True"),
        ("dropout2d", "ws.nn.channel_dropout"),
    ],
)
def test_endings_of_pytorchs_names(name, ours):
    with pytest.raises(UnknownNameError, match=f"hint: use .*{ours}"):
        getattr(ws.nn, name)


def test_every_function_of_pytorch_is_here_or_has_an_answer():
    functional = pytest.importorskip("torch.nn.functional")
    inner = re.compile("handle_torch_function|has_torch_function|assert_int_or_pair|boolean_dispatch")
    for name, f in vars(functional).items():
        if callable(f) and name[0].islower() and not inner.match(name) and not hasattr(ws.nn, name):
            with pytest.raises(UnknownNameError, match="hint: use"):
                getattr(ws.nn, name)


@pytest.mark.parametrize(
    ("place", "name", "near"),
    [
        ("ws", "value_grad", "value_and_grad"),
        ("ws.nn", "Lineer", "Linear"),
        ("ws.nn", "cross_entropy_loss", "cross_entropy"),
        ("ws.optim", "adamm", "adam"),
        ("ws.optim", "cosine_decay", "cosine"),
    ],
)
def test_names_much_like_it_are_told(place, name, near):
    with pytest.raises(UnknownNameError, match=rf"names like it: (.*, )?{place}\.{near}(,|$)"):
        looked_up(place, name)


def test_they_are_attribute_errors():
    assert issubclass(UnknownNameError, AttributeError) and not hasattr(ws.nn, "ReLU")


@pytest.mark.parametrize("place", NAMES)
def test_any_other_name_is_an_ordinary_attribute_error(place):
    with pytest.raises(AttributeError) as caught:
        looked_up(place, "such_a_name")
    assert not isinstance(caught.value, WholestepError) and "such_a_name" in str(caught.value)


def callables():
    """Every public function and class."""
    for module in PLACES.values():
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isroutine(thing) or (inspect.isclass(thing) and not getattr(thing, "_is_protocol", False)):
                yield f"{module.__name__.replace('wholestep', 'ws')}.{name}", thing


def parameters(thing):
    return [
        p.name for p in inspect.signature(thing).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def test_every_parameter_in_the_table_is_one_of_ours():
    ours = {name for _, thing in callables() for name in parameters(thing)}
    for foreign, names in KEYWORDS.items():
        assert set(names) <= ours, foreign


FOREIGN_CALLS = {
    "adam": (lambda: ws.optim.adam(learning_rate=1e-3), "lr"),
    "adam betas": (lambda: ws.optim.adam(1e-3, betas=(0.9, 0.99)), "b1 and b2"),
    "rmsprop alpha": (lambda: ws.optim.rmsprop(1e-3, alpha=0.9), "keep"),
    "rmsprop rho": (lambda: ws.optim.rmsprop(1e-3, rho=0.9), "keep"),
    "one_cycle": (lambda: ws.optim.one_cycle(1e-3, 100, pct_start=0.3), "rise"),
    "one_cycle max_lr": (lambda: ws.optim.one_cycle(max_lr=1e-3, steps=100), "peak"),
    "cosine": (lambda: ws.optim.cosine(1e-3, T_max=100), "steps"),
    "Conv2d": (lambda: ws.nn.Conv2d(in_channels=3, out_channels=4, kernel_size=3, key=0), "inputs"),
    "Conv2d outputs": (lambda: ws.nn.Conv2d(3, out_channels=4, kernel_size=3, key=0), "outputs"),
    "Conv2d size": (lambda: ws.nn.Conv2d(3, 4, kernel_size=3, key=0), "size"),
    "Linear": (lambda: ws.nn.Linear(in_features=3, out_features=4, key=0), "inputs"),
    "Embedding": (lambda: ws.nn.Embedding(10, embedding_dim=4, key=0), "width"),
    "Embedding of Keras": (lambda: ws.nn.Embedding(10, output_dim=4, key=0), "width"),
    "LayerNorm": (lambda: ws.nn.LayerNorm(normalized_shape=4), "size"),
    "Dropout": (lambda: ws.nn.Dropout(rate=0.5), "p"),
    "attention": (lambda: ws.nn.MultiHeadAttention(8, num_heads=2, key=0), "heads"),
    "cross_entropy": (lambda: ws.nn.cross_entropy(np.ones((2, 3)), target=np.array([0, 1])), "targets"),
    "softmax": (lambda: ws.nn.softmax(np.ones(3), dim=0), "axis"),
    "grad": (lambda: ws.grad(np.sin, argnum=0), "argnums"),
    "compile": (lambda: ws.compile(loss_fn=np.sin, params=1.0, batch=1.0), "loss"),
    "fit": (lambda: ws.fit(STEP, np.ones((4, 2)), num_epochs=2), "epochs"),
    "fit validation": (lambda: ws.fit(STEP, np.ones((4, 2)), validation_data=np.ones((4, 2))), "validation"),
    "normal": (lambda: ws.random.normal(0, size=(3,)), "shape"),
    "leaky_relu": (lambda: ws.nn.leaky_relu(np.ones(3), negative_slope=0.1), "slope"),
}


@pytest.mark.parametrize("name", FOREIGN_CALLS)
def test_a_foreign_parameter_is_answered_with_ours(name):
    call, ours = FOREIGN_CALLS[name]
    with pytest.raises(ArgumentError) as caught:
        call()
    assert isinstance(caught.value, TypeError)
    assert f"hint: it is {ours}" in str(caught.value) and "test_foreign_names.py" in str(caught.value)


@pytest.mark.parametrize(("name", "thing"), list(callables()), ids=[name for name, _ in callables()])
def test_an_unknown_parameter_is_an_error_that_names_the_known_ones(name, thing):
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(thing).parameters.values()):
        pytest.skip("it takes any keyword")
    if isinstance(thing, type) and issubclass(thing, BaseException):
        pytest.skip("errors are raised here and not called")
    if isinstance(thing, type) and thing.__init__ is object.__init__:
        pytest.skip("it is there to be derived from, and has no constructor")
    with pytest.raises(ArgumentError) as caught:
        thing(such_a_parameter=1)
    text = str(caught.value)
    assert "such_a_parameter" in text and (not parameters(thing) or parameters(thing)[0] in text)


def test_completion_shows_public_names_alone():
    for module in PLACES.values():
        assert set(dir(module)) <= {*module.__all__, "__version__"}
    assert set(dir(ws.numpy)) >= {"mean", "linalg"}
    for inner in ("frontend", "lower", "passes", "importlib", "Any", "lazy", "LAZY"):
        assert inner not in dir(ws)
    for inner in ("marks", "blame", "places", "overview", "margins", "tables", "windows"):
        assert inner not in dir(ws.nn)
    assert not [
        name
        for name in dir(ws.numpy)
        if isinstance(getattr(ws.numpy, name), type(ws))
        and getattr(ws.numpy, name).__name__.startswith("wholestep")
        and name not in ws.numpy.__all__
    ]


def test_a_step_answers_without_slowing_its_other_attributes():
    assert not hasattr(Step, "__getattr__")  # it would slow down the lookup of every attribute in a call
    assert not set(NAMES["step"]) & set(dir(STEP)) and {"predict", "run"} <= set(dir(STEP))
