"""The estimated memory of a step is the memory that it takes, and an estimate allocates nothing of that size."""

import tracemalloc

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import ParameterError, UnsupportedError


def plain(params, batch):
    return np.mean((np.tanh(batch["x"] @ params["w"]) @ params["v"] - batch["y"]) ** 2)


def shape_of(x):
    return ws.ShapeDtype(np.shape(x), np.asarray(x).dtype)


def arrays():
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(12, 20)).astype(np.float32), "v": rng.normal(size=(20, 3)).astype(np.float32)}
    return params, {"x": rng.normal(size=(8, 12)).astype(np.float32), "y": rng.normal(size=(8, 3)).astype(np.float32)}


def known(memory):
    """A memory report without the size of the code and source lines, which an estimate does not have."""
    return memory._replace(code=0, peak=tuple([h._replace(where=None) for h in memory.peak]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": ws.optim.adam(1e-3)},
        {"optimizer": ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.adamw(ws.optim.cosine(1e-3, 10)))},
        {"optimizer": ws.optim.sgd(0.1), "guard": None},
        {"optimizer": ws.optim.adam(1e-3), "precision": "float64"},
        {"optimizer": ws.optim.adam(1e-3), "precision": "bfloat16", "loss_scale": "dynamic"},
        {"optimizer": ws.optim.adam(1e-3), "microbatch": 2},
        {"optimizer": ws.optim.adam(1e-3), "grad_norm": True, "rewrite": False},
    ],
)
def test_an_estimate_is_what_the_compiled_step_says(options):
    params, batch = arrays()
    found = ws.estimate(plain, tree.map(shape_of, params), batch=tree.map(shape_of, batch), **options)
    assert known(found) == known(ws.compile(plain, params, batch=batch, **options).memory)


def test_a_budget_that_parts_of_the_batch_keep_is_known():
    params, batch = arrays()
    batch = {name: np.tile(x, (64, 1)) for name, x in batch.items()}
    options = {"optimizer": ws.optim.adam(1e-3), "batch": batch}
    whole = ws.estimate(plain, params, **options)
    found = ws.estimate(plain, params, **options, microbatch="auto", memory_budget=whole.total // 2)
    assert found.arena < whole.arena / 2
    step = ws.compile(plain, params, **options, microbatch="auto", memory_budget=whole.total // 2)
    assert known(found) == known(step.memory)


def test_what_a_step_gives_besides_is_counted():
    params, batch = arrays()

    def loss(params, batch):
        return ws.capture("value", plain(params, batch)), {"x": batch["x"] * 2}

    options = {"optimizer": ws.optim.sgd(0.1), "has_aux": True, "captures": ("value",)}
    found = ws.estimate(loss, tree.map(shape_of, params), batch=tree.map(shape_of, batch), **options)
    assert known(found) == known(ws.compile(loss, params, batch=batch, **options).memory)
    with pytest.raises(UnsupportedError, match="microbatch goes with neither"):
        ws.estimate(loss, params, batch=batch, microbatch=2, **options)
    with pytest.raises(ParameterError, match="grad_norm without an optimizer"):
        ws.estimate(plain, params, batch=batch, grad_norm=True)


def test_several_steps_and_modules_can_be_estimated():
    def loss(model, x):
        return np.mean(model(x) ** 2)

    def make():
        return nn.Sequential(nn.Linear(6, 8, key=0), nn.BatchNorm(8), nn.relu, nn.Linear(8, 2, key=1))

    x = np.ones((3, 5, 6), np.float32)
    given = {"optimizer": ws.optim.adam(1e-3), "steps_per_call": 3}
    found = ws.estimate(loss, ws.eval_shape(make), batch=shape_of(x), **given)
    assert known(found) == known(ws.compile(loss, make(), batch=x, **given).memory)


def test_nothing_of_the_size_is_allocated():
    model = ws.eval_shape(lambda: nn.MLP((1 << 14, 1 << 18, 1 << 14), key=0))
    tracemalloc.start()
    found = ws.estimate(
        lambda model, x: np.mean(model(x) ** 2),
        model,
        optimizer=ws.optim.adam(1e-3),
        batch=ws.ShapeDtype((64, 1 << 14), np.float32),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.state > 1 << 36 and peak < 1 << 25
    assert "at the peak" in str(found)


def test_options_that_are_not_there_are_refused():
    params, batch = arrays()
    with pytest.raises(ParameterError, match="precision"):
        ws.estimate(plain, params, batch=batch, precision="float8")
    symbolic = params | {"v": ws.ShapeDtype((20, ws.Dim("C")), np.float32)}
    with pytest.raises(UnsupportedError, match="sizes without a number"):
        ws.estimate(plain, symbolic, batch=batch)


def test_what_is_kept_is_told():
    table = np.ones((64, 12), np.float32)
    params, batch = arrays()

    def loss(params, batch):
        return plain(params, {**batch, "x": batch["x"] + table[:8]}) + np.sum(table) * 0.0

    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch)
    own = sum(x.nbytes for x in tree.leaves((step.params, step.state["counters"])))
    constants = sum(n.params["value"].nbytes for g in step.graph.family() for n in g.nodes if n.op.name == "constant")
    assert step.memory.kept == own + constants > own
    assert known(ws.estimate(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch)) == known(step.memory)
