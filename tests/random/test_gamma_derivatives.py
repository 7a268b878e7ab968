"""Derivatives of samples made of gamma variates, at fixed quantiles: against SciPy's quantiles and against means."""

import numpy as np
import pytest
from scipy import special

import wholestep as ws
from wholestep import random
from wholestep.errors import DerivativeError

KEY, N = random.key(8), 40_000


def log_quantile(a, share, rest, log_share):
    """The logarithm of a gamma quantile, from the most exact of the share, its complement and its logarithm."""
    tiny = (log_share + special.gammaln(a + 1)) / a
    with np.errstate(divide="ignore"):
        middle = np.log(np.where(share < 0.5, special.gammaincinv(a, share), special.gammainccinv(a, rest)))
    return np.where(tiny < -25, tiny, middle)


def slope_at(z, a):
    """dz / da at a fixed share, by differences of fourth order."""
    x, h = np.exp(z), 1e-4 * a
    fixed = special.gammainc(a, x), special.gammaincc(a, x), a * z - special.gammaln(a + 1)
    far, near = [log_quantile(a + k * h, *fixed) - log_quantile(a - k * h, *fixed) for k in (2, 1)]
    return (8 * near - far) / (12 * h)


@pytest.mark.parametrize("a", [1e-3, 0.02, 0.5, 1.0, 2.5, 30.0, 1e3, 9e4, 1.1e5, 1e7])
def test_a_logarithm_moves_so_that_its_share_stays(a):
    whole = np.full(500, a)
    z, found = ws.jvp(lambda a: random.loggamma(KEY, a, dtype=np.float64), (whole,), (np.ones(500),))
    np.testing.assert_allclose(found, slope_at(z, whole), rtol=1e-7)
    back = ws.grad(lambda a: random.loggamma(KEY, a, dtype=np.float64).sum())(whole)
    np.testing.assert_array_equal(back, found)
    x, moved = ws.jvp(lambda a: random.gamma(KEY, a, dtype=np.float64), (whole,), (np.ones(500),))
    np.testing.assert_allclose(moved, x * found, rtol=1e-12)


MEANS = {
    "gamma": (lambda k, a: random.gamma(k, a, (N,), np.float64), 0.7, 1.0),
    "loggamma": (lambda k, a: random.loggamma(k, a, (N,), np.float64), 0.01, special.polygamma(1, 0.01)),
    "chisquare": (lambda k, df: random.chisquare(k, df, (N,), np.float64), 3.0, 1.0),
    "beta a": (lambda k, a: random.beta(k, a, 1.5, (N,), np.float64), 0.5, 1.5 / 4),
    "beta b": (lambda k, b: random.beta(k, 0.5, b, (N,), np.float64), 1.5, -0.5 / 4),
    "dirichlet": (
        lambda k, a: random.dirichlet(k, np.array([1.0, 0.5, 2.0]) * np.array([1, a, 1]), (N,), np.float64)[:, 1],
        1.0,
        0.5 * 3 / 3.5**2,
    ),
    "squares of t": (lambda k, df: random.t(k, df, (N,), np.float64) ** 2, 9.0, -2 / 49),
    "f": (lambda k, df: random.f(k, 4.0, df, (N,), np.float64), 12.0, -2 / 100),
    "generalized_normal": (
        lambda k, p: abs(random.generalized_normal(k, p, (N,), np.float64)),
        1.5,
        (special.gamma(2 / 1.5) / special.gamma(1 / 1.5)) * (special.psi(1 / 1.5) - 2 * special.psi(2 / 1.5)) / 1.5**2,
    ),
}


@pytest.mark.parametrize("name", MEANS)
def test_means_move_as_they_are_known_to(name):
    """The mean is within five standard errors."""
    draw, at, wanted = MEANS[name]
    _, slopes = ws.jvp(lambda a: draw(KEY, a), (at,), (1.0,))
    assert abs(slopes.mean() - wanted) < 5 * slopes.std() / np.sqrt(N)
    np.testing.assert_allclose(ws.grad(lambda a: draw(KEY, a).mean())(at), slopes.mean(), rtol=1e-10)


@pytest.mark.parametrize("draw", [random.gamma, random.loggamma, random.chisquare, random.t])
def test_derivatives_are_the_same_compiled_and_in_a_batch(draw):
    at = np.array([1e-3, 0.4, 3.0, 50.0])
    one = ws.grad(lambda a: draw(KEY, a, dtype=np.float64))
    rows = [one(a) for a in at]
    np.testing.assert_allclose(ws.vmap(one)(at), rows, rtol=1e-10)
    np.testing.assert_allclose(ws.jit(ws.vmap(one))(at), rows, rtol=1e-9)
    keys = random.split(KEY, 3)
    shared = ws.vmap(lambda k: ws.grad(lambda a: draw(k, a, dtype=np.float64))(2.0))(keys)
    by_key = [ws.grad(lambda a, k=k: draw(k, a, dtype=np.float64))(2.0) for k in keys]
    np.testing.assert_allclose(shared, by_key, rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_derivatives_have_the_precision_of_the_parameter(dtype):
    a = np.array([0.01, 2.0, 300.0]).astype(ws.ShapeDtype((), dtype).dtype)
    found = ws.grad(lambda a: random.loggamma(KEY, a, dtype=np.float32).sum())(a)
    wide = random.loggamma(KEY, a, dtype=np.float32).astype(np.float64)
    assert found.dtype == a.dtype
    np.testing.assert_allclose(
        found.astype(float), slope_at(wide, a.astype(float)), rtol=1e-2 if a.itemsize == 2 else 1e-4
    )


def test_a_second_derivative_is_refused():
    with pytest.raises(DerivativeError, match="second derivative with respect to the order or shape is not known"):
        ws.grad(ws.grad(lambda a: random.gamma(KEY, a)))(2.0)


def test_a_parameter_that_is_not_positive_has_no_derivative():
    found = ws.jit(ws.grad(lambda a: random.loggamma(KEY, a).sum()))(np.array([1.0, -1.0, np.nan, np.inf]))
    assert np.array_equal(np.isnan(found), [False, True, True, True])


def test_the_logarithm_is_that_of_gamma_and_goes_below_it():
    a = np.array([0.5, 2.0, 1e4])
    logs = random.loggamma(KEY, a, dtype=np.float64)
    np.testing.assert_allclose(np.exp(logs), random.gamma(KEY, a, dtype=np.float64), rtol=1e-12)
    tiny = random.loggamma(KEY, 1e-30, (1000,), np.float32)
    assert np.isfinite(tiny).all() and (tiny < -1e26).all()
