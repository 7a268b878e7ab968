"""Roots: the cube root by a polynomial and Halley's step, the hypotenuse scaled so that no square is lost."""

from __future__ import annotations

import math

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import CBRT
from wholestep.kernel.maths.float_bits import (
    at_least,
    at_most,
    by,
    copysign,
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
    product_of,
    root,
    select,
    two_power,
    word,
)
from wholestep.kernel.maths.logarithms import normal


def cbrt(x: Var) -> Var:
    """The cube root."""
    f, b = format_of(x), builder()
    a, power = normal(magnitude(x))
    bits = word(a)
    m = from_word((bits & ((1 << f.fraction) - 1)) | f.one, x)
    e = from_word((bits >> f.fraction) | ((f.bias + f.fraction) << f.fraction), x) - (2.0**f.fraction + f.bias) + power
    third = b.op("rint", e * (1 / 3))
    # |x| = m 8**third with 1/2 <= m < 4.
    m = m * two_power(fma(third, -3.0, e) + f.magic)
    y = polynomial(m, CBRT)
    for _ in range(by(x, 1, 2)):
        cube = y * y * y
        y = y - y * (cube - m) / fma(2.0, cube, m)
    # The last step is Newton's, with an error that is taken exactly.
    square, rest = product_of(y, y)
    missing = fma(-square, y, m) - rest * y
    y = (y + missing / (3 * square)) * two_power(third + f.magic)
    return select(equal(x, 0.0) | ~isfinite(x), x, copysign(y, x))


def hypot(x: Var, y: Var) -> Var:
    """sqrt(x**2 + y**2); infinite where either operand is, even if the other is NaN."""
    b, f = builder(), format_of(x)
    a, c = magnitude(x), magnitude(y)
    large, little = b.op("max", a, c), b.op("min", a, c)
    exponents = from_word(word(large) & f.infinity, x)
    scale = at_least(2.0 ** (3 - f.bias), at_most(2.0 ** (f.bias - 3), exponents))
    down = 1 / scale
    u, v = large * down, little * down
    (uu, u_rest), (vv, v_rest) = product_of(u, u), product_of(v, v)
    total = uu + vv
    h = root(total)
    missing = (((uu - total) + vv) + (u_rest + v_rest)) - fma(h, h, -total)
    h = select(total > 0, h + missing / (h + h), h) * scale
    infinite = isinf(x) | isinf(y)
    unknown = isnan(x) | isnan(y)
    return select(infinite, number(x, math.inf), select(unknown, number(x, math.nan), h))
