"""A module in the place of parameters: the compiled step, to the bit that of parameters and buffers written by hand."""

import functools

import numpy as np
import pytest
from tests.nn.models import Centre, Dense, Net, data, loss

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, LostAssignmentWarning, ParameterError, ShapeError, TreeError, UnsupportedError

RNG = np.random.default_rng(0)
MODEL, DATA = Net(RNG), data(RNG)
BATCH = {name: rows[:4] for name, rows in DATA.items()}
OPTIMIZER = ws.optim.adam(1e-2)


def by_hand(params, buffers, batch):
    """The computation of `loss` for a Net, with every array spelled out."""
    x = batch["x"] * buffers["scale"]
    x = np.tanh(x @ params["layers[0].weight"] + params["layers[0].bias"])
    mean = np.float32(0.9) * buffers["layers[1].mean"] + np.float32(0.1) * x.mean(axis=0)
    calls = buffers["layers[1].calls"] + 1
    x = np.tanh(x - mean)
    for _ in range(2):
        x = np.tanh(x @ params["layers[2].weight"] + params["layers[2].bias"])
    y = x @ params["head.w"] + np.sum(params["layers[0].weight"])
    value = np.mean((y - batch["y"]) ** 2)
    return value, {"layers[1].mean": mean, "layers[1].calls": calls, "scale": buffers["scale"]}


@functools.cache
def plain():
    """Losses of two calls and an epoch of the step written by hand, and its final state."""
    params, buffers = nn.split(MODEL)
    step = ws.compile(by_hand, params, buffers=buffers, optimizer=OPTIMIZER, batch=BATCH)
    losses = [step(BATCH).loss for _ in range(2)] + list(step.run(DATA, 1, 4))
    return losses, step.state, step


def same(one, other):
    assert one.keys() == other.keys()
    for path in one:
        assert one[path].dtype == other[path].dtype
        assert np.array_equal(one[path], other[path]), path


@pytest.fixture(scope="module")
def step():
    return ws.compile(loss, MODEL, optimizer=OPTIMIZER, batch=BATCH)


@pytest.fixture(autouse=True)
def fresh(request):
    if "step" in request.fixturenames:
        request.getfixturevalue("step").reset()


def test_a_module_trains_like_its_arrays_to_the_bit(step):
    losses = [step(BATCH).loss for _ in range(2)] + list(step.run(DATA, 1, 4))
    wanted, state, _ = plain()
    assert losses == wanted
    for part in ("params", "buffers"):
        same(step.state[part], state[part])
    same(step.state["optimizer"]["m"], state["optimizer"]["m"])
    assert int(step.buffers["layers[1].calls"]) == 2 + 3


def test_the_program_does_not_know_the_names_of_classes_and_fields(step):
    class Renamed(Net):
        def __call__(self, x):
            return super().__call__(x)

    other = ws.compile(loss, Renamed(np.random.default_rng(0)), optimizer=OPTIMIZER, batch=BATCH)
    assert other.source() == step.source()
    assert plain()[2].source() == step.source()


def test_the_model_of_a_step_has_the_values_of_now(step):
    step(BATCH)
    model = step.model
    assert isinstance(model, Net)
    assert model.training
    same(nn.named_parameters(model), step.params)
    same(nn.buffers(model), step.buffers)
    assert model.layers[3] is model.layers[2]
    model(BATCH["x"])
    assert int(step.buffers["layers[1].calls"]) == 1
    assert float(MODEL.layers[1].mean.sum()) == 0.0


def test_attached_functions_evaluate_unless_they_are_told(step):
    predict = step.attach(lambda model, x: (model(x), model.layers[1].calls))
    train = step.attach(lambda model, x: (model(x), model.layers[1].calls), training=True)
    step(BATCH)
    y, calls = predict(BATCH["x"])
    assert np.allclose(y, step.model.eval()(BATCH["x"]), atol=1e-5)
    assert int(calls) == 1
    y, calls = train(BATCH["x"])
    assert np.allclose(y, step.model(BATCH["x"]), atol=1e-5)
    assert int(calls) == 2
    assert int(step.buffers["layers[1].calls"]) == 1


def test_state_goes_in_and_out(step):
    step(BATCH)
    state, model = step.state, step.model
    after = step(BATCH).loss
    step.load_state(state)
    assert step(BATCH).loss == after
    step.set(params=model)
    same(step.params, state["params"])
    same(step.buffers, state["buffers"])
    step.set(params=nn.split(MODEL)[0])
    same(step.buffers, state["buffers"])
    with pytest.raises(TreeError, match="no params"):
        step.set(params=Dense(RNG, 3, 4))


def test_several_steps_a_call_carry_buffers_along():
    stacked = {name: np.stack([x, x]) for name, x in BATCH.items()}
    several = ws.compile(loss, MODEL, optimizer=OPTIMIZER, batch=stacked, steps_per_call=2)
    assert list(several(stacked)) == plain()[0][:2]
    assert int(several.model.layers[1].calls) == 2


def test_a_step_takes_another_model(step):
    other = ws.compile(loss, MODEL, optimizer=OPTIMIZER, batch=BATCH)
    wider = Net(np.random.default_rng(5), np.sin)
    predict = other.attach(lambda model, x: model(x))
    other.replace(params=wider)
    assert np.allclose(predict(BATCH["x"]), wider.eval()(BATCH["x"]), atol=1e-5)
    other(BATCH)
    moved = other.params
    other.replace(lambda model, batch: 2 * loss(model, batch))
    same(other.params, moved)
    assert isinstance(other.model, Net)
    other.replace(lambda p, batch: np.sum((p["w"] - batch["y"]) ** 2), {"w": np.ones(1, np.float32)})
    assert other(BATCH).loss > 0
    assert other.buffers is None
    with pytest.raises(UnsupportedError, match="compiled from plain parameters"):
        _ = other.model


def test_trees_of_modules_and_frozen_leaves():
    table = np.array([2, 3])
    model = {"net": Dense(RNG, 3, 1), "gain": np.float32([2.0]), "table": nn.frozen(table)}

    def scaled(model, batch):
        total = model["table"].sum().astype(np.float32)
        return np.mean((model["net"](batch["x"]) * model["gain"] * total - batch["y"]) ** 2)

    step = ws.compile(scaled, model, optimizer=ws.optim.sgd(1e-3), batch=BATCH)
    first = step(BATCH).loss
    assert step(BATCH).loss < first == pytest.approx(float(scaled(model, BATCH)), rel=1e-5)
    assert set(step.params) == {"gain", "net.weight", "net.bias"}
    assert step.buffers["table"].tolist() == [2, 3]
    assert type(step.model["net"]) is Dense


class Keyed(nn.Module):
    def __init__(self):
        self.w = np.ones(3)

    def __call__(self, x, *, key):
        return ws.capture("noise", ws.random.normal(key, (3,))) * self.w * x


def test_keys_captures_and_aux_reach_a_module():
    step = ws.compile(
        lambda m, x, *, key: (np.sum(m(x, key=key)), {"w": m.w}),
        Keyed(),
        optimizer=ws.optim.sgd(0.1),
        batch=np.ones(3),
        has_aux=True,
        captures=("noise",),
    )
    one, two = step(np.ones(3)), step(np.ones(3))
    assert one.loss == pytest.approx(one.captures["noise"].sum())
    assert not np.array_equal(one.captures["noise"], two.captures["noise"])
    assert np.allclose(two.aux["w"], 1 - 0.1 * one.captures["noise"])


def test_a_step_that_is_not_finite_keeps_the_buffers():
    step = ws.compile(loss, MODEL, optimizer=OPTIMIZER, batch=BATCH)
    assert step({**BATCH, "y": BATCH["y"] * np.nan}).status == "skipped"
    assert int(step.buffers["layers[1].calls"]) == 0
    assert np.array_equal(step.buffers["scale"], MODEL.scale)


class Odd(nn.Module):
    def __init__(self, how):
        self.w, self.n, self.seen, self.how = np.ones(3), nn.buffer(np.zeros(3)), [], how

    def __call__(self, x):
        match self.how:
            case "parameter":
                self.w = self.w * 2
            case "dtype":
                self.n = x.astype(np.float32)
            case "shape":
                self.n = x[:2]
            case "list":
                self.seen.append(x)
            case "plain":
                self.how = "other"
        return np.sum(self.w * x)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("parameter", UnsupportedError, r"Odd.w is assigned inside a traced function"),
        ("plain", UnsupportedError, r"Odd.how is assigned"),
        ("list", UnsupportedError, r"the loss changes a field or a container of the model"),
        ("dtype", DtypeError, r"turns buffers.n from f64\[3\] into f32\[3\]"),
        ("shape", ShapeError, r"turns buffers.n from f64\[3\] into f64\[2\]"),
    ],
)
def test_a_forward_pass_assigns_its_buffers_and_nothing_else(how, error, message):
    with pytest.raises(error, match=message):
        ws.compile(
            lambda m, x: m(x), Odd(how), optimizer=ws.optim.sgd(0.1), batch=np.ones(3), device="reference", guard=None
        )


class Normed(nn.Module):
    """A layer and a batch norm, called in one of several ways."""

    def __init__(self, how):
        self.first, self.norm, self.how = nn.Linear(3, 4, key=0), nn.BatchNorm(4), how

    def body(self, x):
        return np.tanh(self.norm(self.first(x)))

    def __call__(self, x):
        return WAYS[self.how](self, x)


def with_mean(model, x):
    return model.body(x), model.norm.mean


def and_back(model, x):
    y, means = ws.vmap(with_mean, in_axes=(None, 0))(model, x[None])
    model.norm.mean = means[0]
    return y[0]


def in_bfloat16(model, x):
    return model.body(x) + 0 * np.sum(ws.autocast(model.first, "bfloat16")(x))


KEPT = {
    "checkpoint of a closure": lambda m, x: ws.checkpoint(lambda x: m.body(x))(x),
    "checkpoint of an argument": lambda m, x: ws.checkpoint(Normed.body)(m, x),
    "checkpoint of a part": lambda m, x: np.tanh(ws.checkpoint(m.norm)(m.first(x))),
    "two checkpoints": lambda m, x: ws.checkpoint(ws.checkpoint(Normed.body))(m, x),
    "checkpoint with a policy": lambda m, x: ws.checkpoint(m.body, policy="contractions")(x),
    "autocast to float32": lambda m, x: ws.autocast(m.body, "float32")(x),
    "autocast to bfloat16 of a part": in_bfloat16,
}
LOST = {
    "vmap of a closure": lambda m, x: ws.vmap(lambda x: m.body(x))(x[None])[0],
    "scan": lambda m, x: ws.scan(lambda c, x: (c, m.body(x)), 0.0, x[None])[1][0],
}
WAYS = {
    **KEPT,
    **LOST,
    "plain": lambda m, x: m.body(x),
    "vmap of an argument": lambda m, x: ws.vmap(Normed.body, in_axes=(None, 0))(m, x[None])[0],
    "vmap and back": and_back,
}


ROWS = RNG.normal(size=(6, 3)).astype(np.float32)


def normed(how, **options):
    options = {"optimizer": ws.optim.sgd(0.1), "batch": ROWS, **options}
    return ws.compile(lambda m, x: np.mean(m(x) ** 2), Normed(how), **options)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("how", KEPT)
def test_what_is_assigned_under_a_checkpoint_is_assigned(how, device):
    one, other = normed("plain", device=device), normed(how, device=device)
    for _ in range(3):
        np.testing.assert_allclose(other(ROWS).loss, one(ROWS).loss, rtol=1e-6)
    for name in ("norm.mean", "norm.var"):
        assert np.ptp(one.buffers[name]) > 0
        np.testing.assert_allclose(other.buffers[name], one.buffers[name], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other.predict(ROWS), one.predict(ROWS), rtol=1e-5, atol=1e-6)


def test_a_checkpoint_that_is_called_with_arrays_assigns_what_the_call_would():
    one, other = Normed("plain"), Normed("plain")
    np.testing.assert_allclose(ws.checkpoint(lambda m, x: m(x))(other, ROWS), one(ROWS), rtol=1e-6)
    assert isinstance(other.norm.mean, np.ndarray)
    np.testing.assert_allclose(other.norm.mean, one.norm.mean, rtol=1e-6)

    def value(model, x):
        return np.sum(model(x) ** 2), nn.buffers(model)

    for f in (ws.grad(value, has_aux=True), ws.jit(ws.grad(value, has_aux=True))):
        (g, kept), (h, same) = [f(Normed(how), ROWS) for how in ("plain", "two checkpoints")]
        np.testing.assert_allclose(h.first.weight, g.first.weight, rtol=1e-5, atol=1e-6)  # sums of terms of size 1
        np.testing.assert_allclose(same["norm.var"], kept["norm.var"], rtol=1e-6)


@pytest.mark.parametrize("how", LOST)
def test_what_is_assigned_in_a_loop_is_an_error_that_names_it(how):
    with pytest.raises(UnsupportedError, match=r"norm\.mean is assigned inside of \w+, .*") as caught:
        normed(how)
    assert "self.norm(self.first(x))" in str(caught.value)


def test_what_a_copy_alone_assigns_is_warned_of():
    with pytest.warns(LostAssignmentWarning, match=r"assigns norm\.mean, norm\.var in a copy") as found:
        step = normed("vmap of an argument")
    assert "self.norm(self.first(x))" in str(found[0].message)
    step(ROWS)
    assert not step.buffers["norm.mean"].any()
    with pytest.warns(LostAssignmentWarning, match=r"assigns norm\.var in a copy"):
        step = normed("vmap and back")
    step(ROWS)
    assert step.buffers["norm.mean"].any()


def test_buffers_beside_a_model_are_refused():
    with pytest.raises(ParameterError, match="a model keeps its buffers itself"):
        ws.compile(loss, MODEL, buffers={"n": np.zeros(1)}, optimizer=OPTIMIZER, batch=BATCH)
    with pytest.raises(TreeError, match="returned one value, not"):
        ws.compile(loss, Centre(3), optimizer=None, batch=BATCH, has_aux=True)
