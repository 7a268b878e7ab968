"""Logarithms: x = 2**e (1 + f) with -1/3 <= f < 1/3, so that log(x) = e log(2) + log(1 + f)."""

from __future__ import annotations

import math

from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import F32, F64, LOG
from wholestep.kernel.maths.exponentials import exp2, negative_exp
from wholestep.kernel.maths.float_bits import (
    differ,
    equal,
    fma,
    format_of,
    from_word,
    isfinite,
    isnan,
    magnitude,
    number,
    polynomial,
    select,
    word,
)

TWO_THIRDS = {F32: 0x3F2AAAAB, F64: 0x3FE5555555555555}
SCALES = {
    "e": (1.0, math.log(2.0)),
    "2": (math.log2(math.e), 1.0),
    "10": (math.log10(math.e), math.log10(2.0)),
}
"""For each base, the logarithms of e and of 2."""
REST = {
    (F32, "2"): 1.9259629911e-8,
    (F64, "2"): 2.0355273740931033e-17,
    (F32, "10"): -1.0309642e-8,
    (F64, "10"): 1.098319650216765e-17,
}
"""The rounding error of the logarithm of e: the exact value less the rounded one."""


def split(x: Var) -> tuple[Var, Var]:
    """The word whose exponent field is e + bias, and 1 + f, of a positive normal number."""
    f, third = format_of(x), TWO_THIRDS[x.dtype]
    shifted = word(x) + (f.one - third)
    return shifted, from_word((shifted & ((1 << f.fraction) - 1)) + third, x)


def exponent(shifted: Var, like: Var) -> Var:
    """The exponent e as a floating-point number."""
    f = format_of(like)
    big = 2.0**f.fraction
    return from_word((shifted >> f.fraction) | ((f.bias + f.fraction) << f.fraction), like) - (big + f.bias)


def tail(f: Var) -> Var:
    """log(1 + f) - f."""
    square = f * f
    return fma(square * f, polynomial(f, LOG), square * -0.5)


def normal(x: Var) -> tuple[Var, Var]:
    """x, scaled by a power of two to a normal number if it is subnormal, and the exponent to add to its logarithm."""
    f = format_of(x)
    tiny = x < f.least
    return select(tiny, x * 2.0**f.fraction, x), select(tiny, number(x, float(-f.fraction)), number(x, 0.0))


def special(x: Var, y: Var) -> Var:
    """y where x is positive and finite; elsewhere -inf at 0, NaN below 0, and x itself for infinity and NaN."""
    other = select(equal(x, 0.0), number(x, -math.inf), select(x < 0, math.nan, x))
    return select((x > 0) & isfinite(x), y, other)


def log(x: Var) -> Var:
    """The natural logarithm."""
    y, power = normal(x)
    shifted, m = split(y)
    f = m - 1
    return special(x, fma(exponent(shifted, x) + power, math.log(2.0), f + tail(f)))


def log_of_base(x: Var, base: str) -> Var:
    """A logarithm to the base 2 or 10; exact for exact powers of 2 to the base 2."""
    y, power = normal(x)
    shifted, m = split(y)
    f = m - 1
    e = exponent(shifted, x) + power
    of_e, of_2 = SCALES[base]
    # The rounding error of f times the constant is added to the smaller terms before the exponent's logarithm is.
    head = f * of_e
    rest = fma(f, of_e, -head) + fma(f, REST[x.dtype, base], tail(f) * of_e)
    if base == "10":
        low = number(x, of_2 - float(x.dtype.type(of_2)))
        rest = fma(e, low, rest)
    whole = e * of_2
    total = whole + head
    return special(x, total + ((head - (total - whole)) + rest))


def log2(x: Var) -> Var:
    """The logarithm to the base 2."""
    return log_of_base(x, "2")


def log10(x: Var) -> Var:
    """The logarithm to the base 10."""
    return log_of_base(x, "10")


def log1p(x: Var) -> Var:
    """log(1 + x), exact to the last digits near 0 too."""
    f = format_of(x)
    shifted, _ = split(x + 1)
    field = shifted & ~((1 << f.fraction) - 1) % (1 << f.width)
    # 1 + x = 2**e (1 + f), where f = 2**-e x + (2**-e - 1): nothing of x is lost in the sum.
    power = from_word((2 * f.one + (2 << f.fraction)) - field, x)
    part = from_word(word(x) - (field - f.one), x) + fma(power, 0.25, -1.0)
    y = fma(exponent(shifted, x), math.log(2.0), part + tail(part))
    other = select(equal(x, -1.0), number(x, -math.inf), select(x < -1, math.nan, x))
    inside = (x > -1) & isfinite(x) & differ(x, 0.0)
    return select(inside, y, other)


def log_expit(x: Var) -> Var:
    """log(1 / (1 + e**-x))."""
    return select(x < 0, x, number(x, -0.0)) - log1p(negative_exp(x))


def logaddexp(x: Var, y: Var) -> Var:
    """log(e**x + e**y)."""
    gap = select(equal(x, y), 0.0, x - y)
    larger = select(gap > 0, x, y)
    return select(isnan(gap), gap, larger + log1p(negative_exp(gap)))


def logaddexp2(x: Var, y: Var) -> Var:
    """log2(2**x + 2**y)."""
    gap = select(equal(x, y), 0.0, x - y)
    larger = select(gap > 0, x, y)
    sum_of_powers = log1p(exp2(-magnitude(gap))) * math.log2(math.e)
    return select(isnan(gap), gap, larger + sum_of_powers)
