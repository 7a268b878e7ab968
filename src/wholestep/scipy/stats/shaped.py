"""Continuous distributions of more shapes: ratios, angles, skewed and cut off ones, and between Laplace and Gauss."""

from __future__ import annotations

import math
from typing import Any

from wholestep.frontend.marks import stop_gradient
from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.continuous import norm
from wholestep.scipy.stats.family import Continuous, Symmetric

_LOG_2PI = math.log(2 * math.pi)


def _where_positive(value: Any, otherwise: float, rule: Any) -> Any:
    """The rule of a value that is above 0, and another number elsewhere."""
    fine = value > 0
    return np.where(fine, rule(np.where(fine, value, 1.0)), otherwise)


invgamma = Continuous(
    "invgamma",
    "The inverse gamma distribution: one over what has a gamma distribution.",
    low=0.0,
    middle=1.0,
    open_low=True,
    log_density=lambda z, a: -(a + 1) * np.log(z) - special.gammaln(a) - 1 / z,
    below=lambda z, a: special.gammaincc(a, 1 / z),
    above=lambda z, a: special.gammainc(a, 1 / z),
    quantile=lambda q, a: 1 / special.gammainccinv(a, q),
    upper_quantile=lambda q, a: 1 / special.gammaincinv(a, q),
    standard_entropy=lambda a: a - (a + 1) * special.psi(a) + special.gammaln(a),
    moments=lambda a: (
        _where_positive(a - 1, math.inf, lambda n: 1 / n),
        _where_positive(a - 2, math.inf, lambda n: 1 / ((n + 1) ** 2 * n)),
    ),
)

halfcauchy = Continuous(
    "halfcauchy",
    "The distribution of the absolute value of a Cauchy number.",
    low=0.0,
    middle=1.0,
    log_density=lambda z: math.log(2 / math.pi) - np.log1p(z * z),
    below=lambda z: 2 / math.pi * np.arctan(z),
    above=lambda z: 2 / math.pi * np.arctan2(1.0, z),
    quantile=lambda q: np.tan(0.5 * math.pi * q),
    upper_quantile=lambda q: 1 / np.tan(0.5 * math.pi * q),
    standard_entropy=lambda: _LOG_2PI,
    moments=lambda: (math.inf, math.inf),
)


def _f_log_density(z: Any, dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    made = m * np.log(dfn) + n * np.log(dfd) + special.xlogy(m - 1, z)
    return made - (m + n) * np.log(dfd + dfn * z) - special.betaln(m, n)


def _f_entropy(dfn: Any, dfd: Any) -> Any:
    m, n = 0.5 * dfn, 0.5 * dfd
    made = np.log(dfd) - np.log(dfn) + special.betaln(m, n) + (1 - m) * special.psi(m)
    return made - (1 + n) * special.psi(n) + (m + n) * special.psi(m + n)


def _f_moments(dfn: Any, dfd: Any) -> tuple[Any, Any]:
    def spread(n: Any) -> Any:
        return 2 * (n + 4) ** 2 * (dfn + n + 2) / (dfn * (n + 2) ** 2 * n)

    mean = _where_positive(dfd - 2, math.inf, lambda n: (n + 2) / n)
    return mean, _where_positive(dfd - 4, math.inf, spread)


def _f_shares(z: Any, m: Any, n: Any) -> tuple[Any, Any, Any]:
    """A mask of the z far up, the share m z of n + m z elsewhere, and the share n of it there; each is half at most.

    The second one has digits far up, where 1 less the first one has none.
    """
    upper = m * z > n
    low, high = np.where(upper, n / m, z), np.where(upper, z, n / m)
    return upper, m * low / (m * low + n), n / (m * high + n)


def _f_below(z: Any, m: Any, n: Any) -> Any:
    upper, low, high = _f_shares(z, m, n)
    return np.where(upper, special.betaincc(0.5 * n, 0.5 * m, high), special.betainc(0.5 * m, 0.5 * n, low))


def _f_above(z: Any, m: Any, n: Any) -> Any:
    upper, low, high = _f_shares(z, m, n)
    return np.where(upper, special.betainc(0.5 * n, 0.5 * m, high), special.betaincc(0.5 * m, 0.5 * n, low))


def _f_quantile(q: Any, m: Any, n: Any) -> Any:
    return n / m * special.betaincinv(0.5 * m, 0.5 * n, q) / special.betainccinv(0.5 * n, 0.5 * m, q)


def _f_upper_quantile(q: Any, m: Any, n: Any) -> Any:
    return n / m * special.betainccinv(0.5 * m, 0.5 * n, q) / special.betaincinv(0.5 * n, 0.5 * m, q)


f = Continuous(
    "f",
    "The F distribution, of ratios of variances; probabilities have no derivative in the degrees of freedom.",
    low=0.0,
    middle=1.0,
    valid=lambda dfn, dfd: (dfn > 0) & (dfd > 0) & np.isfinite(dfn) & np.isfinite(dfd),
    log_density=_f_log_density,
    below=_f_below,
    above=_f_above,
    quantile=_f_quantile,
    upper_quantile=_f_upper_quantile,
    standard_entropy=_f_entropy,
    moments=_f_moments,
)


def _gennorm_below(z: Any, beta: Any) -> Any:
    # |z| ** beta has no digits, or no derivative, where only the first term of its series counts.
    near = stop_gradient(np.abs(z) ** beta) < 2.0**-60
    middle = 0.5 + 0.5 * np.where(near, z, 0.0) * np.exp(-special.gammaln(1 + 1 / beta))
    side, size = 0.5 * np.sign(z), np.where(near, 1.0, np.abs(z))
    return np.where(near, middle, 0.5 + side - side * special.gammaincc(1 / beta, size**beta))


def _gennorm_quantile(q: Any, beta: Any) -> Any:
    middle = (2 * q - 1) * np.exp(special.gammaln(1 + 1 / beta))
    near = stop_gradient(np.abs(middle) ** beta) < 2.0**-60
    q = np.where(near, 0.75, q)
    side = np.sign(q - 0.5)
    return np.where(near, middle, side * special.gammainccinv(1 / beta, 1 + side - 2 * side * q) ** (1 / beta))


gennorm = Symmetric(
    "gennorm",
    "The generalized normal distribution: Laplace's at beta = 1, the normal one at 2.",
    log_density=lambda z, beta: np.log(0.5 * beta) - special.gammaln(1 / beta) - np.abs(z) ** beta,
    below=_gennorm_below,
    quantile=_gennorm_quantile,
    standard_entropy=lambda beta: 1 / beta - np.log(0.5 * beta) + special.gammaln(1 / beta),
    moments=lambda beta: (0.0, np.exp(special.gammaln(3 / beta) - special.gammaln(1 / beta))),
)


def _skewnorm_moments(a: Any) -> tuple[Any, Any]:
    mean = math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a)
    return mean, 1 - mean * mean


skewnorm = Continuous(
    "skewnorm",
    "The skewed normal distribution; its probabilities are not covered.",
    valid=np.isfinite,
    log_density=lambda z, a: math.log(2) - 0.5 * (z * z) - 0.5 * _LOG_2PI + special.log_ndtr(a * z),
    moments=_skewnorm_moments,
)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def _by_nodes(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """A mask of near bounds; the logarithm of the mass of a normal density between them, the mean and the variance.

    These come by a rule of fixed nodes, since differences of probabilities and of densities at the ends have no digits.
    """
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 8.0)
    narrow = (b - a < 4) & (np.abs(a + b) * np.minimum(b - a, 4.0) < 80)
    a, b = np.where(narrow, a, 0.0), np.where(narrow, b, 1.0)
    centre, half = 0.5 * (a + b), 0.5 * (b - a)
    slope, bend = centre * half, 0.5 * half * half
    share = np.exp(-(slope[..., None] + bend[..., None] * _NODES) * _NODES) * (0.5 * _WEIGHTS)
    mass = np.sum(share, axis=-1)
    mean = np.sum(share * _NODES, axis=-1) / mass
    spread = np.sum(share * (_NODES - mean[..., None]) ** 2, axis=-1) / mass
    log_mass = np.log(b - a) - 0.5 * centre * centre - 0.5 * _LOG_2PI + np.log(mass)
    return narrow, log_mass, centre + half * mean, half * half * spread


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of the probability of a normal number between a and b, or -inf where there is nothing between.

    Both ends are brought to the left half where they lie right of 0, so that tails keep their digits.
    """
    narrow, made, _, _ = _by_nodes(a, np.where(a < b, b, a + 1.0))
    narrow = narrow & (a < b)
    a, b = np.where(narrow, 0.0, a), np.where(narrow, 8.0, b)
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    tail, central = high <= 0, (high > 0)
    most, least = special.log_ndtr(np.where(tail, high, -1.0)), special.log_ndtr(np.where(tail, low, -2.0))
    outer = special.ndtr(np.where(central, low, -1.0)) + special.ndtr(-np.where(central, high, 1.0))
    beyond = most == -math.inf
    share = np.exp(np.where(beyond, -1.0, least) - np.where(beyond, 0.0, most))
    return np.where(narrow, made, np.where(tail, most + np.log1p(-share), np.log1p(-outer)))


def _log_share(some: Any, rest: Any, whole: Any) -> Any:
    """The logarithm of a part of a mass from logarithms: from that of the rest where the part is the larger one."""
    most = some > rest
    return np.where(most, np.log1p(-np.exp(np.where(most, rest - whole, -1.0))), some - whole)


def _densities_at_ends(a: Any, b: Any) -> tuple[Any, Any]:
    """The densities at both ends, by logarithms, since both they and the mass between may be too small for a number."""
    mass = _log_mass(a, b)
    return np.exp(norm.logpdf(a) - mass), np.exp(norm.logpdf(b) - mass)


def _difference_at_ends(a: Any, b: Any) -> Any:
    """Each end times the density there, the lower less the upper one; an infinite end has no density."""
    low, high = np.isfinite(a), np.isfinite(b)
    at_a, at_b = _densities_at_ends(a, b)
    return np.where(low, np.where(low, a, 0.0) * at_a, 0.0) - np.where(high, np.where(high, b, 0.0) * at_b, 0.0)


def _truncnorm_moments(a: Any, b: Any) -> tuple[Any, Any]:
    narrow, _, mean_by_nodes, variance_by_nodes = _by_nodes(a, b)
    a, b = np.where(narrow, 0.0, a), np.where(narrow, 8.0, b)
    at_a, at_b = _densities_at_ends(a, b)
    mean = at_a - at_b
    variance = 1 + _difference_at_ends(a, b) - mean * mean
    return np.where(narrow, mean_by_nodes, mean), np.where(narrow, variance_by_nodes, variance)


def _truncnorm_ends(a: Any, b: Any) -> tuple[Any, Any, Any]:
    low, high = np.isfinite(a), np.isfinite(b)
    begin = np.where(low, np.where(low, a, 0.0), np.where(high, np.where(high, b, 0.0) - 2, -1.0))
    end = np.where(high, np.where(high, b, 0.0), begin + 2)
    return a, b, 0.5 * (begin + end)


truncnorm = Continuous(
    "truncnorm",
    "The normal distribution between a and b, in units of the scale from loc; its quantiles are not covered.",
    valid=lambda a, b: a < b,
    ends=_truncnorm_ends,
    log_density=lambda z, a, b: -0.5 * (z * z) - 0.5 * _LOG_2PI - _log_mass(a, b),
    below=lambda z, a, b: np.exp(_log_mass(a, z) - _log_mass(a, b)),
    above=lambda z, a, b: np.exp(_log_mass(z, b) - _log_mass(a, b)),
    log_below=lambda z, a, b: _log_share(_log_mass(a, z), _log_mass(z, b), _log_mass(a, b)),
    log_above=lambda z, a, b: _log_share(_log_mass(z, b), _log_mass(a, z), _log_mass(a, b)),
    standard_entropy=lambda a, b: 0.5 * (_LOG_2PI + 1) + _log_mass(a, b) + 0.5 * _difference_at_ends(a, b),
    moments=_truncnorm_moments,
)


def _vonmises_entropy(kappa: Any) -> Any:
    height = special.i0e(kappa)
    return -kappa * special.i1e(kappa) / height + np.log(2 * math.pi * height) + kappa


vonmises = Continuous(
    "vonmises",
    "The von Mises distribution, of angles; its probabilities are not covered.",
    valid=lambda kappa: kappa >= 0,
    log_density=lambda z, kappa: kappa * (np.cos(z) - 1) - _LOG_2PI - np.log(special.i0e(kappa)),
    standard_entropy=_vonmises_entropy,
)


def _wrapcauchy_below(z: Any, c: Any) -> Any:
    first = z < math.pi
    angle = np.arctan((1 + c) / (1 - c) * np.tan(0.5 * np.where(first, z, 2 * math.pi - z))) / math.pi
    return np.where(first, angle, 1 - angle)


def _wrapcauchy_quantile(q: Any, c: Any) -> Any:
    first = q < 0.5
    angle = 2 * np.arctan((1 - c) / (1 + c) * np.tan(math.pi * np.where(first, q, 1 - q)))
    return np.where(first, angle, 2 * math.pi - angle)


wrapcauchy = Continuous(
    "wrapcauchy",
    "The Cauchy distribution wrapped around a circle, on angles from 0 to 2 pi.",
    low=0.0,
    high=2 * math.pi,
    middle=1.0,
    valid=lambda c: (c > 0) & (c < 1),
    log_density=lambda z, c: np.log1p(-c * c) - _LOG_2PI - np.log1p(c * c - 2 * c * np.cos(z)),
    below=_wrapcauchy_below,
    quantile=_wrapcauchy_quantile,
    standard_entropy=lambda c: _LOG_2PI + np.log1p(-c * c),
)
