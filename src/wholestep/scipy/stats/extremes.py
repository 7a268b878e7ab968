"""Continuous distributions of extremes, lifetimes and lengths, each in standard form."""

from __future__ import annotations

import math
from typing import Any

from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.family import Continuous

_EULER = 0.5772156649015329

gumbel_r = Continuous(
    "gumbel_r",
    "The Gumbel distribution, of largest numbers.",
    log_density=lambda z: -z - np.exp(-z),
    below=lambda z: np.exp(-np.exp(-z)),
    above=lambda z: -np.expm1(-np.exp(-z)),
    log_below=lambda z: -np.exp(-z),
    quantile=lambda q: -np.log(-np.log(q)),
    upper_quantile=lambda q: -np.log(-np.log1p(-q)),
    standard_entropy=lambda: _EULER + 1,
    moments=lambda: (_EULER, math.pi**2 / 6),
)

gumbel_l = Continuous(
    "gumbel_l",
    "The Gumbel distribution turned round, of smallest numbers.",
    log_density=lambda z: z - np.exp(z),
    below=lambda z: -np.expm1(-np.exp(z)),
    above=lambda z: np.exp(-np.exp(z)),
    log_above=lambda z: -np.exp(z),
    quantile=lambda q: np.log(-np.log1p(-q)),
    upper_quantile=lambda q: np.log(-np.log(q)),
    standard_entropy=lambda: _EULER + 1,
    moments=lambda: (-_EULER, math.pi**2 / 6),
)


def _pareto_moments(b: Any) -> tuple[Any, Any]:
    finite, spread = b > 1, b > 2
    mean = np.where(finite, b / np.where(finite, b - 1, 1.0), math.inf)
    return mean, np.where(spread, b / np.where(spread, (b - 2) * (b - 1) ** 2, 1.0), math.inf)


pareto = Continuous(
    "pareto",
    "The Pareto distribution: powers of what is at least 1.",
    low=1.0,
    middle=2.0,
    log_density=lambda z, b: np.log(b) - (b + 1) * np.log(z),
    below=lambda z, b: -np.expm1(-b * np.log(z)),
    above=lambda z, b: np.exp(-b * np.log(z)),
    log_above=lambda z, b: -b * np.log(z),
    quantile=lambda q, b: np.exp(-np.log1p(-q) / b),
    upper_quantile=lambda q, b: np.exp(-np.log(q) / b),
    standard_entropy=lambda b: 1 + 1 / b - np.log(b),
    moments=_pareto_moments,
)


def _weibull_moments(c: Any) -> tuple[Any, Any]:
    mean, square = special.gamma(1 + 1 / c), special.gamma(1 + 2 / c)
    finite = square < math.inf
    return mean, np.where(finite, square - np.where(finite, mean, 0.0) ** 2, square)


weibull_min = Continuous(
    "weibull_min",
    "The Weibull distribution, of lifetimes.",
    low=0.0,
    middle=1.0,
    powers=lambda z, c: [(c - 1, z, 0.0)],
    log_density=lambda z, c: np.log(c) - z**c,
    below=lambda z, c: -np.expm1(-(z**c)),
    above=lambda z, c: np.exp(-(z**c)),
    log_above=lambda z, c: -(z**c),
    quantile=lambda q, c: (-np.log1p(-q)) ** (1 / c),
    upper_quantile=lambda q, c: (-np.log(q)) ** (1 / c),
    standard_entropy=lambda c: -_EULER / c - np.log(c) + _EULER + 1,
    moments=_weibull_moments,
)

weibull_max = Continuous(
    "weibull_max",
    "The Weibull distribution turned round, of what is at most 0.",
    high=0.0,
    middle=-1.0,
    powers=lambda z, c: [(c - 1, -z, 0.0)],
    log_density=lambda z, c: np.log(c) - (-z) ** c,
    below=lambda z, c: np.exp(-((-z) ** c)),
    above=lambda z, c: -np.expm1(-((-z) ** c)),
    log_below=lambda z, c: -((-z) ** c),
    quantile=lambda q, c: -((-np.log(q)) ** (1 / c)),
    upper_quantile=lambda q, c: -((-np.log1p(-q)) ** (1 / c)),
    standard_entropy=lambda c: -_EULER / c - np.log(c) + _EULER + 1,
    moments=lambda c: (-_weibull_moments(c)[0], _weibull_moments(c)[1]),
)

rayleigh = Continuous(
    "rayleigh",
    "The Rayleigh distribution: lengths of pairs of normal numbers.",
    low=0.0,
    middle=1.0,
    powers=lambda z: [(1.0, z, 0.0)],
    log_density=lambda z: -0.5 * (z * z),
    below=lambda z: -np.expm1(-0.5 * (z * z)),
    above=lambda z: np.exp(-0.5 * (z * z)),
    log_above=lambda z: -0.5 * (z * z),
    quantile=lambda q: np.sqrt(-2 * np.log1p(-q)),
    upper_quantile=lambda q: np.sqrt(-2 * np.log(q)),
    standard_entropy=lambda: _EULER / 2 + 1 - 0.5 * math.log(2),
    moments=lambda: (math.sqrt(math.pi / 2), 2 - math.pi / 2),
)

halfnorm = Continuous(
    "halfnorm",
    "The distribution of the absolute value of a normal number.",
    low=0.0,
    middle=1.0,
    log_density=lambda z: 0.5 * math.log(2 / math.pi) - 0.5 * (z * z),
    below=lambda z: special.erf(z / math.sqrt(2)),
    above=lambda z: 2 * special.ndtr(-z),
    quantile=lambda q: special.ndtri(0.5 * (1 + q)),
    upper_quantile=lambda q: -special.ndtri(0.5 * q),
    standard_entropy=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
    moments=lambda: (math.sqrt(2 / math.pi), 1 - 2 / math.pi),
)
