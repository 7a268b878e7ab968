"""Inverse functions of circles and hyperbolas: reduced to a short interval, or to a logarithm that keeps its digits."""

from __future__ import annotations

import math

from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import ASIN, ATAN, F32, F64
from wholestep.kernel.maths.float_bits import (
    by,
    copysign,
    differ,
    equal,
    fma,
    format_of,
    from_word,
    isfinite,
    isinf,
    isnan,
    magnitude,
    number,
    polynomial,
    quick_sum,
    root,
    select,
    sign_of,
    with_sign,
)
from wholestep.kernel.maths.logarithms import exponent, split, tail
from wholestep.kernel.ops import two_sum

HALF_PI = {F32: (1.5707963705062866, -4.371139000186241e-08), F64: (1.5707963267948966, 6.123233995736766e-17)}
"""pi / 2 in two parts."""
EIGHTH = math.tan(math.pi / 8)


def quarter(little: Var, large: Var) -> Var:
    """arctan(little / large) for 0 <= little <= large."""
    high, low = HALF_PI[large.dtype]
    beyond = little > large * EIGHTH
    # arctan(t) = pi / 4 + arctan((t - 1) / (t + 1))
    up, down = select(beyond, little - large, little), select(beyond, little + large, large)
    t = up / down
    s = t * t
    zero = number(t, 0.0)
    rest = fma(t * s, polynomial(s, ATAN), select(beyond, number(t, low / 2), zero))
    first, left = quick_sum(select(beyond, number(t, high / 2), zero), t)
    return first + (left + rest)


def arctan2(y: Var, x: Var) -> Var:
    """The angle of the point (x, y), from -pi to pi; signed zeros tell the sides of the cut."""
    f = format_of(x)
    a, c = magnitude(y), magnitude(x)
    # Sums of huge numbers must not overflow, nor quotients of tiny ones lose their digits.
    huge = (a > 2.0 ** (f.bias - 1)) | (c > 2.0 ** (f.bias - 1))
    unit = select(huge, number(x, 0.25), number(x, 1.0))
    both = isinf(x) & isinf(y)
    one = number(x, 1.0)
    a, c = select(both, one, a * unit), select(both, one, c * unit)
    steep = a > c
    little, large = select(steep, c, a), select(steep, a, c)
    angle = select(equal(large, 0.0), number(x, 0.0), quarter(little, large))
    angle = select(isinf(large), number(x, 0.0), angle)
    high, low = HALF_PI[x.dtype]
    angle = select(steep, (number(x, high) - angle) + low, angle)
    left = differ(sign_of(x), 0)
    angle = select(left, (number(x, 2 * high) - angle) + 2 * low, angle)
    return select(isnan(x) | isnan(y), x + y, copysign(angle, y))


def arctan(x: Var) -> Var:
    """The angle whose tangent is x."""
    a = magnitude(x)
    one = number(x, 1.0)
    steep = a > 1
    angle = quarter(select(steep, one, a), select(steep, a, one))
    high, low = HALF_PI[x.dtype]
    return copysign(select(steep, (number(x, high) - angle) + low, angle), x)


def arcsine(t: Var) -> Var:
    """arcsin(t) - t for |t| <= 1/2."""
    s = t * t
    return t * s * polynomial(s, ASIN)


def half_chord(a: Var) -> tuple[Var, Var]:
    """sqrt((1 - a) / 2) for 1/2 < a <= 1, and its rounding error."""
    square = (1 - a) * 0.5
    c = root(square)
    return c, select(square > 0, fma(-c, c, square) / (c + c), number(a, 0.0))


def arcsin(x: Var) -> Var:
    """The angle whose sine is x."""
    a = magnitude(x)
    high, low = HALF_PI[x.dtype]
    inner = a <= 0.5
    c, rest = half_chord(a)
    t = select(inner, a, c)
    more = arcsine(t)
    outer = number(x, high) - 2 * (c - ((low * 0.5 - rest) - more))
    return copysign(select(inner, a + more, outer), x)


def arccos(x: Var) -> Var:
    """The angle whose cosine is x, from 0 to pi."""
    a = magnitude(x)
    high, low = HALF_PI[x.dtype]
    inner = a <= 0.5
    c, rest = half_chord(a)
    t = select(inner, x, c)
    more = arcsine(t)
    outer = 2 * (c + (rest + more))
    outer = select(x < 0, number(x, 2 * high) - (outer - 2 * low), outer)
    return select(inner, number(x, high) - (x - (low - more)), outer)


def log_of_sum(high: Var, low: Var) -> Var:
    """log(1 + high + low) for a low part that is small beside the high one, which is not negative."""
    f = format_of(high)
    u, left = two_sum(number(high, 1.0), high)
    left = left + low
    shifted, m = split(u)
    field = shifted & ~((1 << f.fraction) - 1) % (1 << f.width)
    down = from_word((2 * f.one) - field, high)
    part, rest = two_sum(m - 1, left * down)
    y = fma(exponent(shifted, high), math.log(2.0), part + (tail(part) + rest))
    return y


def arcsinh(x: Var) -> Var:
    """log(x + sqrt(x**2 + 1))."""
    a = magnitude(x)
    far = a > 2.0 ** (format_of(x).fraction // 2 + 3)
    b = select(far, number(x, 1.0), a)
    square = b * b
    # x + sqrt(x**2 + 1) - 1 = x + x**2 / (1 + sqrt(x**2 + 1))
    high, low = two_sum(b, square / (1 + root(square + 1)))
    near = log_of_sum(high, low)
    return with_sign(select(a < by(x, 1e-5, 1e-9), a, select(far, doubled(a), near)), sign_of(x))


def doubled(a: Var) -> Var:
    """log(2 a) for a large a."""
    shifted, m = split(a)
    f = m - 1
    y = fma(exponent(shifted, a) + 1, math.log(2.0), f + tail(f))
    return select(isfinite(a), y, a)


def arccosh(x: Var) -> Var:
    """log(x + sqrt(x**2 - 1)); NaN below 1."""
    far = x > 2.0 ** (format_of(x).fraction // 2 + 3)
    t = select(far, number(x, 1.0), x - 1)
    square = fma(t, t, t + t)
    r = root(square)
    high, low = two_sum(r, t)
    missing = fma(-r, r, square) + fma(t, t, (t + t) - square)
    near = log_of_sum(high, low + select(r > 0, missing / (r + r), number(x, 0.0)))
    y = select(far, doubled(x), select(equal(x, 1.0), number(x, 0.0), near))
    return select(x >= 1, y, number(x, math.nan))


def arctanh(x: Var) -> Var:
    """log((1 + x) / (1 - x)) / 2."""
    a = magnitude(x)
    down = 1 - a
    q = (a + a) / down
    rest = fma(-q, down, a + a) - q * ((1 - down) - a)
    inside = a < 1
    y = 0.5 * log_of_sum(select(inside, q, number(x, 1.0)), select(inside, rest / down, number(x, 0.0)))
    edge = select(equal(a, 1.0), number(x, math.inf), number(x, math.nan))
    return with_sign(select(a < by(x, 1e-5, 1e-9), a, select(inside, y, edge)), sign_of(x))
