"""Distributions of scipy.stats that were made of plain numbers, as a prior is, take traced arrays."""

import numpy as np
import pytest
import scipy.stats

import wholestep as ws
from wholestep.errors import UnsupportedError

COVARIANCE = np.array([[1.0, 0.2], [0.2, 2.0]])
PRIORS = {
    "normal": (scipy.stats.norm(0.5, scale=2.0), lambda d, x: d.logpdf(x) + d.std() * d.ppf(x)),
    "gamma": (scipy.stats.gamma(2.0, scale=0.5), lambda d, x: d.logcdf(x)),
    "poisson": (scipy.stats.poisson(3.0), lambda d, x: d.mean() * x + d.logpmf(2)),
    "vectors": (scipy.stats.multivariate_normal([0.0, 1.0], COVARIANCE), lambda d, x: d.logpdf(x * np.ones(2))),
    "singular": (
        scipy.stats.multivariate_normal([0.0, 1.0], np.ones((2, 2)), allow_singular=True),
        lambda d, x: d.logpdf(np.array([x, x + 1])),
    ),
    "dirichlet": (scipy.stats.dirichlet([1.0, 2.0]), lambda d, x: d.logpdf(np.array([x, 1 - x]))),
    "multinomial": (scipy.stats.multinomial(3, [0.2, 0.8]), lambda d, x: d.logpmf(np.array([1, 2])) * x),
    "kde": (scipy.stats.gaussian_kde([1.0, 2.0, 4.0]), lambda d, x: d(x)[0] + d.logpdf(x)[0]),
}


@pytest.mark.parametrize("name", PRIORS)
def test_values_and_derivatives(name):
    prior, function = PRIORS[name]
    f = lambda x: function(prior, x)  # noqa: E731 - a lambda is rewritten, a test function is not
    np.testing.assert_allclose(ws.jit(f)(0.7), f(0.7), rtol=1e-12)
    ws.gradcheck(f, 0.7)


def test_a_distribution_that_is_not_covered():
    prior = scipy.stats.johnsonsu(1.0, 2.0)
    with pytest.raises(UnsupportedError, match=r"scipy\.stats\.johnsonsu: not covered for traced arrays"):
        ws.grad(lambda x: prior.logpdf(x))(0.7)
