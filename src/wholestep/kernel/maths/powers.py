"""Powers: x**y = exp(y log(x)) with the logarithm in two parts, and integer powers by squaring."""

from __future__ import annotations

import math
from collections.abc import Callable

from wholestep.errors import ParameterError
from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.exponentials import LOG2, exp_with
from wholestep.kernel.maths.float_bits import (
    at_least,
    at_most,
    by,
    differ,
    equal,
    fma,
    format_of,
    horner,
    isfinite,
    isinf,
    isnan,
    magnitude,
    number,
    product_of,
    quick_sum,
    root,
    select,
    sign_of,
    word,
)
from wholestep.kernel.maths.logarithms import exponent, normal, split
from wholestep.kernel.ops import two_sum

TWO_THIRDS_REST = (-1.9868216e-8, 3.700743415417188e-17)
"""The rounding error of 2 / 3 in float32 and in float64: the exact value less the rounded one."""


def log_in_parts(a: Var) -> tuple[Var, Var]:
    """log(a) of a positive number to one and a half times its dtype's digits.

    log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), |s| <= 1/5; the series 2 s (1 + s**2 / 3 + ...) follows s in two
    parts, and so does its first correction.
    """
    y, power = normal(a)
    shifted, m = split(y)
    e = exponent(shifted, a) + power
    up = m - 1
    down, down_rest = two_sum(m, number(m, 1.0))
    s = up / down
    s_rest = (fma(-s, down, up) - s * down_rest) / down
    square, square_rest = product_of(s, s)
    square_rest = fma(2 * s, s_rest, square_rest)
    terms = by(a, 6, 13)
    series = horner(square, tuple(2.0 / (2 * k + 3) for k in range(1, terms)))
    # 2/3 s**3 in two parts; one part is precise enough for the later terms.
    more, more_rest = product_of(square, series)
    head, head_rest = two_sum(number(a, 2 / 3), more)
    head_rest = head_rest + (more_rest + by(a, *TWO_THIRDS_REST))
    cube, cube_rest = product_of(s, square)
    cube_rest = fma(s, square_rest, fma(s_rest, square, cube_rest))
    first, first_rest = product_of(cube, head)
    first_rest = fma(cube, head_rest, fma(cube_rest, head, first_rest))
    high, low = LOG2[a.dtype]
    total, rest = two_sum(e * high, 2 * s)
    total, left = two_sum(total, first)
    rest = rest + left + fma(e, low, fma(2.0, s_rest, first_rest))
    return quick_sum(total, rest)


def positive_power(a: Var, y: Var) -> Var:
    """a**y for a positive a."""
    high, low = log_in_parts(a)
    p, rest = product_of(high, y)
    rest = fma(low, y, rest)
    bound = by(a, 200.0, 1500.0)
    inside = magnitude(p) < bound
    return exp_with(at_least(-bound, at_most(bound, p)), select(inside, rest, number(a, 0.0)))


def pow(x: Var, y: Var) -> Var:
    """x**y, as C has it: 1 where x is 1 or y is 0, NaN for a fractional power of a negative number."""
    if x.dtype.kind != "f":
        return integer_power(x, y)
    if y.op == "const" and float(y.attr) in SHORT:
        return SHORT[float(y.attr)](x)
    b = builder()
    a = magnitude(x)
    one, infinity = number(x, 1.0), number(x, math.inf)
    zero = number(x, 0.0)
    ordinary = (a > 0) & isfinite(x)
    z = positive_power(select(ordinary, a, one), select(isfinite(y), y, one))
    grows = (a > 1) & (y > 0) | (a < 1) & (y < 0)
    ends = ~ordinary | isinf(y)
    z = select(ends, select(equal(a, 1.0), one, select(grows, infinity, zero)), z)
    whole = equal(b.op("trunc", y), y)
    half = y * 0.5
    odd = whole & differ(b.op("trunc", half), half) & isfinite(y)
    negative = x < 0
    signed = odd & differ(sign_of(x), 0)
    z = select(signed, -z, z)
    z = select(negative & ~whole & isfinite(x), number(x, math.nan), z)
    z = select(isnan(x) | isnan(y), x + y, z)
    return select(equal(y, 0.0) | equal(x, 1.0), one, z)


def square_root(x: Var) -> Var:
    """x**0.5, which unlike the square root is 0 at -0 and infinite at minus infinity."""
    f = format_of(x)
    return select(equal(word(x), f.sign | f.infinity), number(x, math.inf), root(x) + 0.0)


SHORT: dict[float, Callable[[Var], Var]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x),
    -1.0: lambda x: 1 / x,
    0.5: square_root,
    -0.5: lambda x: 1 / square_root(x),
}
"""Powers whose exponent is known to be one of these numbers."""


def integer_power(x: Var, y: Var) -> Var:
    """x**y of integers, wrapping. NumPy refuses a negative y: so does this where y is a known number."""
    if y.op == "const":
        return known_power(x, int(y.attr))
    total, square, rest = number(x, 1), x, y
    for _ in range(8 * x.dtype.itemsize):
        total = select(differ(rest & 1, 0), total * square, total)
        square, rest = square * square, rest >> 1
    return total


def known_power(x: Var, n: int) -> Var:
    """x**n by squaring; raises ParameterError for a negative n."""
    if n < 0:
        raise ParameterError(
            "power: integers to negative integer powers are not allowed", hint="make the base floating"
        )
    total, square = number(x, 1), x
    while n:
        total = total * square if n & 1 else total
        square, n = square * square, n >> 1
    return total
