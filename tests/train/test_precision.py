"""Training in half and double precision, and the scale of the loss against a model of it in plain Python."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import wholestep as ws
from wholestep import tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.train.state.loss_scaling import LEAST, MOST, Scaling


def network(params, batch):
    h = np.tanh(batch["x"] @ params["w1"] + params["b1"])
    h = np.maximum(h @ params["w2"], 0)
    return np.mean((h @ params["w3"] - batch["y"]) ** 2)


def problem():
    rng = np.random.default_rng(0)
    shapes = {"w1": (6, 16), "b1": (16,), "w2": (16, 16), "w3": (16, 1)}
    params = {name: (0.4 * rng.normal(size=s)).astype("f") for name, s in shapes.items()}
    x = rng.normal(size=(128, 6)).astype("f")
    return params, {"x": x, "y": np.sin(x.sum(axis=1, keepdims=True)).astype("f")}


def compiled(precision="float32", size=32, **options):
    params, data = problem()
    batch = {name: x[:size] for name, x in data.items()}
    settings = {"optimizer": ws.optim.adam(1e-2), "batch": batch, **options}
    return ws.compile(network, params, precision=precision, **settings), data


@pytest.fixture(scope="module")
def single():
    step, data = compiled()
    return step.run(data, epochs=60).losses[-20:].mean()


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float64"])
def test_training_reaches_the_loss_of_float32(precision, single):
    step, data = compiled(precision)
    begun = step({name: x[:32] for name, x in data.items()}).loss
    found = step.run(data, epochs=60).losses[-20:].mean()
    assert single < 0.25 * begun
    assert found < single * (1.02 if precision != "float64" else 1.001) or abs(found - single) < 0.02 * begun
    dtype = np.float64 if precision == "float64" else np.float32
    assert {x.dtype for x in tree.leaves((step.params, step.state["optimizer"]["m"]))} == {np.dtype(dtype)}
    halves = [t for part in step.graph.family() for t in part.types() if t.dtype.itemsize == 2]
    assert bool(halves) is (precision != "float64")


def test_float64_computes_batches_of_float32_in_float64():
    params, data = problem()
    wide = [{name: x.astype(np.float64) for name, x in d.items()} for d in (params, data)]
    step, _ = compiled("float64", 128)
    exact = network(*wide)
    assert abs(step(data).loss - exact) < 1e-12 * exact
    step.replace(params=params)
    assert abs(step(data).loss - exact) < 1e-12 * exact


def test_buffers_and_aux_keep_their_types():
    def loss(w, buffers, x):
        h = x @ w
        return np.mean(h * h), {"mean": 0.9 * buffers["mean"] + 0.1 * h.mean(axis=0)}, h

    x = np.ones((4, 3), np.float32)
    options = {"optimizer": ws.optim.sgd(0.1), "batch": x, "has_aux": True}
    buffers = {"mean": np.zeros(2, np.float32)}
    for precision, dtype in (("bfloat16", np.float32), ("float16", np.float32), ("float64", np.float64)):
        step = ws.compile(
            loss, np.ones((3, 2), np.float32), buffers=buffers, precision=precision, loss_scale=4.0, **options
        )
        result = step(x)
        assert (step.buffers["mean"].dtype, result.aux.dtype) == (np.dtype(dtype), np.dtype(dtype))
        np.testing.assert_allclose(step.buffers["mean"], 0.3, rtol=1e-2)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_steps_in_one_call_are_the_same_bits(precision):
    _, data = problem()
    batches = [{name: x[i * 16 : (i + 1) * 16] for name, x in data.items()} for i in range(7)]
    scale = Scaling(2.0**20, interval=2)
    one, _ = compiled(precision, 16, loss_scale=scale)
    for batch in batches:
        one(batch)
    stacked = {name: np.stack([b[name] for b in batches]) for name in data}
    seven = ws.compile(
        network,
        problem()[0],
        optimizer=ws.optim.adam(1e-2),
        batch=stacked,
        steps_per_call=7,
        precision=precision,
        loss_scale=scale,
    )
    seven(stacked)
    for a, b in zip(tree.leaves(one.state), tree.leaves(seven.state), strict=True):
        np.testing.assert_array_equal(a, b)


def quadratic(w, x):
    return np.sum((x @ w) ** 2)


def test_float16_overflow_is_skipped_and_recovered_from():
    x = np.full((1, 2), 8.0, np.float32)
    options = {"optimizer": ws.optim.sgd(1e-4), "batch": x, "precision": "float16"}
    step = ws.compile(quadratic, np.full((2, 1), 4.0, np.float32), **options)
    before = step.params
    assert (step.loss_scale, step.skipped) == (65536.0, 0)
    results = [step(x) for _ in range(12)]
    skips = step.skipped
    assert [r.status for r in results] == ["skipped"] * skips + ["completed"] * (12 - skips)
    assert 0 < skips < 12, "64 * 2 * 64 * scale overflows until the scale is small"
    assert step.loss_scale == 65536.0 / 2**skips
    assert all(np.isfinite(r.loss) for r in results), "the loss itself is not scaled"
    assert step.traces == 1
    moved = before - step.params
    assert np.isfinite(moved).all() and (moved > 0).all()
    step.reset()
    assert (step.loss_scale, step.skipped) == (65536.0, 0)


def test_a_power_of_two_changes_no_bit():
    _, data = problem()
    batch = {name: x[:16] for name, x in data.items()}
    plain, scaled = [compiled("float32", 16, loss_scale=s)[0] for s in (None, 2.0**12)]
    for _ in range(3):
        assert plain(batch).loss == scaled(batch).loss
    for a, b in zip(tree.leaves(plain.params), tree.leaves(scaled.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert scaled.loss_scale == 2.0**12
    scaled.set(loss_scale=3.0)
    assert scaled(batch).status == "completed" and scaled.loss_scale == 3.0 and scaled.traces == 1


def test_small_gradients_survive_float16_by_the_scale():
    x = np.full((1, 1), 2.0**-13, np.float32)

    def loss(w, x):
        return np.sum(x @ w) * np.float32(2.0**-13)

    moved = {}
    for scale in (None, 2.0**14):
        step = ws.compile(
            loss,
            np.zeros((1, 1), np.float32),
            optimizer=ws.optim.sgd(1.0),
            batch=x,
            precision="float16",
            loss_scale=scale,
        )
        step(x)
        moved[scale] = float(step.params[0, 0])
    assert moved == {None: 0.0, 2.0**14: -(2.0**-26)}


@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(-24, 24).map(lambda n: 2.0**n),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_the_scale_is_that_of_a_plain_model(flags, initial, interval):
    scaling = Scaling(initial, interval)
    state = scaling.init()
    scale, streak = initial, 0
    for finite in flags:
        state = scaling.after(state, np.array(finite))
        if interval is not None:
            streak = streak + 1 if finite else 0
            if not finite:
                scale = max(scale / 2, LEAST)
            elif streak == interval:
                scale, streak = min(scale * 2, MOST), 0
            assert int(state["streak"]) == streak
        assert float(state["scale"]) == scale


def test_what_cannot_be_is_refused():
    params, data = problem()
    double = {**params, "w2": params["w2"].astype(np.float64)}

    def made(params=params, **options):
        batch = options.pop("batch", {name: x[:4] for name, x in data.items()})
        return ws.compile(network, params, batch=batch, **{"optimizer": ws.optim.sgd(0.1), **options})

    with pytest.raises(DtypeError, match=r"params\.w2 is f64\[16, 16\].*(\n.*)*astype\(np.float32\)"):
        made(double, precision="bfloat16")
    with pytest.raises(DtypeError, match=r"batch\.x is f64"):
        made(precision="float16", batch={"x": np.zeros((4, 6)), "y": data["y"][:4]})
    with pytest.raises(ParameterError, match="precision is 'float8'"):
        made(precision="float8")
    with pytest.raises(ParameterError, match="dynamic loss_scale with guard=None"):
        made(precision="float16", guard=None)
    with pytest.raises(ParameterError, match="without an optimizer"):
        made(loss_scale=2.0, optimizer=None)
    for wrong, error in ((0, ParameterError), (math.inf, ParameterError), (True, DtypeError), ("static", DtypeError)):
        with pytest.raises(error, match="loss_scale is"):
            made(loss_scale=wrong)
    with pytest.raises(ParameterError, match="loss_scale is not there to be set"):
        made().set(loss_scale=2.0)
    with pytest.raises(DtypeError, match=r"step\.set: loss_scale"):
        made(loss_scale=2.0).set(loss_scale="big")


def test_a_module_in_half_precision():
    class Layer(ws.nn.Module):
        def __init__(self):
            self.w = np.ones((3, 2), np.float32)
            self.seen = ws.nn.buffer(np.zeros(2, np.float32))

        def __call__(self, x):
            y = x @ self.w
            self.seen = y.mean(axis=0)
            return y

    x = np.full((4, 3), 1 + 2.0**-12, np.float32)
    step = ws.compile(
        lambda model, x: np.mean(model(x)), Layer(), optimizer=ws.optim.sgd(0.5), batch=x, precision="bfloat16"
    )
    step(x)
    assert step.model.seen.dtype == np.float32 and step.model.seen.tolist() == [3.0, 3.0]
    assert step.model.w.dtype == np.float32


def test_the_page_on_precision_runs():
    page = Path(__file__).parents[2] / "docs" / "precision.md"
    names = {}
    for source in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(source, "precision.md", "exec"), names)
    assert names["step"].skipped == 1
    assert names["step"].diagnose(names["x"]).operation == "log"
