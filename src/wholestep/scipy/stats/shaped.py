"""Continuous distributions of more shapes: ratios, angles, skewed and cut off ones, and between Laplace and Gauss."""

from __future__ import annotations

import math
import operator
from typing import Any

from wholestep.frontend.marks import stop_gradient
from wholestep.scipy.outside import np, special
from wholestep.scipy.stats.boxes import FAR
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
    return m * np.log(dfn) + n * np.log(dfd) - (m + n) * np.log(dfd + dfn * z) - special.betaln(m, n)


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
    powers=lambda z, dfn, dfd: [(0.5 * dfn - 1, z, 0.0)],
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


_REACH = math.sqrt(80.0)
"""The distance from 0 beyond which the mass past exp(-40) of a density is left out: no number has digits for it."""


def _towards_zero(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The point between a and b that is nearest to 0, the width of what has mass, and the middle of that from there.

    Far from 0 the width is that of the larger end's tail. None of these is a difference of large numbers, except where
    the bounds are.
    """
    right, left = a > 0, b < 0
    anchor = np.where(right, a, np.where(left, b, 0.0))
    size = np.where(np.abs(anchor) < 8, 8.0, np.abs(anchor))
    tail = 80.0 / (size + np.hypot(size, _REACH))
    width = np.where(np.abs(anchor) < 8, b - a, np.minimum(b - a, tail))
    half = 0.5 * width
    return anchor, width, np.where(right, half, np.where(left, -half, 0.5 * (a + b)))


def _by_nodes(a: Any, b: Any) -> tuple[Any, Any, Any, Any, Any]:
    """A mask of near bounds and of tails, and what they have between them of a normal density: `anchor`, the logarithm
    of the mass over the density at the anchor, the mean's distance from there, and the variance.

    These come by a rule of fixed nodes, since differences of probabilities and of densities at the ends have no digits.
    """
    far, finite = (a > 8) | (b < -8), np.isfinite(a) & np.isfinite(b)
    a, b = np.where(far | finite, a, 0.0), np.where(far | finite, b, 8.0)
    anchor, width, offset = _towards_zero(a, b)
    narrow = (width <= 4) & (np.abs(anchor + offset) * np.minimum(width, 4.0) <= 40.5)
    anchor, width, offset = [np.where(narrow, x, y) for x, y in ((anchor, 0.0), (width, 1.0), (offset, 0.5))]
    centre, half = anchor + offset, 0.5 * width
    slope, bend = centre * half, 0.5 * half * half
    share = np.exp(-(slope[..., None] + bend[..., None] * _NODES) * _NODES) * (0.5 * _WEIGHTS)
    mass = np.sum(share, axis=-1)
    mean = np.sum(share * _NODES, axis=-1) / mass
    spread = np.sum(share * (_NODES - mean[..., None]) ** 2, axis=-1) / mass
    log_mass = np.log(width) - 0.5 * offset * (anchor + centre) + np.log(mass)
    return narrow, anchor, log_mass, offset + half * mean, half * half * spread


def _log_mass(a: Any, b: Any) -> tuple[Any, Any]:
    """A point, and the logarithm of the normal probability between a and b over the density there; -inf of nothing.

    The point is the end nearest to 0 of near bounds and of tails, whose mass may be too small for a number, and 0
    elsewhere. There both ends are brought to the left half where they lie right of 0.
    """
    some = a < b
    narrow, anchor, made, _, _ = _by_nodes(a, np.where(some, b, a + 1.0))
    narrow = narrow & some
    a, b = np.where(narrow, 0.0, np.clip(a, -FAR, FAR)), np.where(narrow, 8.0, np.clip(b, -FAR, FAR))
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    tail, central = high <= 0, (high > 0)
    most, least = special.log_ndtr(np.where(tail, high, -1.0)), special.log_ndtr(np.where(tail, low, -2.0))
    outer = special.ndtr(np.where(central, low, -1.0)) + special.ndtr(-np.where(central, high, 1.0))
    apart = np.where(tail, most + np.log1p(-np.exp(least - most)), np.log1p(-outer)) + 0.5 * _LOG_2PI
    return np.where(narrow, anchor, 0.0), np.where(narrow, made, apart)


def _over(part: tuple[Any, Any], whole: tuple[Any, Any]) -> Any:
    """The logarithm of a mass over another, each as `_log_mass` gives it."""
    (p, x), (q, y) = part, whole
    return x - y - 0.5 * (p - q) * (p + q)


def _log_share(some: Any, rest: Any, whole: Any) -> Any:
    """The logarithm of a part of a mass: from that of the rest where the part is the larger one."""
    most = _over(some, rest) > 0
    return np.where(most, np.log1p(-np.exp(np.where(most, _over(rest, whole), -1.0))), _over(some, whole))


def _truncnorm_log_density(z: Any, a: Any, b: Any) -> Any:
    return _over((z, 0.0), _log_mass(a, b))


def _difference_at_ends(a: Any, b: Any, rule: Any) -> Any:
    """A rule of the lower end and the density there, less that of the upper one; an infinite end has no density."""
    finite_a, finite_b = np.isfinite(a), np.isfinite(b)
    low, high = np.where(finite_a, a, 0.0), np.where(finite_b, b, 0.0)
    at_a, at_b = [np.exp(_truncnorm_log_density(x, a, b)) for x in (low, high)]
    return np.where(finite_a, rule(low, at_a), 0.0) - np.where(finite_b, rule(high, at_b), 0.0)


def _truncnorm_moments(a: Any, b: Any) -> tuple[Any, Any]:
    narrow, anchor, _, offset, variance_by_nodes = _by_nodes(a, b)
    a, b = np.where(narrow, 0.0, a), np.where(narrow, 8.0, b)
    mean = _difference_at_ends(a, b, lambda x, density: density)
    variance = 1 + _difference_at_ends(a, b, operator.mul) - mean * mean
    return np.where(narrow, anchor + offset, mean), np.where(narrow, variance_by_nodes, variance)


def _truncnorm_entropy(a: Any, b: Any) -> Any:
    """The logarithm of the mass over the density at the anchor, and half the mean of x * x less the anchor's square."""
    narrow, anchor, log_mass, offset, variance = _by_nodes(a, b)
    near = log_mass + 0.5 * (variance + offset * offset) + anchor * offset
    a, b = np.where(narrow, 0.0, a), np.where(narrow, 8.0, b)
    _, apart = _log_mass(a, b)
    return np.where(narrow, near, apart + 0.5 + 0.5 * _difference_at_ends(a, b, operator.mul))


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
    log_density=_truncnorm_log_density,
    below=lambda z, a, b: np.exp(_over(_log_mass(a, z), _log_mass(a, b))),
    above=lambda z, a, b: np.exp(_over(_log_mass(z, b), _log_mass(a, b))),
    log_below=lambda z, a, b: _log_share(_log_mass(a, z), _log_mass(z, b), _log_mass(a, b)),
    log_above=lambda z, a, b: _log_share(_log_mass(z, b), _log_mass(a, z), _log_mass(a, b)),
    standard_entropy=_truncnorm_entropy,
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
