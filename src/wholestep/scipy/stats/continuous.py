"""Continuous distributions of one variable, each in standard form."""

from __future__ import annotations

import math
from typing import Any

from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.family import Continuous, Symmetric

_LOG_2PI = math.log(2 * math.pi)


norm = Symmetric(
    "norm",
    "The normal distribution.",
    log_density=lambda z: -0.5 * (z * z) - 0.5 * _LOG_2PI,
    below=special.ndtr,
    log_below=special.log_ndtr,
    quantile=special.ndtri,
    standard_entropy=lambda: 0.5 * (_LOG_2PI + 1),
    moments=lambda: (0.0, 1.0),
)


def _t_log_density(z: Any, df: Any) -> Any:
    normal = df == math.inf
    some = np.where(normal, 1.0, df)
    height = -special.betaln(0.5 * some, 0.5) - 0.5 * np.log(some)
    made = height - 0.5 * (some + 1) * np.log1p(z * z / some)
    return np.where(normal, -0.5 * (z * z) - 0.5 * _LOG_2PI, made)


def _t_entropy(df: Any) -> Any:
    many = df > 100
    few, inverse = np.where(many, 1.0, df), 1 / np.where(many, df, 100.0)
    half, more = 0.5 * few, 0.5 * (few + 1)
    made = more * (special.digamma(more) - special.digamma(half)) + 0.5 * np.log(few) + special.betaln(half, 0.5)
    tail = inverse * (-1 / 6 + inverse * (-1 / 8 + inverse * (3 / 10 + inverse / 4)))
    return np.where(many, 0.5 * (_LOG_2PI + 1) + inverse * (1 + inverse * (1 / 4 + tail)), made)


def _t_quantile(q: Any, df: Any) -> Any:
    """The quantile, with the sign of its half also where it is too large for a number."""
    found = special.stdtrit(df, q)
    return np.where(found * (q - 0.5) < 0, -found, found)


def _t_moments(df: Any) -> tuple[Any, Any]:
    wide = df > 2
    spread = np.where(wide, 1 + 2 / np.where(wide, df - 2, 1.0), np.where(df > 1, math.inf, math.nan))
    return np.where(df > 1, 0.0, math.inf), spread


t = Symmetric(
    "t",
    "Student's t; probabilities have no derivative in the degrees of freedom.",
    log_density=_t_log_density,
    below=lambda z, df: special.stdtr(df, z),
    quantile=_t_quantile,
    standard_entropy=_t_entropy,
    moments=_t_moments,
)


def _beta_entropy(a: Any, b: Any) -> Any:
    parts = (a - 1) * special.psi(a) + (b - 1) * special.psi(b) - (a + b - 2) * special.psi(a + b)
    return special.betaln(a, b) - parts


def _beta_moments(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    return a / total, a * b / (total * total * (total + 1))


beta = Continuous(
    "beta",
    "The beta distribution; probabilities have no derivative in the shape parameters.",
    low=0.0,
    high=1.0,
    middle=0.5,
    powers=lambda z, a, b: [(a - 1, z, 0.0), (b - 1, -z, 1.0)],
    log_density=lambda z, a, b: -special.betaln(a, b),
    below=lambda z, a, b: special.betainc(a, b, z),
    above=lambda z, a, b: special.betaincc(a, b, z),
    quantile=lambda q, a, b: special.betaincinv(a, b, q),
    upper_quantile=lambda q, a, b: special.betainccinv(a, b, q),
    standard_entropy=_beta_entropy,
    moments=_beta_moments,
)

gamma = Continuous(
    "gamma",
    "The gamma distribution.",
    low=0.0,
    middle=1.0,
    powers=lambda z, a: [(a - 1, z, 0.0)],
    log_density=lambda z, a: -z - special.gammaln(a),
    below=lambda z, a: special.gammainc(a, z),
    above=lambda z, a: special.gammaincc(a, z),
    quantile=lambda q, a: special.gammaincinv(a, q),
    upper_quantile=lambda q, a: special.gammainccinv(a, q),
    standard_entropy=lambda a: special.psi(a) * (1 - a) + a + special.gammaln(a),
    moments=lambda a: (a, a),
)


def _chi2_log_density(z: Any, df: Any) -> Any:
    half = 0.5 * df
    return -0.5 * z - special.gammaln(half) - math.log(2) * half


def _chi2_entropy(df: Any) -> Any:
    half = 0.5 * df
    return half + math.log(2) + special.gammaln(half) + (1 - half) * special.psi(half)


chi2 = Continuous(
    "chi2",
    "The chi-squared distribution: a gamma distribution of half the degrees of freedom, at twice the scale.",
    low=0.0,
    middle=1.0,
    powers=lambda z, df: [(0.5 * df - 1, z, 0.0)],
    log_density=_chi2_log_density,
    below=lambda z, df: special.gammainc(0.5 * df, 0.5 * z),
    above=lambda z, df: special.gammaincc(0.5 * df, 0.5 * z),
    quantile=lambda q, df: 2 * special.gammaincinv(0.5 * df, q),
    upper_quantile=lambda q, df: 2 * special.gammainccinv(0.5 * df, q),
    standard_entropy=_chi2_entropy,
    moments=lambda df: (df, 2 * df),
)

uniform = Continuous(
    "uniform",
    "The uniform distribution on an interval.",
    low=0.0,
    high=1.0,
    middle=0.5,
    log_density=lambda z: 0.0 * z,
    below=lambda z: z,
    quantile=lambda q: q,
    standard_entropy=lambda: 0.0,
    moments=lambda: (0.5, 1 / 12),
)

expon = Continuous(
    "expon",
    "The exponential distribution.",
    low=0.0,
    middle=1.0,
    log_density=lambda z: -z,
    below=lambda z: -np.expm1(-z),
    above=lambda z: np.exp(-z),
    log_above=lambda z: -z,
    quantile=lambda q: -np.log1p(-q),
    upper_quantile=lambda q: -np.log(q),
    standard_entropy=lambda: 1.0,
    moments=lambda: (1.0, 1.0),
)


def _laplace_below(z: Any) -> Any:
    tail = 0.5 * np.exp(-np.abs(z))
    return np.where(z > 0, 1 - tail, tail)


def _laplace_log_below(z: Any) -> Any:
    right = z > 0
    upper = np.log1p(-0.5 * np.exp(-np.where(right, z, 0.0)))
    return np.where(right, upper, np.where(right, 0.0, z) - math.log(2))


def _laplace_quantile(q: Any) -> Any:
    upper = q > 0.5
    return np.where(upper, -1, 1) * np.log(2 * np.where(upper, 1 - q, q))


laplace = Symmetric(
    "laplace",
    "The two-sided exponential distribution.",
    log_density=lambda z: -np.abs(z) - math.log(2),
    below=_laplace_below,
    log_below=_laplace_log_below,
    quantile=_laplace_quantile,
    standard_entropy=lambda: math.log(2) + 1,
    moments=lambda: (0.0, 2.0),
)

logistic = Symmetric(
    "logistic",
    "The logistic distribution.",
    log_density=lambda z: special.log_expit(z) + special.log_expit(-z),
    below=special.expit,
    log_below=special.log_expit,
    quantile=special.logit,
    standard_entropy=lambda: 2.0,
    moments=lambda: (0.0, math.pi**2 / 3),
)

cauchy = Continuous(
    "cauchy",
    "The Cauchy distribution, which has no mean.",
    log_density=lambda z: -math.log(math.pi) - np.log1p(z * z),
    below=lambda z: np.arctan2(1.0, -z) / math.pi,
    above=lambda z: np.arctan2(1.0, z) / math.pi,
    quantile=lambda q: -1 / np.tan(math.pi * q),
    upper_quantile=lambda q: 1 / np.tan(math.pi * q),
    standard_entropy=lambda: math.log(4 * math.pi),
    moments=lambda: (math.nan, math.nan),
)


def _lognorm_log_density(z: Any, s: Any) -> Any:
    logarithm = np.log(z)
    return -0.5 * (logarithm / s) ** 2 - logarithm - np.log(s) - 0.5 * _LOG_2PI


def _lognorm_moments(s: Any) -> tuple[Any, Any]:
    growth = np.exp(s * s)
    return np.sqrt(growth), growth * np.expm1(s * s)


lognorm = Continuous(
    "lognorm",
    "The distribution of exp(s x) for a normal x.",
    low=0.0,
    middle=1.0,
    open_low=True,
    log_density=_lognorm_log_density,
    below=lambda z, s: special.ndtr(np.log(z) / s),
    above=lambda z, s: special.ndtr(-np.log(z) / s),
    log_below=lambda z, s: special.log_ndtr(np.log(z) / s),
    log_above=lambda z, s: special.log_ndtr(-np.log(z) / s),
    quantile=lambda q, s: np.exp(s * special.ndtri(q)),
    upper_quantile=lambda q, s: np.exp(-s * special.ndtri(q)),
    standard_entropy=lambda s: 0.5 * (1 + _LOG_2PI) + np.log(s),
    moments=_lognorm_moments,
)
