"""Division with a whole quotient, of integers and of floating-point numbers, and its remainder.

A floating-point remainder is exact however large the quotient: where it has more digits than fit, the divisor is
subtracted in multiples by powers of two, some digits of the quotient at a time.
"""

from __future__ import annotations

import math

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Axis, Var
from wholestep.kernel.maths.float_bits import (
    at_least,
    at_most,
    by,
    copysign,
    differ,
    equal,
    fma,
    format_of,
    from_word,
    isfinite,
    isinf,
    magnitude,
    number,
    select,
    two_power,
    word,
)
from wholestep.kernel.maths.logarithms import normal


def whole(x: Var) -> Var:
    """x rounded toward zero."""
    return builder().op("trunc", x)


def integer_floor_divide(x: Var, y: Var) -> Var:
    """x / y rounded down."""
    whole = builder().op("quotient", x, y)
    if x.dtype.kind == "u":
        return whole
    rest = x - whole * y
    down = differ(rest, 0) & ((rest ^ y) < 0) & differ(y, 0)
    return select(down, whole - 1, whole)


def integer_fmod(x: Var, y: Var) -> Var:
    """The remainder of x after a quotient rounded toward zero."""
    rest = x - builder().op("quotient", x, y) * y
    return select(equal(y, 0), number(x, 0), rest)


def integer_remainder(x: Var, y: Var) -> Var:
    """The remainder of x after a quotient rounded down."""
    rest = integer_fmod(x, y)
    return rest if x.dtype.kind == "u" else select(differ(rest, 0) & ((rest ^ y) < 0), rest + y, rest)


def fmod(x: Var, y: Var) -> Var:
    """The remainder of x after x / y is rounded toward zero."""
    if x.dtype.kind != "f":
        return integer_fmod(x, y)
    a, d = magnitude(x), magnitude(y)
    defined = isfinite(x) & (d > 0)
    ratio = a / d
    rest = corrected(subtracted(defined & (ratio >= 2.0 ** (format_of(x).fraction - 1)), a, d), d)
    rest = select(isinf(y), a, rest)
    return select(defined, copysign(rest, x), number(x, math.nan))


def corrected(a: Var, d: Var) -> Var:
    """The rest of a when a whole number of d is taken away, of which fewer digits than a number has are needed."""
    rest = fma(-whole(a / d), d, a)
    rest = select(rest < 0, rest + d, rest)
    return select(rest >= d, rest - d, rest)


def subtracted(guard: Var, a: Var, d: Var) -> Var:
    """a less a multiple of d that brings it near d, where the guard asks for that."""
    with builder().loop(Axis("digits", by(a, 16, 46)), ordered=True, guard=guard) as loop:
        rest, divisor = loop.carry(a), loop.carry(d)
        f = format_of(rest)
        base, power = normal(divisor)
        # So many twos that the quotient by the multiple has three digits fewer than fit.
        power = power + at_least(0.0, exponent_field(rest) - exponent_field(base) - power - (f.fraction - 3))
        multiple = base
        for _ in range(3):
            part = at_most(by(rest, 100.0, 700.0), power)
            multiple, power = multiple * two_power(part + f.magic), power - part
        loop.hand(divisor, divisor)
        return loop.hand(rest, corrected(rest, multiple))


def exponent_field(x: Var) -> Var:
    """The exponent field of a positive number, as a number; 1 where it is subnormal."""
    f = format_of(x)
    return at_least(1.0, from_word((word(x) >> f.fraction) | word(number(x, 2.0**f.fraction)), x) - 2.0**f.fraction)


def remainder(x: Var, y: Var) -> Var:
    """The remainder of x after x / y is rounded down; it has the sign of y."""
    if x.dtype.kind != "f":
        return integer_remainder(x, y)
    rest = fmod(x, y)
    moved = select(differ(y < 0, rest < 0), rest + y, rest)
    return select(equal(rest, 0.0), copysign(rest, y), moved)


def floor_divide(x: Var, y: Var) -> Var:
    """x / y rounded down."""
    if x.dtype.kind != "f":
        return integer_floor_divide(x, y)
    rest = fmod(x, y)
    ratio = (x - rest) / y
    ratio = select(differ(rest, 0.0) & differ(y < 0, rest < 0), ratio - 1, ratio)
    down = builder().op("floor", ratio)
    down = select(ratio - down > 0.5, down + 1, down)
    down = select(equal(ratio, 0.0), copysign(number(x, 0.0), x / y), down)
    return select(equal(y, 0.0), x / y, down)
