"""Every two options of a step go together: to the same bits where one of them promises these, or by a clear refusal."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import WholestepError

STEPS, ROWS, WIDTH, LAYERS = 3, 48, 6, 5
pytestmark = pytest.mark.usefixtures("quick_modules")


class Option(NamedTuple):
    """Arguments of `compile`, or of the model's constructor, and the promises of a step with them.

    `exact` is the promise that it changes no bit of losses and parameters, beside any other option. The others come
    `close` to the plain step, or compute something else.
    """

    given: dict[str, Any]
    exact: bool = True
    close: float = 1e-4


OPTIONS = {
    "several": Option({"steps_per_call": STEPS}),
    "through": Option({"steps_per_call": STEPS, "unroll": "through"}),
    "budget": Option({"memory_budget": "96%"}),
    "captures": Option({"captures": ("h",)}),
    "aux": Option({"has_aux": True}),
    "guard loss": Option({"guard": "loss"}),
    "no guard": Option({"guard": None}),
    "keep inputs": Option({"keep": "inputs"}),
    "keep contractions": Option({"keep": "contractions"}),
    "keep two": Option({"keep": 2}),
    "stream": Option({"stream": "layers*"}),
    "roll": Option({"roll": True}, exact=False),
    "symbolic": Option({"symbolic": True}, exact=False),
    "microbatch": Option({"microbatch": 24}, exact=False),
    "reference": Option({"device": "reference"}, exact=False),
    "dynamic": Option({"loss_scale": "dynamic"}, exact=False, close=np.inf),
    "float64": Option({"precision": "float64"}, exact=False),
    "bfloat16": Option({"precision": "bfloat16"}, exact=False, close=0.05),
    "float16": Option({"precision": "float16", "loss_scale": 8.0}, exact=False, close=0.05),
    "noise": Option({"noise": True}, exact=False, close=np.inf),
}
REFUSED = {
    ("aux", "microbatch"): "goes with neither has_aux nor captures",
    ("captures", "microbatch"): "goes with neither has_aux nor captures",
    ("budget", "symbolic"): "memory_budget is kept for numbers",
    ("budget", "reference"): "plans no memory",
    ("guard loss", "dynamic"): "a dynamic loss_scale with guard='loss'",
    ("no guard", "dynamic"): "a dynamic loss_scale with guard=None",
    ("stream", "symbolic"): "in rows of known size",
    ("stream", "float64"): "does not turn parameters into float64",
    ("stream", "roll"): "roll=True joins arrays",
    ("roll", "symbolic"): "roll=True keeps what layers leave",
    ("symbolic", "microbatch"): "the number of its rows is symbolic",
}
"""Pairs of options that exclude each other, and the message for each."""
INSIDE = dict.fromkeys(
    [("captures", keep) for keep in ("keep inputs", "keep contractions", "keep two")], "names no value 'h'"
)
"""Pairs that exclude each other where the captured value is inside a checkpoint."""
WOVEN = "through budget stream roll symbolic microbatch".split()
"""The options that change the program most: all pairs of them run on both models, other pairs on one model."""
CHECKPOINTS = {"all": None, "inputs": {}, "contractions": {"policy": "contractions"}, 2: {"policy": ["h"]}}


def block(h, p):
    h = h + ws.capture("h", np.tanh(h @ p["w"] + p["b"]))
    return (h - h.mean(axis=-1, keepdims=True)) / np.sqrt(h.var(axis=-1, keepdims=True) + 1e-5)


def listed(keep):
    """Layers in a Python loop."""
    rng = np.random.default_rng(0)
    layer = block if CHECKPOINTS[keep] is None else ws.checkpoint(block, **CHECKPOINTS[keep])
    layers = [{"w": rng.normal(size=(WIDTH, WIDTH)) / 3, "b": np.zeros(WIDTH)} for _ in range(LAYERS)]
    params = {"layers": layers, "head": rng.normal(size=(WIDTH, 2)) / 3}

    def forward(params, x):
        for p in params["layers"]:
            x = layer(x, p)
        return x @ params["head"]

    return forward, ws.tree.map(lambda x: x.astype(np.float32), params)


class Network(nn.Module):
    def __init__(self, keep):
        self.entry = nn.MLP((WIDTH, 20, 20, 20, WIDTH), key=2, activation=np.tanh)
        self.layers = nn.Stack(lambda key: Block(key), LAYERS, key=0, keep=keep)
        self.head = nn.Linear(WIDTH, 2, key=1)

    def __call__(self, x):
        return self.head(self.layers(self.entry(x)))


class Block(nn.Module):
    def __init__(self, key):
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH, key=key)

    def __call__(self, x):
        return x + np.tanh(self.linear(self.norm(x)))


def stacked(keep):
    """Layers in a stack."""
    return lambda model, x: model(x), Network(keep)


MODELS = {"listed": listed, "stacked": stacked}


class Trained(NamedTuple):
    """Losses and parameters after three steps, and the slopes of the losses where these were asked for."""

    values: list[Any]
    slopes: list[Any]


def training(model, options, folder):
    """Three steps with these options."""
    given = {"optimizer": ws.optim.sgd(0.02, momentum=0.9), "roll": False}
    for option in options:
        given |= option.given
    forward, params = MODELS[model](given.pop("keep", "all"))
    aux, noise, symbolic = given.get("has_aux", False), given.pop("noise", False), given.pop("symbolic", False)
    if "stream" in given:
        given["folder"] = folder

    def value(params, batch, x):
        y = ws.capture("h", forward(params, x)) if model == "stacked" else forward(params, x)
        loss = np.mean((y - batch["y"]) ** 2)
        return (loss, {"y": np.mean(y)}) if aux else loss

    def noisy(params, batch, *, key):
        return value(params, batch, batch["x"] + ws.random.normal(key, batch["x"].shape, np.float32))

    rng = np.random.default_rng(1)
    batches = {"x": rng.normal(size=(STEPS, ROWS, WIDTH)), "y": rng.normal(size=(STEPS, ROWS, 2))}
    batches = {name: x.astype(np.float32) for name, x in batches.items()}
    count = given.get("steps_per_call", 1)
    calls = [batches] if count > 1 else [{name: x[i] for name, x in batches.items()} for i in range(STEPS)]
    shapes = {n: ws.ShapeDtype((*x.shape[:-2], ws.Dim("B"), x.shape[-1]), x.dtype) for n, x in calls[0].items()}
    loss = noisy if noise else lambda params, batch: value(params, batch, batch["x"])
    step = ws.compile(loss, params, batch=shapes if symbolic else calls[0], **given)
    results = [step(batch) for batch in calls]
    losses = np.concatenate([np.atleast_1d(r.losses if count > 1 else r.loss) for r in results])
    slopes = [np.array([r.hypergradients[name] for name in sorted(r.hypergradients)]) for r in results]
    return Trained([losses, *map(np.asarray, ws.tree.leaves(step.params))], slopes)


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    """A model, and a function that trains it with options and caches the results of single ones."""
    folder, known = tmp_path_factory.mktemp("files"), {}

    def trained(*names):
        if len(names) == 2:
            return training(request.param, [OPTIONS[name] for name in names], folder)
        if names not in known:
            known[names] = training(request.param, [OPTIONS[name] for name in names], folder)
        return known[names]

    return request.param, trained


def conflicting(a, b):
    """Test whether two options give one argument different values."""
    one, other = OPTIONS[a].given, OPTIONS[b].given
    return any(one[name] != other[name] for name in one.keys() & other.keys())


def same(found, wanted):
    assert all((x == y).all() for x, y in zip(found, wanted, strict=True))


def near(found, wanted, close):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=close, atol=close * max(np.abs(y).max(initial=0), 0.1))


@pytest.mark.parametrize("a", OPTIONS)
def test_an_option_by_itself_keeps_its_promise(model, a):
    _, trained = model
    if OPTIONS[a].exact:
        same(trained(a).values, trained().values)
    elif OPTIONS[a].close < np.inf:
        near(trained(a).values, trained().values, OPTIONS[a].close)


@pytest.mark.parametrize("a", OPTIONS)
def test_every_two_options_go_together_or_are_refused(model, a):
    name, trained = model
    names = list(OPTIONS)
    for i, b in enumerate(names[names.index(a) + 1 :]):
        both = a in WOVEN and b in WOVEN
        if conflicting(a, b) or not (both or list(MODELS)[i % 2] == name):
            continue
        refusal = (REFUSED | (INSIDE if name == "listed" else {})).get((a, b))
        if refusal is not None:
            with pytest.raises(WholestepError, match=re.escape(refusal)) as caught:
                trained(a, b)
            assert "hint: " in str(caught.value) and "test_option_pairs.py" in str(caught.value)
            continue
        compared(trained, a, b, trained(a, b))


def compared(trained, a, b, found):
    """Assert that both options give the result of one of them, to the bit where the other promises that."""
    exact = [name for name in (a, b) if OPTIONS[name].exact]
    rest = [name for name in (a, b) if not OPTIONS[name].exact]
    if len(rest) < 2:
        same(found.values, trained(*rest).values)
    else:
        coarse, fine = sorted(rest, key=lambda name: -OPTIONS[name].close)
        if OPTIONS[fine].close < np.inf and {a, b} != {"microbatch", "noise"}:
            near(found.values, trained(coarse).values, max(OPTIONS[n].close for n in rest if OPTIONS[n].close < np.inf))
    if "through" in (a, b):
        other = b if a == "through" else a
        if other in exact and not other.startswith("keep"):
            same(found.slopes, trained("through").slopes)
        elif OPTIONS[other].close <= 1e-3:
            near(found.slopes, trained("through").slopes, 1e-3)
