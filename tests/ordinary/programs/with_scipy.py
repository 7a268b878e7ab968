"""Programs that call SciPy by its own names: special functions, distributions, linear algebra, signals, equations."""

import numpy as np
import scipy.signal
import scipy.stats as st
from scipy import linalg
from scipy.integrate import odeint
from scipy.special import gammaln, logsumexp
from scipy.stats import norm


def mixture_log_likelihood(x):
    data = np.linspace(-1.0, 1.0, 5)
    parts = []
    for k in range(len(x)):
        parts.append(norm.logpdf(data, x[k], 0.5 + k))
    return np.sum(logsumexp(np.array(parts), axis=0))


def expected_improvement(x):
    best = 0.4
    spread = np.exp(x[1])
    return (x[0] - best) * norm.cdf(x[0], best, spread) + spread * norm(best, spread).pdf(x[0])


def gaussian_process(x):
    grid = np.linspace(0.0, 1.0, 4)
    cov = x[0] * np.exp(-((grid[:, None] - grid) ** 2) / x[1]) + 0.1 * np.eye(4)
    return st.multivariate_normal.logpdf(np.sin(grid), np.zeros(4), cov)


def frozen_vectors(x):
    place = st.multivariate_normal(mean=x[:2], cov=np.eye(2) + np.outer(x[:2], x[:2]))
    shares = st.dirichlet(np.exp(x))
    return (
        np.sum(place.logpdf(np.array([[0.3, 0.1], [-1.0, 2.0]]))) + place.entropy() + shares.logpdf(np.full(3, 1 / 3))
    )


def negative_binomial(x):
    counts = np.array([1.0, 3.0, 2.0, 5.0])
    r, p = x[0], x[1]
    return np.sum(gammaln(r + counts) - gammaln(r) - gammaln(counts + 1) + counts * np.log(p) + r * np.log(1 - p))


def solved_by_factors(x):
    table = np.diag(x) + np.array([[2.0, 0.5, 0.0], [0.5, 2.0, 0.5], [0.0, 0.5, 2.0]])
    lower = linalg.cholesky(table, lower=True)
    return np.sum(linalg.solve(table, x) * lower[-1])


def filtered(x):
    kernel = np.array([0.25, 0.5, 0.25])
    return np.sum(scipy.signal.convolve(x, kernel, mode="same") ** 2)


def damped(y, t, rate):
    return np.array([y[1], -rate * y[0] - 0.1 * y[1]])


def trajectory(x):
    return np.sum(odeint(damped, np.array([x[0], 0.0]), np.linspace(0.0, 1.0, 3), (x[1],), rtol=1e-10, atol=1e-10)[-1])


PROGRAMS = [
    (mixture_log_likelihood, 3),
    (expected_improvement, 2),
    (gaussian_process, 2),
    (frozen_vectors, 3),
    (negative_binomial, 2),
    (solved_by_factors, 3),
    (filtered, 5),
]
REVERSE = [(trajectory, 2)]
"""Programs whose equations are solved by a rule that is stated for reverse mode alone."""
