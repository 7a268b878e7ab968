"""Continuous distributions of one variable, each in standard form."""

from __future__ import annotations

import math
from typing import Any

from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.family import Continuous

_LOG_2PI = math.log(2 * math.pi)


class Norm(Continuous):
    """The normal distribution."""

    def log_density(self, z: Any) -> Any:
        return -0.5 * (z * z) - 0.5 * _LOG_2PI

    def below(self, z: Any) -> Any:
        return special.ndtr(z)

    def above(self, z: Any) -> Any:
        return special.ndtr(-z)

    def log_below(self, z: Any) -> Any:
        return special.log_ndtr(z)

    def log_above(self, z: Any) -> Any:
        return special.log_ndtr(-z)

    def quantile(self, q: Any) -> Any:
        return special.ndtri(q)

    def upper_quantile(self, q: Any) -> Any:
        return -special.ndtri(q)

    def standard_entropy(self) -> Any:
        return 0.5 * (_LOG_2PI + 1)

    def moments(self) -> tuple[Any, Any]:
        return 0.0, 1.0


class T(Continuous):
    """Student's t; probabilities have no derivative in the degrees of freedom."""

    def log_density(self, z: Any, df: Any) -> Any:
        height = special.gammaln(0.5 * (df + 1)) - special.gammaln(0.5 * df) - 0.5 * np.log(df * math.pi)
        return height - 0.5 * (df + 1) * np.log1p(z * z / df)

    def below(self, z: Any, df: Any) -> Any:
        return special.stdtr(df, z)

    def above(self, z: Any, df: Any) -> Any:
        return special.stdtr(df, -z)

    def quantile(self, q: Any, df: Any) -> Any:
        return special.stdtrit(df, q)

    def upper_quantile(self, q: Any, df: Any) -> Any:
        return -special.stdtrit(df, q)

    def standard_entropy(self, df: Any) -> Any:
        half, more = 0.5 * df, 0.5 * (df + 1)
        return more * (special.digamma(more) - special.digamma(half)) + 0.5 * np.log(df) + special.betaln(half, 0.5)

    def moments(self, df: Any) -> tuple[Any, Any]:
        wide = df > 2
        spread = np.where(wide, df / np.where(wide, df - 2, 1.0), np.where(df > 1, math.inf, math.nan))
        return np.where(df > 1, 0.0, math.inf), spread


class Beta(Continuous):
    """The beta distribution; probabilities have no derivative in the shape parameters."""

    low, high, middle = 0.0, 1.0, 0.5

    def log_density(self, z: Any, a: Any, b: Any) -> Any:
        return special.xlog1py(b - 1, -z) + special.xlogy(a - 1, z) - special.betaln(a, b)

    def below(self, z: Any, a: Any, b: Any) -> Any:
        return special.betainc(a, b, z)

    def above(self, z: Any, a: Any, b: Any) -> Any:
        return special.betaincc(a, b, z)

    def quantile(self, q: Any, a: Any, b: Any) -> Any:
        return special.betaincinv(a, b, q)

    def upper_quantile(self, q: Any, a: Any, b: Any) -> Any:
        return special.betainccinv(a, b, q)

    def standard_entropy(self, a: Any, b: Any) -> Any:
        parts = (a - 1) * special.psi(a) + (b - 1) * special.psi(b) - (a + b - 2) * special.psi(a + b)
        return special.betaln(a, b) - parts

    def moments(self, a: Any, b: Any) -> tuple[Any, Any]:
        total = a + b
        return a / total, a * b / (total * total * (total + 1))


class Gamma(Continuous):
    """The gamma distribution."""

    low, middle = 0.0, 1.0

    def log_density(self, z: Any, a: Any) -> Any:
        return special.xlogy(a - 1, z) - z - special.gammaln(a)

    def below(self, z: Any, a: Any) -> Any:
        return special.gammainc(a, z)

    def above(self, z: Any, a: Any) -> Any:
        return special.gammaincc(a, z)

    def quantile(self, q: Any, a: Any) -> Any:
        return special.gammaincinv(a, q)

    def upper_quantile(self, q: Any, a: Any) -> Any:
        return special.gammainccinv(a, q)

    def standard_entropy(self, a: Any) -> Any:
        return special.psi(a) * (1 - a) + a + special.gammaln(a)

    def moments(self, a: Any) -> tuple[Any, Any]:
        return a, a


class Chi2(Continuous):
    """The chi-squared distribution: a gamma distribution of half the degrees of freedom, at twice the scale."""

    low, middle = 0.0, 1.0

    def log_density(self, z: Any, df: Any) -> Any:
        half = 0.5 * df
        return special.xlogy(half - 1, z) - 0.5 * z - special.gammaln(half) - math.log(2) * half

    def below(self, z: Any, df: Any) -> Any:
        return special.gammainc(0.5 * df, 0.5 * z)

    def above(self, z: Any, df: Any) -> Any:
        return special.gammaincc(0.5 * df, 0.5 * z)

    def quantile(self, q: Any, df: Any) -> Any:
        return 2 * special.gammaincinv(0.5 * df, q)

    def upper_quantile(self, q: Any, df: Any) -> Any:
        return 2 * special.gammainccinv(0.5 * df, q)

    def standard_entropy(self, df: Any) -> Any:
        half = 0.5 * df
        return half + math.log(2) + special.gammaln(half) + (1 - half) * special.psi(half)

    def moments(self, df: Any) -> tuple[Any, Any]:
        return df, 2 * df


class Uniform(Continuous):
    """The uniform distribution on an interval."""

    low, high, middle = 0.0, 1.0, 0.5

    def log_density(self, z: Any) -> Any:
        return 0.0 * z

    def below(self, z: Any) -> Any:
        return z

    def quantile(self, q: Any) -> Any:
        return q

    def standard_entropy(self) -> Any:
        return 0.0

    def moments(self) -> tuple[Any, Any]:
        return 0.5, 1 / 12


class Expon(Continuous):
    """The exponential distribution."""

    low, middle = 0.0, 1.0

    def log_density(self, z: Any) -> Any:
        return -z

    def below(self, z: Any) -> Any:
        return -np.expm1(-z)

    def above(self, z: Any) -> Any:
        return np.exp(-z)

    def log_above(self, z: Any) -> Any:
        return -z

    def quantile(self, q: Any) -> Any:
        return -np.log1p(-q)

    def upper_quantile(self, q: Any) -> Any:
        return -np.log(q)

    def standard_entropy(self) -> Any:
        return 1.0

    def moments(self) -> tuple[Any, Any]:
        return 1.0, 1.0


class Laplace(Continuous):
    """The two-sided exponential distribution."""

    def log_density(self, z: Any) -> Any:
        return -np.abs(z) - math.log(2)

    def below(self, z: Any) -> Any:
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z > 0, 1 - tail, tail)

    def above(self, z: Any) -> Any:
        return self.below(-z)

    def quantile(self, q: Any) -> Any:
        upper = q > 0.5
        return np.where(upper, -1, 1) * np.log(2 * np.where(upper, 1 - q, q))

    def upper_quantile(self, q: Any) -> Any:
        return -self.quantile(q)

    def standard_entropy(self) -> Any:
        return math.log(2) + 1

    def moments(self) -> tuple[Any, Any]:
        return 0.0, 2.0


class Logistic(Continuous):
    """The logistic distribution."""

    def log_density(self, z: Any) -> Any:
        return special.log_expit(z) + special.log_expit(-z)

    def below(self, z: Any) -> Any:
        return special.expit(z)

    def above(self, z: Any) -> Any:
        return special.expit(-z)

    def log_below(self, z: Any) -> Any:
        return special.log_expit(z)

    def log_above(self, z: Any) -> Any:
        return special.log_expit(-z)

    def quantile(self, q: Any) -> Any:
        return special.logit(q)

    def upper_quantile(self, q: Any) -> Any:
        return -special.logit(q)

    def standard_entropy(self) -> Any:
        return 2.0

    def moments(self) -> tuple[Any, Any]:
        return 0.0, math.pi**2 / 3


class Cauchy(Continuous):
    """The Cauchy distribution, which has no mean."""

    def log_density(self, z: Any) -> Any:
        return -math.log(math.pi) - np.log1p(z * z)

    def below(self, z: Any) -> Any:
        return np.arctan2(1.0, -z) / math.pi

    def above(self, z: Any) -> Any:
        return np.arctan2(1.0, z) / math.pi

    def quantile(self, q: Any) -> Any:
        return -1 / np.tan(math.pi * q)

    def upper_quantile(self, q: Any) -> Any:
        return 1 / np.tan(math.pi * q)

    def standard_entropy(self) -> Any:
        return math.log(4 * math.pi)

    def moments(self) -> tuple[Any, Any]:
        return math.nan, math.nan


class Lognorm(Continuous):
    """The distribution of exp(s x) for a normal x."""

    low, middle, open_low = 0.0, 1.0, True

    def log_density(self, z: Any, s: Any) -> Any:
        logarithm = np.log(z)
        return -0.5 * (logarithm / s) ** 2 - logarithm - np.log(s) - 0.5 * _LOG_2PI

    def below(self, z: Any, s: Any) -> Any:
        return special.ndtr(np.log(z) / s)

    def above(self, z: Any, s: Any) -> Any:
        return special.ndtr(-np.log(z) / s)

    def log_below(self, z: Any, s: Any) -> Any:
        return special.log_ndtr(np.log(z) / s)

    def log_above(self, z: Any, s: Any) -> Any:
        return special.log_ndtr(-np.log(z) / s)

    def quantile(self, q: Any, s: Any) -> Any:
        return np.exp(s * special.ndtri(q))

    def upper_quantile(self, q: Any, s: Any) -> Any:
        return np.exp(-s * special.ndtri(q))

    def standard_entropy(self, s: Any) -> Any:
        return 0.5 * (1 + _LOG_2PI) + np.log(s)

    def moments(self, s: Any) -> tuple[Any, Any]:
        growth = np.exp(s * s)
        return np.sqrt(growth), growth * np.expm1(s * s)


norm = Norm("norm")
t = T("t")
beta = Beta("beta")
gamma = Gamma("gamma")
chi2 = Chi2("chi2")
uniform = Uniform("uniform")
expon = Expon("expon")
laplace = Laplace("laplace")
logistic = Logistic("logistic")
cauchy = Cauchy("cauchy")
lognorm = Lognorm("lognorm")
