"""Projections are the nearest points of their sets, those of Optax, and hold the parameters of an optimizer."""

import numpy as np
import pytest
from scipy.optimize import minimize

import wholestep as ws
from wholestep import optim, tree
from wholestep.errors import DtypeError, ParameterError, TreeError

RNG = np.random.default_rng(7)
SETS = {
    "simplex": optim.simplex(1.5),
    "l1_ball": optim.l1_ball(1.5),
    "l1_sphere": optim.l1_sphere(1.5),
    "l2_ball": optim.l2_ball(1.5),
    "l2_sphere": optim.l2_sphere(1.5),
    "linf_ball": optim.linf_ball(0.5),
    "box": optim.interval(-0.3, 0.8),
    "hypercube": optim.hypercube(0.7),
    "non_negative": optim.non_negative(),
}
OPTIONS = {"linf_ball": (0.5,), "box": (-0.3, 0.8), "hypercube": (0.7,), "non_negative": ()}
HELD = {
    "simplex": lambda x: abs(x.sum() - 1.5) < 1e-12 and x.min() >= 0,
    "l1_ball": lambda x: np.abs(x).sum() <= 1.5 + 1e-12,
    "l1_sphere": lambda x: abs(np.abs(x).sum() - 1.5) < 1e-12,
    "l2_ball": lambda x: np.linalg.norm(x) <= 1.5 + 1e-12,
    "l2_sphere": lambda x: abs(np.linalg.norm(x) - 1.5) < 1e-12,
    "linf_ball": lambda x: np.abs(x).max() <= 0.5,
    "box": lambda x: x.min() >= -0.3 and x.max() <= 0.8,
    "hypercube": lambda x: x.min() >= 0 and x.max() <= 0.7,
    "non_negative": lambda x: x.min() >= 0,
}


def points(size=1.0):
    return {"a": RNG.normal(size=(2, 3)) * size, "b": [RNG.normal(size=4) * size]}


def flat(x):
    return np.concatenate([leaf.reshape(-1) for leaf in tree.leaves(x)])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_a_projection_is_that_of_optax(name, size):
    theirs = pytest.importorskip("optax", reason="Optax is an outside oracle; not installed").projections
    jax = pytest.importorskip("jax")
    x = flat(points(size)) if name in ("box", "hypercube") else points(size)
    with jax.enable_x64(True):
        expected = getattr(theirs, f"projection_{name}")(x, *OPTIONS.get(name, (1.5,)))
    np.testing.assert_allclose(flat(SETS[name](x)), flat(tree.map(np.asarray, expected)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SETS)
def test_a_projection_is_the_nearest_point_of_its_set(name):
    for size in (0.01, 1.0, 30.0):
        x = points(size)
        found = SETS[name](x)
        p = flat(found)
        assert HELD[name](p)
        np.testing.assert_allclose(flat(SETS[name](found)), p, atol=1e-13)
        for _ in range(50):
            q = flat(SETS[name](points(3.0)))
            assert np.linalg.norm(flat(x) - p) <= np.linalg.norm(flat(x) - q) + 1e-12


@pytest.mark.parametrize("name", SETS)
def test_a_projection_differentiates_and_compiles(name):
    x = tree.map(lambda a: a.round(1) + 0.037, points())  # away from the kinks
    ws.gradcheck(lambda x: SETS[name](x), x, order=1)
    small = tree.map(lambda a: a.astype(np.float32), x)
    made = ws.jit(lambda x: SETS[name](x))(small)
    assert {leaf.dtype for leaf in tree.leaves(made)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(flat(made), flat(SETS[name](x)), atol=2e-6)


def test_the_spheres_have_a_point_for_zero_too():
    for name in ("l1_sphere", "l2_sphere"):
        for x in (np.zeros(4), np.array([1.0, 0.0, 0.0]), np.array([0.0, -0.2])):
            assert HELD[name](SETS[name](x)), x
    assert np.isfinite(ws.grad(lambda x: np.sum(optim.l2_sphere()(x) ** 3))(np.zeros(3))).all()
    assert np.isfinite(ws.grad(lambda x: np.sum(optim.l2_ball()(x) ** 3))(np.zeros(3))).all()


@pytest.mark.parametrize("name", SETS)
def test_what_is_no_number_stays_so(name):
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(SETS[name](np.array([0.5, np.nan, 0.1]))).all()


def test_dtypes_stay():
    x = {"h": np.full(3, 2.0, np.float16), "f": np.full(3, 2.0, np.float32), "d": np.full(2, 3.0)}
    for found in (optim.simplex()(x), optim.l2_ball()(x), optim.linf_ball(0.1)(x), optim.l1_ball()(x)):
        assert {name: p.dtype for name, p in found.items()} == {name: p.dtype for name, p in x.items()}
    z = np.array([3.0 + 4.0j])
    np.testing.assert_allclose(optim.l2_ball(1.0)(z), z / 5)
    for other in (optim.simplex(), optim.interval(0.0), optim.l1_ball()):
        with pytest.raises(DtypeError, match="complex numbers have no order"):
            other(z)


def mse(params, batch):
    return np.mean((batch["x"] @ params["w"] + params["b"] - batch["y"]) ** 2)


def problem():
    x = RNG.normal(size=(64, 5))
    truth = np.array([0.5, 0.3, 0.2, -0.4, 0.0])
    return {"x": x, "y": x @ truth}, {"w": np.full(5, 0.2), "b": np.zeros(())}


@pytest.mark.parametrize("name", SETS)
def test_parameters_stay_in_the_set(name):
    batch, params = problem()
    optimizer = optim.projected(optim.adam(0.05), SETS[name], only="w")
    step = ws.compile(mse, params, optimizer=optimizer, batch=batch)
    for _ in range(5):
        step(batch)
        assert HELD[name](step.params["w"])
    assert step.params["b"] != 0


def test_a_projected_descent_ends_where_the_constrained_problem_does():
    batch, params = problem()
    for held, rule in (
        (optim.simplex(), {"constraints": {"type": "eq", "fun": lambda w: w.sum() - 1}, "bounds": [(0, None)] * 5}),
        (optim.l2_ball(0.4), {"constraints": {"type": "ineq", "fun": lambda w: 0.4**2 - w @ w}}),
        (optim.interval(0.0, 0.35), {"bounds": [(0.0, 0.35)] * 5}),
    ):
        optimizer = optim.groups({"b": None}, optim.projected(optim.sgd(0.2), held))
        step = ws.compile(mse, params, optimizer=optimizer, batch=batch)
        for _ in range(300):
            step(batch)
        best = minimize(
            lambda w: np.mean((batch["x"] @ w - batch["y"]) ** 2), params["w"], method="SLSQP", tol=1e-14, **rule
        )
        np.testing.assert_allclose(step.params["w"], best.x, atol=1e-5)


def test_one_update_is_the_optimizer_s_and_then_the_projection():
    params = {"w": RNG.normal(size=(2, 3)), "v": RNG.normal(size=4), "b": RNG.normal(size=2)}
    grads = tree.map(lambda p: RNG.normal(size=p.shape), params)
    inner = optim.sgd(0.3, momentum=0.9)
    moved, state = inner.update(grads, inner.init(params), params)
    together = optim.projected(inner, optim.l2_ball(0.7))
    found, held = together.update(grads, together.init(params), params)
    np.testing.assert_array_equal(flat(found), flat(optim.l2_ball(0.7)(moved)))
    np.testing.assert_array_equal(flat(held), flat(state))
    apart = optim.projected(inner, optim.l2_ball(0.7), each=True)
    found, _ = apart.update(grads, apart.init(params), params)
    for name, p in found.items():
        np.testing.assert_array_equal(p, optim.l2_ball(0.7)(moved[name]))
    some = optim.projected(inner, optim.l2_ball(0.7), only=("w", "b"))
    found, _ = some.update(grads, some.init(params), params)
    np.testing.assert_array_equal(found["v"], moved["v"])
    np.testing.assert_allclose(np.linalg.norm(flat({k: found[k] for k in "wb"})), 0.7)
    own = optim.projected(inner, lambda tree: {name: p.round() for name, p in tree.items()}, only="v")
    np.testing.assert_array_equal(own.update(grads, own.init(params), params)[0]["v"], moved["v"].round())


def test_the_scale_is_a_number_to_set():
    batch, params = problem()
    optimizer = optim.projected(optim.sgd(0.2), optim.l1_ball(0.5))
    step = ws.compile(mse, params, optimizer=optimizer, batch=batch)
    assert step.hyper == {"lr": 0.2, "scale": 0.5}
    step(batch)
    step.set(scale=0.25)
    step(batch)
    assert np.abs(flat(step.params)).sum() <= 0.25 + 1e-12
    assert step.traces == 1
    assert eval(repr(optimizer), vars(optim)) == optimizer


def test_what_is_no_set_is_refused():
    for give, error, says in (
        (lambda: optim.simplex(0.0), ParameterError, "simplex: scale is 0"),
        (lambda: optim.interval(2.0, 1.0), ParameterError, "interval: there is nothing between 2 and 1"),
        (lambda: optim.projected(optim.sgd(0.1), 3.0), DtypeError, "projected: onto is 3.0"),
        (lambda: optim.projected(optim.simplex(), optim.simplex()), DtypeError, "projected: the first argument"),
        (lambda: optim.projected(optim.sgd(0.1), optim.simplex(), only="z").init({"w": 1.0}), ParameterError, "'z'"),
    ):
        with pytest.raises(error, match=says):
            give()
    optimizer = optim.projected(optim.sgd(0.1), lambda tree: list(tree.values()))
    with pytest.raises(TreeError, match="projected: onto made a"):
        optimizer.update({"w": np.ones(2)}, optimizer.init({"w": np.ones(2)}), {"w": np.ones(2)})
