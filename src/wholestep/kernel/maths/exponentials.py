"""Exponentials: the argument less a whole number of log(2), a polynomial, and a power of two.

x = n log(2) + r with |r| <= log(2) / 2, so that exp(x) = 2**n (1 + p) where p = exp(r) - 1.
"""

from __future__ import annotations

import math

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import EXP, EXP2, F32, F64
from wholestep.kernel.maths.float_bits import (
    at_least,
    at_most,
    by,
    copysign,
    fma,
    format_of,
    horner,
    magnitude,
    polynomial,
    scaled,
    select,
    sign_of,
    two_power,
    with_sign,
)

LOG2E = math.log2(math.e)
LOG2 = {F32: (0.693145752, 1.42860677e-6), F64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
"""log(2) in two parts, the first so short that its products with n are exact."""


def reduced(x: Var) -> tuple[Var, Var, Var]:
    """r, n, and n + magic."""
    magic = format_of(x).magic
    high, low = LOG2[x.dtype]
    rounded = fma(x, LOG2E, magic)
    n = rounded - magic
    return fma(n, -low, fma(n, -high, x)), n, rounded


def small(r: Var) -> Var:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    return fma(r * r, polynomial(r, EXP), r)


def exp(x: Var) -> Var:
    """e**x."""
    x = at_least(by(x, -104.5, -746.0), at_most(by(x, 89.0, 710.0), x))
    r, n, _ = reduced(x)
    return scaled(small(r) + 1, n)


def exp_with(x: Var, rest: Var) -> Var:
    """e**(x + rest) for a rest that is small beside 1."""
    x = at_least(by(x, -104.5, -746.0), at_most(by(x, 89.0, 710.0), x))
    r, n, _ = reduced(x)
    return scaled(small(r + rest) + 1, n)


def exp2(x: Var) -> Var:
    """2**x."""
    f = format_of(x)
    x = at_least(by(x, -151.0, -1076.0), at_most(by(x, 129.0, 1025.0), x))
    n = (x + f.magic) - f.magic
    r = x - n
    return scaled(fma(r, polynomial(r, EXP2), 1.0), n)


def expm1(x: Var) -> Var:
    """e**x - 1, exact to the last digits near 0 too."""
    clamped = at_least(by(x, -20.0, -40.0), at_most(by(x, 89.0, 710.0), x))
    r, _, rounded = reduced(clamped)
    # Half of the power, for 2**n itself may overflow where the result does not.
    half = two_power(rounded - 1)
    y = 2 * fma(small(r), half, half - 0.5)
    return select(magnitude(x) < by(x, 1e-8, 1e-17), x, y)


def both(x: Var) -> tuple[Var, Var, Var, Var]:
    """2**(n - 2), 2**(-n - 2), exp(r) - 1 and exp(-r) - 1, from which hyperbolic functions are computed."""
    magic = format_of(x).magic
    r, n, rounded = reduced(x)
    square = r * r
    even, odd = horner(square, EXP[x.dtype][::2]), horner(square, EXP[x.dtype][1::2])
    up, down = fma(square, fma(r, odd, even), r), fma(square, fma(-r, odd, even), -r)
    # Far out the falling power is lost in the sum; it only has to stay a normal number.
    return two_power(rounded - 2), two_power((magic - 2) - at_most(by(x, 100.0, 1000.0), n)), up, down


def sinh(x: Var) -> Var:
    """(e**x - e**-x) / 2."""
    a = at_most(by(x, 89.6, 710.6), magnitude(x))
    high, low, up, down = both(a)
    y = 2 * ((high - low) + fma(high, up, -(low * down)))
    return with_sign(select(a < by(x, 1e-5, 1e-9), a, y), sign_of(x))


def cosh(x: Var) -> Var:
    """(e**x + e**-x) / 2."""
    a = at_most(by(x, 89.6, 710.6), magnitude(x))
    high, low, up, down = both(a)
    return 2 * ((high + low) + fma(high, up, low * down))


def tanh(x: Var) -> Var:
    """(e**x - e**-x) / (e**x + e**-x)."""
    a = at_most(by(x, 9.5, 20.0), magnitude(x))
    r, _, rounded = reduced(a * -2)
    power = two_power(rounded)
    p = small(r)
    y = fma(p, power, power - 1) / fma(p, power, power + 1)
    return copysign(select(a < by(x, 1e-5, 1e-9), a, y), x)


def negative_exp(x: Var) -> Var:
    """exp(-|x|), which is at most 1 and underflows to 0."""
    return exp(-magnitude(x))


def expit(x: Var) -> Var:
    """1 / (1 + e**-x)."""
    e = negative_exp(x)
    d = e + 1
    q = select(x < 0, e, builder().constant(1.0, x.dtype)) / d
    # The rounding error of d is multiplied by 1 / d, which a linear function approximates well enough.
    return q - q * ((e - (d - 1)) * fma(d, -0.5, 1.5))
