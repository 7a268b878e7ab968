"""Sharpness-aware minimization and conditioned gradients against their formulas, eagerly and in a compiled step."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim

RNG = np.random.default_rng(2)
PARAMS = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}
BATCH = {"x": RNG.normal(size=(8, 3)), "y": RNG.normal(size=(8, 2))}


def loss(p, batch):
    return np.mean((np.tanh(batch["x"] @ p["w"] + p["b"]) - batch["y"]) ** 2)


@pytest.mark.parametrize("inner", [optim.sgd(0.1, 0.9), optim.adamw(0.01)])
def test_a_sharpness_aware_step_takes_the_gradient_uphill(inner):
    step = ws.compile(loss, PARAMS, optimizer=optim.sam(inner, 0.1), batch=BATCH)
    params, state = PARAMS, inner.init(PARAMS)
    for _ in range(5):
        g = ws.grad(loss)(params, BATCH)
        norm = np.sqrt(sum(np.sum(v**2) for v in g.values()))
        above = ws.grad(loss)({name: p + 0.1 * g[name] / norm for name, p in params.items()}, BATCH)
        params, state = inner.update(above, state, params)
        step(BATCH)
    for name, p in params.items():
        np.testing.assert_allclose(step.params[name], p, rtol=1e-10)
    before = step.params["w"].copy()
    step.set(rho=0.0)
    plain, _ = inner.update(ws.grad(loss)(params, BATCH), state, params)
    step(BATCH)
    np.testing.assert_allclose(step.params["w"], plain["w"], rtol=1e-10)
    assert (before != step.params["w"]).any()


def test_a_gradient_of_zero_climbs_nowhere():
    optimizer = optim.sam(optim.sgd(0.5))
    p = np.zeros(2)
    moved, _ = optimizer.update(np.zeros(2), optimizer.init(p), p, objective=lambda p: np.sum(p**2))
    np.testing.assert_array_equal(moved, 0)


def test_units_are_clipped_by_their_weights():
    for shape, axes in (((3, 4), 0), ((5, 2, 3), (1, 2)), ((6,), None)):
        p, g = RNG.normal(size=shape) * 0.3, RNG.normal(size=shape)
        p.flat[0] = 0
        made, _ = optim.adaptive_clip(0.2, 1e-2).apply(g, None, p)
        if axes is None:
            size, slope = abs(p), abs(g)
        else:
            size, slope = [np.sqrt(np.sum(v**2, axis=axes, keepdims=True)) for v in (p, g)]
        most = 0.2 * np.maximum(size, 1e-2)
        np.testing.assert_allclose(made, g * np.minimum(1, most / slope), rtol=1e-12)


def test_centred_gradients_have_mean_zero_in_each_unit():
    grads = {"w": RNG.normal(size=(3, 4)), "k": RNG.normal(size=(5, 2, 3)), "b": RNG.normal(size=4)}
    made, _ = optim.centralize().apply(grads, None, None)
    np.testing.assert_allclose(made["w"].mean(0), 0, atol=1e-15)
    np.testing.assert_allclose(made["k"].mean((1, 2)), 0, atol=1e-15)
    np.testing.assert_array_equal(made["b"], grads["b"])


def test_nan_is_nothing_and_infinity_stays():
    made, _ = optim.zero_nans().apply(np.array([np.nan, np.inf, -1.0], np.float16), None, None)
    np.testing.assert_array_equal(made, np.array([0, np.inf, -1]))


def loss_with_a_slope_of_nan(w, x):
    return np.sum(w[0] * x) + np.sum(np.where(x > 0, w[1], np.sqrt(w[1] * x)))


@pytest.mark.parametrize(
    "wrap", [optim.accumulate, optim.ema, lambda optimizer, _: optim.groups({"[0]": optimizer}, None)]
)
def test_a_step_says_that_its_guard_leaves_nothing_to_zero_nans(wrap):
    x, w = np.array([1.0, 0.0]), [np.ones(2), np.ones(2)]
    optimizer = wrap(optim.chain(optim.zero_nans(), optim.sgd(0.5)), 1 if wrap is optim.accumulate else 0.5)
    for guard, status, said in (
        ("gradients", "skipped", True),
        ("loss", "completed", False),
        (None, "completed", False),
    ):
        step = ws.compile(loss_with_a_slope_of_nan, w, optimizer=optimizer, batch=x, guard=guard)
        assert step(x).status == status
        assert ("zero_nans never acts" in step.explain()) is said
