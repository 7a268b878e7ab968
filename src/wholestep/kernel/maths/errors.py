"""The error function and its family: a polynomial near 0, elsewhere exp(-x**2) times a slowly falling factor.

erfcx(z) = exp(z**2) erfc(z) = P(v) / (z + 1/2), v = (z - 3) / (z + 3), for every z >= 0: all tails come from it.
"""

from __future__ import annotations

import math

from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import ERF, ERF_TAIL, F32, F64, MILLS
from wholestep.kernel.maths.exponentials import exp, exp_with
from wholestep.kernel.maths.float_bits import (
    at_most,
    by,
    copysign,
    fma,
    horner,
    magnitude,
    number,
    polynomial,
    product_of,
    select,
)
from wholestep.kernel.maths.logarithms import log, log1p

NEAR = 0.93
"""The largest |x| at which erf is computed by its polynomial."""


def central(x: Var) -> Var:
    """erf(x) for |x| <= NEAR."""
    return fma(x, polynomial(x * x, ERF), x)


def erf(x: Var) -> Var:
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
    a = magnitude(x)
    b = at_most(by(x, 4.0, 6.0), a)
    far = 1 - exp(-fma(b, polynomial(b, ERF_TAIL), b))
    return select(a < NEAR, central(x), copysign(far, x))


ROOT_HALF = math.sqrt(0.5)
ROOT_HALF_REST = {F32: 1.2101617e-8, F64: -4.833646656726457e-17}
"""The rounding error of sqrt(1 / 2): the exact value less the rounded one."""


def slow(z: Var, left: Var | float = 0.0) -> tuple[Var, Var]:
    """erfcx(z + left) for z >= 0 and a small left, and the relative rounding error of that value."""
    v = 1 - 6 / (z + 3)
    high, low, *more = MILLS[z.dtype]
    down = z + 0.5
    missing = (z - (down - 0.5)) + left
    value = (fma(v, horner(v, tuple(more)), low) + high) / down
    # The factor 1 / down of the missing part of the argument is within a tenth of 1.7 times the value.
    return value, select(value > 0, missing * value * -1.7, number(z, 0.0))


def slow_of_scaled(a: Var) -> tuple[Var, Var]:
    """erfcx(a / sqrt(2)) for a >= 0, and the relative rounding error of that value."""
    z, left = product_of(a, ROOT_HALF)
    return slow(z, fma(a, ROOT_HALF_REST[a.dtype], left))


def whole(value: Var, share: Var) -> Var:
    """A value corrected by its relative rounding error."""
    return fma(value, share, value)


def bell(z: Var, half: float, share: Var) -> Var:
    """exp(-half * z**2), the square taken with all its digits, times 1 + share."""
    square, rest = product_of(z, z)
    return exp_with(square * -half, fma(rest, -half, share))


def limit(z: Var) -> Var:
    """z, limited to a value at which exp(-z**2) is already 0."""
    return at_most(by(z, 12.0, 30.0), z)


def erfc(x: Var) -> Var:
    """1 - erf(x), exact to the last digits in the tail too."""
    a = limit(magnitude(x))
    value, share = slow(a)
    far = value * bell(a, 1.0, share)
    outer = select(x < 0, 2 - far, far)
    # Near 0, 1 - erf(x) is right as it stands.
    return select(magnitude(x) < 0.47, 1 - central(x), outer)


def erfcx(x: Var) -> Var:
    """exp(x**2) * erfc(x)."""
    a = magnitude(x)
    right = whole(*slow(a))
    square, rest = product_of(limit(a), limit(a))
    growth = exp_with(square, rest)
    return select(a < 0.4, growth * (1 - central(x)), select(x < 0, fma(2.0, growth, -right), right))


def ndtr(x: Var) -> Var:
    """The area under the normal density from minus infinity to x."""
    a = at_most(by(x, 17.0, 42.0), magnitude(x))
    value, share = slow_of_scaled(a)
    far = value * (0.5 * bell(a, 0.5, share))
    near = fma(0.5, central(x * ROOT_HALF), 0.5)
    return select(magnitude(x) < 0.6, near, select(x < 0, far, 1 - far))


def log_ndtr(x: Var) -> Var:
    """The logarithm of ndtr, exact also where ndtr itself underflows to 0."""
    a = magnitude(x)
    value, share = slow_of_scaled(a)
    tail = value * (0.5 * bell(at_most(by(x, 17.0, 42.0), a), 0.5, share))
    near = fma(central(a * ROOT_HALF), -0.5, 0.5)
    right = log1p(-select(a < 1.0, near, tail))
    central_left = a < 0.6
    # Far to the left -x**2 / 2 is taken out of the logarithm.
    falling = select(central_left, number(x, 0.0), a * -0.5)
    left = fma(falling, a, log(select(central_left, near, whole(value, share) * 0.5)))
    return select(x < 0, left, right)


def gelu(x: Var) -> Var:
    """x * ndtr(x)."""
    a = at_most(by(x, 17.0, 42.0), magnitude(x))
    value, share = slow_of_scaled(a)
    tail = copysign(a, x) * value * (0.5 * bell(a, 0.5, share))
    near = x * fma(0.5, central(x * ROOT_HALF), 0.5)
    return select(magnitude(x) < 0.6, near, select(x < 0, tail, x - tail))
