"""Probabilities of boxes under normal distributions against SciPy's, and their derivatives."""

import numpy as np
import pytest
import scipy.stats

import wholestep as ws
from wholestep.scipy import stats

RNG = np.random.default_rng(0)


def problem(n):
    a = RNG.normal(size=(n, n))
    return RNG.normal(size=(3, n)) + 0.5, RNG.normal(size=n), a @ a.T + 0.3 * np.eye(n)


@pytest.mark.parametrize(("n", "off"), [(1, 1e-14), (2, 1e-14), (3, 2e-5), (4, 2e-5), (6, 2e-4)])
def test_probabilities_are_those_of_scipy(n, off):
    x, mean, cov = problem(n)
    low = x - np.where(np.arange(n) == 0, -1.0, 3.0)  # the first limits are swapped
    precise = {"abseps": 1e-7, "releps": 1e-7, "maxpts": 1_000_000, "rng": 0}
    expected = scipy.stats.multivariate_normal.cdf(x, mean, cov, **precise)
    found = ws.jit(lambda x, mean, cov: stats.multivariate_normal.cdf(x, mean, cov))(x, mean, cov)
    np.testing.assert_allclose(found, expected, rtol=0, atol=off)
    expected = scipy.stats.multivariate_normal.cdf(x, mean, cov, lower_limit=low, **precise)
    found = ws.jit(lambda x, low: stats.multivariate_normal.cdf(x, mean, cov, lower_limit=low))(x, low)
    np.testing.assert_allclose(found, expected, rtol=0, atol=off)
    assert (found < 0).all()


@pytest.mark.parametrize("correlation", [0.5, 0.99, 0.9999, -0.9999])
def test_strong_correlations_keep_ten_digits(correlation):
    x, cov = RNG.normal(size=(50, 2)), np.array([[1, correlation], [correlation, 1]])
    x[:25, 1] = x[:25, 0] * np.sign(correlation) + 0.01
    found = ws.jit(lambda x: stats.multivariate_normal.logcdf(x, None, cov))(x)
    np.testing.assert_allclose(np.exp(found), scipy.stats.multivariate_normal.cdf(x, None, cov), atol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("which", range(3))
def test_derivatives_are_those_of_differences(n, which):
    x, mean, cov = problem(n)
    given = [x[0], mean, cov]

    def probability(y):
        mine = [*given]
        mine[which] = (y + y.T) / 2 if which == 2 else y
        return stats.multivariate_normal.cdf(*mine, maxpts=64)

    found = ws.grad(probability)(given[which])
    f = ws.jit(probability)
    for at in np.ndindex(found.shape):
        step = np.zeros(found.shape)
        step[at] = 1e-5
        expected = (f(given[which] + step) - f(given[which] - step)) / 2e-5
        np.testing.assert_allclose(found[at], expected, rtol=1e-6, atol=1e-9)


def test_plackett_s_identity():
    """The derivative in a correlation is the density at the corner, to the digits of the density."""
    x = np.array([0.3, -0.4])

    def matrix(r):
        return np.eye(2) + r * np.array([[0.0, 1.0], [1.0, 0.0]])

    found = ws.grad(lambda r: stats.multivariate_normal.cdf(x, None, matrix(r)))(0.6)
    np.testing.assert_allclose(found, scipy.stats.multivariate_normal.pdf(x, None, matrix(0.6)), rtol=1e-12)


@pytest.mark.parametrize(("d", "off"), [(1, 1e-12), (2, 1e-6), (3, 1e-4)])
def test_densities_from_samples_are_integrated_over_boxes(d, off):
    data, low, high = RNG.normal(size=(d, 12)), np.full(d, -0.5), np.full(d, 1.2)
    expected = scipy.stats.gaussian_kde(data).integrate_box(low, high, maxpts=1_000_000, rng=0)
    found = ws.jit(lambda x: stats.gaussian_kde(x).integrate_box(low, high, maxpts=4096))(data)
    np.testing.assert_allclose(found, expected, rtol=0, atol=off)
    assert np.abs(ws.grad(lambda x: stats.gaussian_kde(x).integrate_box(low, high, maxpts=64))(data)).max() > 0
