"""Discrete distributions of one variable."""

from __future__ import annotations

from typing import Any

from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.family import Discrete

poisson = Discrete(
    "poisson",
    "The Poisson distribution.",
    valid=lambda mu: mu >= 0,
    powers=lambda k, mu: [(k, mu, 0.0)],
    log_mass=lambda k, mu: -special.gammaln(k + 1) - mu,
    below=lambda k, mu: special.gammaincc(k + 1, mu),
    above=lambda k, mu: special.gammainc(k + 1, mu),
    moments=lambda mu: (mu, mu),
)


def _binom_log_mass(k: Any, n: Any, p: Any) -> Any:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


binom = Discrete(
    "binom",
    "The number of successes in n trials.",
    valid=lambda n, p: (n >= 0) & (np.floor(n) == n) & (p >= 0) & (p <= 1),
    last=lambda n, p: n,
    powers=lambda k, n, p: [(k, p, 0.0), (n - k, -p, 1.0)],
    log_mass=_binom_log_mass,
    below=lambda k, n, p: special.betainc(np.maximum(n - k, 1), k + 1, 1 - p),
    above=lambda k, n, p: special.betainc(k + 1, np.maximum(n - k, 1), p),
    moments=lambda n, p: (n * p, n * p * (1 - p)),
)

bernoulli = Discrete(
    "bernoulli",
    "One trial.",
    valid=lambda p: (p >= 0) & (p <= 1),
    last=lambda p: 1,
    powers=lambda k, p: [(k, p, 0.0), (1 - k, -p, 1.0)],
    log_mass=lambda k, p: 0.0 * k,
    below=lambda k, p: 1 - p,
    above=lambda k, p: p,
    moments=lambda p: (p, p * (1 - p)),
    standard_entropy=lambda p: special.entr(p) + special.entr(1 - p),
)


def _betabinom_log_mass(k: Any, n: Any, a: Any, b: Any) -> Any:
    ways = -np.log(n + 1) - special.betaln(n - k + 1, k + 1)
    return ways + special.betaln(k + a, n - k + b) - special.betaln(a, b)


def _betabinom_moments(n: Any, a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    return n * a / total, n * (a * b / total**2) * ((total + n) / (total + 1))


betabinom = Discrete(
    "betabinom",
    "The number of successes in n trials whose probability has a beta distribution; cdf and sf are not covered.",
    valid=lambda n, a, b: (n >= 0) & (np.floor(n) == n) & (a > 0) & (b > 0),
    last=lambda n, a, b: n,
    log_mass=_betabinom_log_mass,
    moments=_betabinom_moments,
)


def _nbinom_log_mass(k: Any, n: Any, p: Any) -> Any:
    return special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n) + n * np.log(p)


nbinom = Discrete(
    "nbinom",
    "The number of failures before n successes; probabilities have no derivative in n.",
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    powers=lambda k, n, p: [(k, -p, 1.0)],
    log_mass=_nbinom_log_mass,
    below=lambda k, n, p: special.betainc(n, k + 1, p),
    above=lambda k, n, p: special.betaincc(n, k + 1, p),
    moments=lambda n, p: (n * (1 - p) / p, n * (1 - p) / (p * p)),
)

geom = Discrete(
    "geom",
    "The number of trials up to the first success.",
    first=1,
    valid=lambda p: (p > 0) & (p <= 1),
    powers=lambda k, p: [(k - 1, -p, 1.0)],
    log_mass=lambda k, p: np.log(p),
    below=lambda k, p: -np.expm1(special.xlog1py(k, -p)),
    above=lambda k, p: np.exp(special.xlog1py(k, -p)),
    log_above=lambda k, p: special.xlog1py(k, -p),
    moments=lambda p: (1 / p, (1 - p) / (p * p)),
)
