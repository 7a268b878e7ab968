"""The incomplete gamma and beta functions, with their complements and inverses, and the distributions that they give.

Derivatives: DLMF, dlmf.nist.gov, chapter 8. Those in shape parameters that are not known are refused, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wholestep.ir.graph import NDArray, Value
from wholestep.kernel import maths
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import ones
from wholestep.primitives.functions import External, digamma, exp, gammaln, log, log1p, pow, sqrt, unknown_derivative
from wholestep.primitives.logic import floor, select
from wholestep.primitives.special import betaln

_POSITIVE, _SHARE = (0.3, 4.0), (0.1, 0.9)


def is_broken(exponent: Value, base: Value) -> Value:
    """A mask of zeros of powers that are not whole.

    Every derivative of a density there is that of the power times the other factors, which is 0 or larger by order than
    all other terms: 0 times infinity has no part in it.
    """
    found: Value = base.equals(0) & ~exponent.equals(floor(exponent))
    return found


def power_parts(exponent: Value, x: Value, shift: float = 0.0) -> tuple[Value, Value]:
    """The logarithm of a power of shift + x, 0 where that is 0; and the power itself there, 1 elsewhere."""
    zero, one = x.equals(-shift), ones(x.type)
    safe = select(zero, one - shift, x)
    logarithm = log1p(safe) if shift else log(safe)
    return exponent * logarithm, pow(select(zero, x + shift if shift else x, one), exponent)


def gamma_density(a: Value, x: Value) -> Value:
    """The derivative of P(a, x) in x."""
    broken, one = is_broken(a - 1, x), ones(x.type)
    inside = select(broken, one, x)
    logarithm, factor = power_parts(a - 1, inside)
    made: Value = select(
        broken,
        exp(-gammaln(a)) * pow(select(broken, x, one), a - 1),
        exp(logarithm - inside - gammaln(a)) * factor,
    )
    return made


def _order_series(a: NDArray, x: NDArray) -> NDArray:
    """The derivative of P(a, x) in a by the power series in x, which is fast below x = a + 1."""
    import scipy.special

    term, slope = 1 / a, -1 / (a * a)
    sums, slopes = term.copy(), slope.copy()
    for n in range(1, 10000):
        ratio = x / (a + n)
        slope = ratio * (slope - term / (a + n))
        term = ratio * term
        sums, slopes = sums + term, slopes + slope
        if not np.any((term > 1e-17 * sums) | (np.abs(slope) > 1e-17 * np.abs(slopes))):
            break
    scale = np.exp(scipy.special.xlogy(a, x) - x - scipy.special.gammaln(a))
    return np.asarray(scale * (slopes + (np.log(x) - scipy.special.psi(a)) * sums))


def _order_fraction(a: NDArray, x: NDArray) -> NDArray:
    """The derivative of P(a, x) in a by the continued fraction of 1 - P, which is fast above x = a + 1."""
    import scipy.special

    b = x + 1 - a
    c, dc = np.full_like(a, 1e300), np.zeros_like(a)
    d, dd = 1 / b, 1 / (b * b)
    h, dh = d.copy(), dd.copy()
    for i in range(1, 10000):
        an, b = -i * (i - a), b + 2
        dd_raw = i * d + an * dd - 1
        dc = -1 + i / c - (an / c) * (dc / c)
        c = b + an / c
        d = 1 / (an * d + b)
        dd = -d * d * dd_raw
        ratio, slope = c * d, dc * d + c * dd
        h, dh = h * ratio, dh * ratio + h * slope
        if not np.any((np.abs(ratio - 1) > 1e-16) | (np.abs(h * slope) > 1e-16 * np.abs(dh))):
            break
    scale = np.exp(a * np.log(x) - x - scipy.special.gammaln(a))
    return np.asarray(-scale * (dh + (np.log(x) - scipy.special.psi(a)) * h))


def _gammainc_order(a: NDArray, x: NDArray) -> NDArray:
    wide_a, wide_x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (wide_a > 0) & (wide_x > 0) & np.isfinite(wide_x) & np.isfinite(wide_a)
    at_end = (wide_a > 0) & ((wide_x == 0) | (wide_x == math.inf))
    out = np.where(at_end, 0.0, np.where(inside, 1.0, math.nan))
    for method, where in (
        (_order_series, inside & (wide_x <= wide_a + 1)),
        (_order_fraction, inside & (wide_x > wide_a + 1)),
    ):
        if where.any():
            out[where] = method(wide_a[where], wide_x[where])
    return np.asarray(out, np.asarray(a).dtype)


gammainc_order = Elementwise(
    "gammainc_order",
    _gammainc_order,
    unknown_derivative("gammainc and the samples of ws.random.gamma and its kin", "the order or shape", "the second"),
    lambda y, a, x: gamma_density(a, x) * (log(x) - digamma(a)),
    code=maths.gammainc_order,
    takes="f",
    domain=_POSITIVE,
)
"""The derivative of `gammainc` in its order."""

gammainc = External(
    "gammainc", lambda y, a, x: gammainc_order(a, x), lambda y, a, x: gamma_density(a, x), domain=_POSITIVE
)
gammaincc = External(
    "gammaincc", lambda y, a, x: -gammainc_order(a, x), lambda y, a, x: -gamma_density(a, x), domain=_POSITIVE
)
gammaincinv = External(
    "gammaincinv",
    lambda x, a, p: -gammainc_order(a, x) / gamma_density(a, x),
    lambda x, a, p: 1 / gamma_density(a, x),
    domain=_SHARE,
)
gammainccinv = External(
    "gammainccinv",
    lambda x, a, q: -gammainc_order(a, x) / gamma_density(a, x),
    lambda x, a, q: -1 / gamma_density(a, x),
    domain=_SHARE,
)

# The incomplete beta function, and the distributions that it gives.


def beta_density(a: Value, b: Value, x: Value) -> Value:
    """The derivative of `betainc` in x."""
    low, high, one = is_broken(a - 1, x), is_broken(b - 1, 1 - x), ones(x.type)
    inside = select(low | high, 0.5 * one, x)
    (log_low, factor_low), (log_high, factor_high) = power_parts(a - 1, inside), power_parts(b - 1, -inside, 1.0)
    end = select(low, pow(select(low, x, one), a - 1), pow(select(high, 1 - x, one), b - 1))
    made: Value = select(
        low | high,
        exp(-betaln(a, b)) * end,
        exp(log_low + log_high - betaln(a, b)) * (factor_low * factor_high),
    )
    return made


def student_density(df: Value, t: Value) -> Value:
    """The density of Student's t."""
    height = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df)
    return exp(height - 0.5 * (df + 1) * log1p(t * t / df)) / sqrt(math.pi * df)


def _beta_member(name: str, slope: Callable[..., Value]) -> Elementwise:
    return External(name, "the shape parameter a", "the shape parameter b", slope, domain=(0.6, 0.8))


betainc = _beta_member("betainc", lambda y, a, b, x: beta_density(a, b, x))
betaincc = _beta_member("betaincc", lambda y, a, b, x: -beta_density(a, b, x))
betaincinv = _beta_member("betaincinv", lambda x, a, b, p: 1 / beta_density(a, b, x))
betainccinv = _beta_member("betainccinv", lambda x, a, b, q: -1 / beta_density(a, b, x))
stdtr = External("stdtr", "the degrees of freedom", lambda y, df, t: student_density(df, t), domain=_POSITIVE)
stdtrit = External("stdtrit", "the degrees of freedom", lambda t, df, p: 1 / student_density(df, t), domain=(0.4, 0.9))
