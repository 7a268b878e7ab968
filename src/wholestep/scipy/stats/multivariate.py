"""Distributions of vectors: the multivariate normal, Dirichlet's and the multinomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import scipy.stats

from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import lift
from wholestep.scipy.linalg import solve_triangular
from wholestep.scipy.outside import doubles, np, special
from wholestep.scipy.stats.boxes import box_probability
from wholestep.scipy.stats.family import FrozenDistribution, refuse_traced
from wholestep.scipy.stats.powers import density, power_parts

_LOG_2PI = math.log(2 * math.pi)


def mean_and_covariance(mean: Any, cov: Any) -> tuple[Any, Any]:
    """The mean as a vector and the covariance as a matrix, from all forms of them that SciPy takes."""
    if (
        not is_traced(cov)
        and not hasattr(cov, "__array__")
        and not np.isscalar(cov)
        and not isinstance(cov, list | tuple)
    ):
        raise UnsupportedError("multivariate_normal: Covariance objects are not covered for traced arrays")
    middle = None if mean is None else np.atleast_1d(doubles(mean))
    spread = doubles(cov)
    known = spread.shape[-1] if np.ndim(spread) else 1
    n = known if middle is None else middle.shape[-1]
    middle = np.zeros(n) if middle is None else middle
    if np.ndim(spread) == 0:
        spread = spread * np.eye(n)
    elif np.ndim(spread) == 1:
        spread = spread[:, None] * np.eye(known)
    if spread.shape != (n, n) or middle.shape != (n,):
        raise ShapeError(f"multivariate_normal: sizes differ: mean {middle.shape} and cov {spread.shape}")
    return middle, spread


class Multivariate:
    """A distribution under SciPy's name: methods with rules also take traced arrays, and the others refuse them."""

    def __init__(self, name: str, doc: str, **rules: Callable[..., Any]) -> None:
        self.name, self.__doc__ = name, doc
        self.outside: Any = getattr(scipy.stats, name)
        for method, rule in rules.items():
            setattr(self, method, covers(getattr(self.outside, method), f"scipy.stats.{name}.{method}")(rule))

    def __call__(self, *args: Any, **kwargs: Any) -> FrozenDistribution:
        return FrozenDistribution(self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return refuse_traced(getattr(self.outside, name), f"{self.name}.{name}")


def _logpdf(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    middle, spread = mean_and_covariance(mean, cov)
    n = middle.shape[-1]
    points = points_of(x, n)
    off = (points - middle).reshape((-1, n))
    made = (singular if allow_singular else regular)(off, lift(spread), n)
    return np.squeeze(made.reshape(points.shape[:-1]))[()]


def points_of(x: Any, n: int) -> Any:
    """Points of n components on the last axis, as SciPy reads them."""
    points = np.asarray(doubles(x)) if not is_traced(x) else doubles(x)
    if np.ndim(points) == 0:
        return points[None]
    if np.ndim(points) == 1:
        return points[None, :] if n > 1 or points.shape == (n,) else points[:, None]
    return points


def regular(off: Any, spread: Any, n: int) -> Any:
    """The logarithm of the density at rows of distances from the mean, by Cholesky's factor."""
    factor = np.linalg.cholesky(spread)
    scaled = solve_triangular(factor, np.swapaxes(off, 0, 1), lower=True)
    return -0.5 * (n * _LOG_2PI + np.sum(scaled * scaled, axis=0)) - np.sum(np.log(np.diagonal(factor)))


def singular(off: Any, spread: Any, n: int) -> Any:
    """The log density on the subspace that a singular covariance spans, with SciPy's thresholds; -inf off it."""
    values, vectors = np.linalg.eigh(spread)
    least = 1e6 * np.finfo(np.float64).eps * stop_gradient(np.max(np.abs(values)))
    kept = values > least
    safe = np.where(kept, values, 1.0)
    along = off @ vectors
    size = np.sum(np.where(kept, along * along / safe, 0.0), axis=-1)
    made = -0.5 * (np.sum(kept) * _LOG_2PI + np.sum(np.log(safe)) + size)
    outside = np.sum(np.where(kept, 0.0, along * along), axis=-1) >= (1e3 * least) ** 2
    return np.where(outside & ~np.all(kept), -math.inf, made)


def _pdf(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    return np.exp(_logpdf(x, mean, cov, allow_singular))


def _cdf(
    x: Any,
    mean: Any = None,
    cov: Any = 1,
    allow_singular: bool = False,
    maxpts: Any = None,
    abseps: float = 1e-5,
    releps: float = 1e-5,
    *,
    lower_limit: Any = None,
    rng: Any = None,
) -> Any:
    if allow_singular or rng is not None or (abseps, releps) != (1e-5, 1e-5):
        raise UnsupportedError(
            "multivariate_normal.cdf: allow_singular, abseps, releps and rng are not covered for traced arrays",
            hint="the points are the same in each call, and maxpts is their number",
        )
    middle, spread = mean_and_covariance(mean, cov)
    n = middle.shape[-1]
    points = points_of(x, n)
    low = np.full(n, -math.inf) if lower_limit is None else doubles(lower_limit)
    high, low = [np.broadcast_to(a - middle, points.shape).reshape((-1, n)) for a in (points, low)]
    made = box_probability("multivariate_normal.cdf", low, high, lift(spread), maxpts)
    return np.squeeze(made.reshape(points.shape[:-1]))[()]


def _logcdf(x: Any, mean: Any = None, cov: Any = 1, *others: Any, **options: Any) -> Any:
    return np.log(_cdf(x, mean, cov, *others, **options))


def _entropy(mean: Any = None, cov: Any = 1) -> Any:
    middle, spread = mean_and_covariance(mean, cov)
    n = middle.shape[-1]
    return 0.5 * n * (1 + _LOG_2PI) + np.sum(np.log(np.diagonal(np.linalg.cholesky(lift(spread)))))


def dirichlet_operands(x: Any, alpha: Any) -> tuple[Any, Any]:
    """Points, their last component filled in where it is missing, and the parameters with as many axes."""
    points, a = doubles(x), doubles(alpha)
    if np.ndim(a) != 1:
        raise ShapeError(f"dirichlet: alpha is a vector, not of shape {np.shape(a)}")
    k = a.shape[0]
    if points.shape[0] == k - 1:
        points = np.concatenate([points, 1 - np.sum(points, axis=0, keepdims=True)])
    if points.shape[0] != k:
        raise ShapeError(f"dirichlet: {points.shape} does not hold {k} components, or all but one, on its first axis")
    return points, a


def log_normaliser(a: Any) -> Any:
    """The logarithm of the multivariate beta function."""
    return np.sum(special.gammaln(a)) - special.gammaln(np.sum(a))


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    points, a = dirichlet_operands(x, alpha)
    return np.sum(special.xlogy(exponents(a, points), points), axis=0) - log_normaliser(a)


def _dirichlet_pdf(x: Any, alpha: Any) -> Any:
    points, a = dirichlet_operands(x, alpha)
    logs, factors = power_parts(exponents(a, points), points)
    return density(np.sum(logs, axis=0) - log_normaliser(a), np.prod(factors, axis=0))


def exponents(a: Any, points: Any) -> Any:
    """The exponents of the components of points, along their first axis."""
    return (a - 1).reshape((-1, *[1] * (np.ndim(points) - 1)))


def _dirichlet_mean(alpha: Any) -> Any:
    a = doubles(alpha)
    return a / np.sum(a)


def _dirichlet_var(alpha: Any) -> Any:
    a = doubles(alpha)
    total = np.sum(a)
    return a * (total - a) / (total * total * (total + 1))


def _dirichlet_entropy(alpha: Any) -> Any:
    a = doubles(alpha)
    total = np.sum(a)
    rest = (total - a.shape[0]) * special.psi(total) - np.sum((a - 1) * special.psi(a))
    return log_normaliser(a) + rest


def multinomial_operands(n: Any, p: Any) -> tuple[Any, Any]:
    """The number of trials, and the probabilities; as in SciPy, the last one is 1 minus the sum of the others."""
    trials, shares = doubles(n), doubles(p)
    if np.ndim(shares) == 0:
        raise ShapeError("multinomial: p is a vector of probabilities, not a number")
    return trials, np.concatenate([shares[..., :-1], 1 - np.sum(shares[..., :-1], axis=-1, keepdims=True)], axis=-1)


def multinomial_where_defined(made: Any, trials: Any, shares: Any) -> Any:
    """A result, and NaN for a negative number of trials or a probability that is none."""
    usual = np.all((shares >= 0) & (shares <= 1), axis=-1) & (trials >= 0) & (trials == np.floor(trials))
    return np.where(usual.reshape((*np.shape(usual), *[1] * (np.ndim(made) - np.ndim(usual)))), made, np.nan)


def _multinomial_mass(x: Any, n: Any, p: Any, made_of: Callable[[Any, Any, Any], Any], elsewhere: float) -> Any:
    trials, shares = multinomial_operands(n, p)
    counts = doubles(x)
    if np.shape(counts)[-1:] != np.shape(shares)[-1:]:
        raise ShapeError(
            f"multinomial: {np.shape(counts)} does not hold {np.shape(shares)[-1]} counts on its last axis"
        )
    ways = special.gammaln(trials + 1) - np.sum(special.gammaln(counts + 1), axis=-1)
    made = made_of(ways, counts, shares)
    whole = np.all((counts >= 0) & (counts == np.floor(counts)), axis=-1) & (np.sum(counts, axis=-1) == trials)
    return multinomial_where_defined(np.where(whole, made, elsewhere), trials, shares)


def _multinomial_logpmf(x: Any, n: Any, p: Any) -> Any:
    def log_mass(ways: Any, counts: Any, shares: Any) -> Any:
        return ways + np.sum(special.xlogy(counts, shares), axis=-1)

    return _multinomial_mass(x, n, p, log_mass, -math.inf)


def _multinomial_pmf(x: Any, n: Any, p: Any) -> Any:
    def mass(ways: Any, counts: Any, shares: Any) -> Any:
        logs, factors = power_parts(counts, shares)
        return density(ways + np.sum(logs, axis=-1), np.prod(factors, axis=-1))

    return _multinomial_mass(x, n, p, mass, 0.0)[()]


def _multinomial_cov(n: Any, p: Any) -> Any:
    trials, shares = multinomial_operands(n, p)
    k = shares.shape[-1]
    spread = shares[..., :, None] * np.eye(k) - shares[..., :, None] * shares[..., None, :]
    many = trials if np.ndim(trials) == 0 else trials[..., None, None]
    return multinomial_where_defined(many * spread, trials, shares)


multinomial: Any = Multivariate(
    "multinomial",
    "The multinomial distribution; the last probability is what the others leave, and has no derivative.",
    logpmf=_multinomial_logpmf,
    pmf=_multinomial_pmf,
    cov=_multinomial_cov,
)
multivariate_normal: Any = Multivariate(
    "multivariate_normal",
    "The multivariate normal distribution; of its covariance the lower triangle is read.",
    cdf=_cdf,
    logcdf=_logcdf,
    logpdf=_logpdf,
    pdf=_pdf,
    entropy=_entropy,
)
dirichlet: Any = Multivariate(
    "dirichlet",
    "Dirichlet's distribution; points are not checked to add up to 1 where they are traced.",
    logpdf=_dirichlet_logpdf,
    pdf=_dirichlet_pdf,
    mean=_dirichlet_mean,
    var=_dirichlet_var,
    entropy=_dirichlet_entropy,
)
