"""Sophia against its paper written out plainly, with Hessians that are known, eagerly and in a compiled step."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim, tree
from wholestep.optim.curvature import curvature_estimate

RNG = np.random.default_rng(6)
MATRIX = (lambda a: a @ a.T / 6 - 0.2 * np.eye(6))(RNG.normal(size=(6, 6)))
PARAMS = {"b": RNG.normal(size=2), "w": RNG.normal(size=(2, 2))}
BATCH = RNG.normal(size=6)


def flat(p):
    return np.concatenate([p["b"], p["w"].ravel()])


def loss(p, batch):
    x = np.concatenate([p["b"], np.reshape(p["w"], -1)])
    return x @ (MATRIX.astype(x.dtype) @ x) / 2 + np.sum(np.cos(x) * batch)


def slope(x):
    return MATRIX @ x - np.sin(x) * BATCH


def hessian(x):
    return MATRIX - np.diag(np.cos(x) * BATCH)


def probe(count, seed=0):
    key = ws.random.fold_in(ws.random.key(seed), count)
    keys = [ws.random.fold_in(key, i) for i in range(2)]
    return np.concatenate([ws.random.normal(k, (n,), np.float64) for k, n in zip(keys, (2, 4), strict=True)])


def paper(x, steps, lr=0.05, b1=0.9, b2=0.8, eps=1e-6, gamma=0.3, every=3, decay=0.1):
    """Algorithm 3 with the estimator of algorithm 1."""
    m, h = np.zeros_like(x), np.zeros_like(x)
    for t in range(steps):
        m = b1 * m + (1 - b1) * slope(x)
        if t % every == 0:
            u = probe(t)
            h = b2 * h + (1 - b2) * u * (hessian(x) @ u)
        x = x - lr * decay * x
        x = x - lr * np.clip(m / np.maximum(gamma * h, eps), -1, 1)
    return x


MADE = optim.sophia(0.05, 0.9, 0.8, 1e-6, gamma=0.3, every=3, weight_decay=0.1)


def test_updates_are_those_of_the_paper():
    params, state = PARAMS, MADE.init(PARAMS)
    for t in range(1, 51):
        params, state = MADE.update(ws.grad(loss)(params, BATCH), state, params, objective=lambda p: loss(p, BATCH))
        np.testing.assert_allclose(flat(params), paper(flat(PARAMS), t), rtol=1e-9)
    assert state["count"] == 50


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_compiled_step_goes_the_same_way(dtype):
    start = tree.map(lambda p: p.astype(dtype), PARAMS)
    step = ws.compile(loss, start, optimizer=MADE, batch=BATCH.astype(dtype))
    for _ in range(20):
        step(BATCH.astype(dtype))
    if dtype == "float64":
        np.testing.assert_allclose(flat(step.params), paper(flat(PARAMS), 20), rtol=1e-9)
    assert step.params["w"].dtype == dtype and step.traces == 1
    assert np.isfinite(flat(step.params)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_stay_and_halves_compute_in_single(dtype):
    dtype = ws.ShapeDtype((), dtype).dtype
    params = tree.map(lambda p: p.astype(dtype), PARAMS)
    state = MADE.init(params)
    new, after = MADE.update(params, state, params, objective=lambda p: loss(p, BATCH.astype(dtype)))
    assert [x.dtype for x in tree.leaves(new)] == [dtype, dtype]
    assert [x.dtype for x in tree.leaves(after)] == [x.dtype for x in tree.leaves(state)]
    assert {x.dtype.itemsize for x in tree.leaves((after["m"], after["h"]))} == {8 if dtype == np.float64 else 4}


def test_the_mean_of_estimates_is_the_diagonal():
    """The mean of each element is within five standard errors."""
    keys = ws.random.split(ws.random.key(3), 4000)
    found = ws.vmap(lambda k: curvature_estimate(lambda p: loss(p, BATCH), PARAMS, k))(keys)
    each = np.concatenate([found["b"], found["w"].reshape(-1, 4)], axis=1)
    off = each.mean(0) - np.diag(hessian(flat(PARAMS)))
    assert (abs(off) < 5 * each.std(0) / np.sqrt(len(each))).all()


def test_other_updates_leave_the_curvature_and_the_seed_changes_it():
    f = lambda p: loss(p, BATCH)  # noqa: E731
    states = []
    for seed in (0, 1):
        optimizer, params = optim.sophia(0.1, every=2, seed=seed), PARAMS
        state = optimizer.init(params)
        for _ in range(3):
            params, state = optimizer.update(ws.grad(f)(params), state, params, objective=f)
            states.append(np.asarray(state["h"]["w"]))
    assert (states[0] == states[1]).all() and (states[1] != states[2]).all()
    assert (states[0] != states[3]).all()


def test_an_average_passes_the_objective_on():
    step = ws.compile(loss, PARAMS, optimizer=optim.ema(MADE, 0.5), batch=BATCH)
    before = step(BATCH).loss
    for _ in range(30):
        last = step(BATCH).loss
    assert last < before
