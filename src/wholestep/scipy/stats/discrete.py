"""Discrete distributions of one variable."""

from __future__ import annotations

from typing import Any

from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.family import Discrete


class Poisson(Discrete):
    """The Poisson distribution."""

    def valid(self, mu: Any) -> Any:
        return mu >= 0

    def log_mass(self, k: Any, mu: Any) -> Any:
        return special.xlogy(k, mu) - special.gammaln(k + 1) - mu

    def below(self, k: Any, mu: Any) -> Any:
        return special.gammaincc(k + 1, mu)

    def above(self, k: Any, mu: Any) -> Any:
        return special.gammainc(k + 1, mu)

    def moments(self, mu: Any) -> tuple[Any, Any]:
        return mu, mu


class Binom(Discrete):
    """The number of successes in n trials."""

    def valid(self, n: Any, p: Any) -> Any:
        return (n >= 0) & (np.floor(n) == n) & (p >= 0) & (p <= 1)

    def last(self, n: Any, p: Any) -> Any:
        return n

    def log_mass(self, k: Any, n: Any, p: Any) -> Any:
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)

    def below(self, k: Any, n: Any, p: Any) -> Any:
        return special.betainc(np.maximum(n - k, 1), k + 1, 1 - p)

    def above(self, k: Any, n: Any, p: Any) -> Any:
        return special.betainc(k + 1, np.maximum(n - k, 1), p)

    def moments(self, n: Any, p: Any) -> tuple[Any, Any]:
        return n * p, n * p * (1 - p)


class Bernoulli(Discrete):
    """One trial."""

    def rules(self) -> dict[str, Any]:
        return {**super().rules(), "entropy": lambda p, loc: self._known(special.entr(p) + special.entr(1 - p), (p,))}

    def valid(self, p: Any) -> Any:
        return (p >= 0) & (p <= 1)

    def last(self, p: Any) -> Any:
        return 1

    def log_mass(self, k: Any, p: Any) -> Any:
        return special.xlogy(k, p) + special.xlog1py(1 - k, -p)

    def below(self, k: Any, p: Any) -> Any:
        return 1 - p

    def above(self, k: Any, p: Any) -> Any:
        return p

    def moments(self, p: Any) -> tuple[Any, Any]:
        return p, p * (1 - p)


poisson = Poisson("poisson")
binom = Binom("binom")
bernoulli = Bernoulli("bernoulli")
