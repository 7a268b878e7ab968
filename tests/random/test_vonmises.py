"""Angles by rejection and their derivatives: SciPy's distribution functions, differences along a share, known means."""

import numpy as np
import pytest
from scipy import optimize, special, stats

import wholestep as ws
from wholestep import random
from wholestep.errors import ParameterError
from wholestep.random import circular

KEY, N = random.key(21), 40_000


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kappa", [0.0, 1e-8, 0.3, 1.0, 5.0, 100.0, 1e6])
def test_distribution_function(kappa, dtype):
    x = random.vonmises(random.fold_in(KEY, 1), kappa, (N,), dtype).astype(float)
    truth = stats.vonmises(kappa) if kappa else stats.uniform(-np.pi, 2 * np.pi)
    assert abs(x).max() <= np.pi + 1e-6
    assert stats.kstest(x, truth.cdf).pvalue > 1e-4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kappa", [1e12, 1e30, 4e37])
def test_narrow_angles_are_normal(kappa, dtype):
    x = random.vonmises(KEY, kappa, (N,), dtype).astype(float) * np.sqrt(kappa)
    assert stats.kstest(x, stats.norm.cdf).pvalue > 1e-4


@pytest.mark.parametrize("kappa", [0.1, 2.0, 50.0])
def test_moments(kappa):
    """The means of cos(n x), which are I_n / I_0, and of sin(n x), which are 0, are within five standard errors."""
    x = random.vonmises(KEY, kappa, (N,), np.float64)
    for n in (1, 2, 3):
        for values, mean in ((np.cos(n * x), special.ive(n, kappa) / special.ive(0, kappa)), (np.sin(n * x), 0.0)):
            assert abs(values.mean() - mean) < 5 * values.std() / np.sqrt(N)


def slopes_of(x, kappa):
    """The derivative of the angles in kappa, each angle with a kappa of its own."""
    each = np.full(np.shape(x), float(kappa))
    return ws.jvp(lambda k: circular.moved_angles(x, k), (each,), (np.ones_like(each),))[1]


@pytest.mark.parametrize("kappa", [0.2, 1.0, 4.0, 30.0, 600.0])
def test_an_angle_moves_so_that_its_share_stays(kappa):
    x = random.vonmises(KEY, kappa, (12,), np.float64)
    h = 1e-3 * kappa

    def moved(angle, to):
        share = stats.vonmises.cdf(angle, kappa)
        inside = (-np.pi, np.pi) if kappa < 20 else (angle - 0.5 / np.sqrt(kappa), angle + 0.5 / np.sqrt(kappa))
        return optimize.brentq(lambda y: stats.vonmises.cdf(y, to) - share, *inside, xtol=1e-14)

    wanted = [
        (8 * (moved(a, kappa + h) - moved(a, kappa - h)) - moved(a, kappa + 2 * h) + moved(a, kappa - 2 * h)) / (12 * h)
        for a in x
    ]
    # SciPy takes a normal approximation from 50 on.
    np.testing.assert_allclose(slopes_of(x, kappa), wanted, rtol=1e-6 if kappa < 50 else 1e-2, atol=1e-9)


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 499.0, 501.0, 1e8])
def test_slopes_by_another_integral(kappa):
    """The integral from 0, where that has no cancellation and no large exponents, by Simpson's rule."""
    x = np.array([0.05, 0.4, 0.95, 1.05, 2.0]) / np.sqrt(max(kappa, 1.0))
    gap = 1 - special.ive(1, kappa) / special.ive(0, kappa) if kappa < 1e3 else 0.5 / kappa + 0.125 / kappa**2
    t = x[:, None] * np.linspace(0, 1, 4001)
    inside = (gap - 2 * np.sin(t / 2) ** 2) * np.exp(
        -2 * kappa * np.sin((t + x[:, None]) / 2) * np.sin((t - x[:, None]) / 2)
    )
    weights = np.r_[1, np.tile([4, 2], 1999), 4, 1] / 12_000
    np.testing.assert_allclose(slopes_of(x, kappa), -x * (inside @ weights), rtol=1e-9)
    np.testing.assert_array_equal(slopes_of(-x, kappa), -slopes_of(x, kappa))


def test_the_second_derivative_follows_the_share():
    def second(kappa):
        return ws.grad(ws.grad(lambda k: random.vonmises(KEY, k, dtype=np.float64)))(kappa)

    for kappa in (0.4, 3.0, 70.0):
        x, h = random.vonmises(KEY, kappa, dtype=np.float64), 1e-4 * kappa
        slope = slopes_of(x, kappa)
        ahead, behind = slopes_of(x + h * slope, kappa + h), slopes_of(x - h * slope, kappa - h)
        np.testing.assert_allclose(second(kappa), (ahead - behind) / (2 * h), rtol=1e-5)


@pytest.mark.parametrize("kappa", [0.0, 0.7, 20.0])
def test_means_move_as_they_are_known_to(kappa):
    """The mean derivative of cos(x), 1 - A / kappa - A**2, one half at 0, is within five standard errors."""
    _, slopes = ws.jvp(lambda k: np.cos(random.vonmises(KEY, k, (N,), np.float64)), (kappa,), (1.0,))
    mean = special.ive(1, kappa) / special.ive(0, kappa)
    wanted = 1 - mean / kappa - mean**2 if kappa else 0.5
    assert abs(slopes.mean() - wanted) < 5 * slopes.std() / np.sqrt(N)


def test_derivatives_are_the_same_compiled_and_in_a_batch():
    at = np.array([0.0, 1e-3, 0.4, 3.0, 50.0, 2e4])
    one = ws.grad(lambda k: random.vonmises(KEY, k, (3,), np.float64).sum())
    rows = [one(k) for k in at]
    np.testing.assert_allclose(ws.vmap(one)(at), rows, rtol=1e-9)
    np.testing.assert_allclose(ws.jit(ws.vmap(one))(at), rows, rtol=1e-9)
    narrow = ws.grad(lambda k: random.vonmises(KEY, k, dtype=np.float32).sum())(at.astype(np.float32))
    assert narrow.dtype == np.float32 and np.isfinite(narrow).all()


def test_a_kappa_that_is_none():
    for kappa in (-1.0, np.nan, np.inf):
        with pytest.raises(ParameterError, match="kappa is negative or not finite"):
            random.vonmises(KEY, kappa)
    found = ws.jit(lambda k: random.vonmises(KEY, k))(np.array([1.0, -1.0, np.nan, np.inf]))
    assert np.array_equal(np.isnan(found), [False, True, True, True])
