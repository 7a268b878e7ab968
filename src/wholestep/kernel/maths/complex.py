"""Complex numbers as pairs: arithmetic, and functions on the branches that C and NumPy take.

Signed zeros choose the side of a branch cut. Results for infinite parts follow from the formulas, and agree with C's
Annex G only for arithmetic with finite results, exp, log, sqrt, sinh, cosh, sin and cos.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths import exponentials, float_bits, inverse_trigonometry, logarithms, trigonometry
from wholestep.kernel.maths.float_bits import copysign, differ, equal, fma, format_of, isinf, magnitude, number, select
from wholestep.kernel.maths.roots import hypot
from wholestep.kernel.ops import two_sum


class Complex:
    """A complex scalar: its real and its imaginary part, of the same dtype."""

    __slots__ = ("im", "re")

    def __init__(self, re: Var, im: Var) -> None:
        self.re = re
        self.im = im

    def __add__(self, y: Any) -> Complex:
        y = paired(y, self)
        return Complex(self.re + y.re, self.im + y.im)

    def __sub__(self, y: Any) -> Complex:
        y = paired(y, self)
        return Complex(self.re - y.re, self.im - y.im)

    def __mul__(self, y: Any) -> Complex:
        if isinstance(y, (int, float)):
            return Complex(self.re * y, self.im * y)
        return Complex(self.re * y.re - self.im * y.im, self.re * y.im + self.im * y.re)

    def __truediv__(self, y: Complex) -> Complex:
        return quotient(self, y)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)


def paired(y: Any, like: Complex) -> Complex:
    """A plain number as a complex one."""
    return y if isinstance(y, Complex) else Complex(number(like.re, y), number(like.re, 0.0))


def quotient(x: Complex, y: Complex) -> Complex:
    """x / y by Smith's method, as NumPy does it; both divided by 8 where a reciprocal would be subnormal."""
    wide = magnitude(y.re) >= magnitude(y.im)
    large, little = select(wide, y.re, y.im), select(wide, y.im, y.re)
    ratio = little / large
    huge = magnitude(large) >= 2.0 ** (format_of(y.re).bias - 2)
    part = select(huge, number(y.re, 0.125), number(y.re, 1.0))
    scale = 1 / (large * part + little * part * ratio)
    a, b = select(wide, x.re, x.im) * part, select(wide, x.im, x.re) * part
    re = (a + b * ratio) * scale
    im = (b - a * ratio) * scale
    im = select(wide, im, -im)
    nothing = equal(y.re, 0.0) & equal(y.im, 0.0)
    by_zero = magnitude(y.re)
    return Complex(select(nothing, x.re / by_zero, re), select(nothing, x.im / by_zero, im))


def conj(z: Complex) -> Complex:
    """The conjugate."""
    return Complex(z.re, -z.im)


def choose(condition: Var, x: Complex, y: Complex) -> Complex:
    """x where the condition holds, else y."""
    return Complex(select(condition, x.re, y.re), select(condition, x.im, y.im))


# Tests.


def same(x: Complex, y: Complex) -> Var:
    """Test whether both parts are equal."""
    return equal(x.re, y.re) & equal(x.im, y.im)


def unlike(x: Complex, y: Complex) -> Var:
    """Test whether a part differs."""
    return differ(x.re, y.re) | differ(x.im, y.im)


def less(x: Complex, y: Complex) -> Var:
    """NumPy's order: by the real parts, then by the imaginary ones."""
    known = ~isnan(Complex(x.im, y.im))
    return (x.re < y.re) & known | equal(x.re, y.re) & (x.im < y.im)


def less_equal(x: Complex, y: Complex) -> Var:
    """NumPy's order of `less`, or equality."""
    known = ~isnan(Complex(x.im, y.im))
    return (x.re < y.re) & known | equal(x.re, y.re) & (x.im <= y.im)


def isfinite(z: Complex) -> Var:
    """Test whether both parts are finite."""
    return float_bits.isfinite(z.re) & float_bits.isfinite(z.im)


def isnan(z: Complex) -> Var:
    """Test whether a part is NaN."""
    return float_bits.isnan(z.re) | float_bits.isnan(z.im)


def rint(z: Complex) -> Complex:
    """Both parts rounded to whole numbers."""
    return Complex(builder().op("rint", z.re), builder().op("rint", z.im))


# Exponentials and logarithms.


def turned(size: Var, angle: Var) -> Complex:
    """size * (cos(angle) + i sin(angle)); the imaginary part is 0 for an angle of 0, also of an infinite size."""
    plain = equal(angle, 0.0)
    nothing = equal(size, 0.0) & ~float_bits.isfinite(angle)
    sine, cosine = trigonometry.sin_cos(angle)
    c, s = select(nothing, size, size * cosine), size * sine
    return Complex(select(plain, size, c), select(plain | nothing, copysign(number(size, 0.0), angle), s))


def exp(z: Complex) -> Complex:
    """e**z; its size in two factors, so that it overflows only where the result does."""
    shift = select(z.re > by_log(z.re), number(z.re, by_log(z.re)), number(z.re, 0.0))
    w = turned(exponentials.exp(z.re - shift), z.im)
    scale = exponentials.exp(shift)
    zero = equal(w.im, 0.0)
    return Complex(w.re * scale, select(zero, w.im, w.im * scale))


def by_log(x: Var) -> float:
    """A bit less than the logarithm of the largest number."""
    return float(float_bits.by(x, 88.0, 709.0))


def exp2(z: Complex) -> Complex:
    """2**z."""
    return exp(z * math.log(2.0))


def expm1(z: Complex) -> Complex:
    """e**z - 1."""
    half, other = trigonometry.sin_cos(z.im * 0.5)
    growth, square = exponentials.expm1(z.re), 2 * half * half
    return Complex(growth * (1 - square) - square, (growth + 1) * (2 * half * other))


def log_size(z: Complex) -> Var:
    """log(|z|), exact to the last digits near |z| = 1 too."""
    a, b = magnitude(z.re), magnitude(z.im)
    large, little = builder().op("max", a, b), builder().op("min", a, b)
    # Near the circle: log1p(large**2 - 1 + little**2) / 2, every product in two parts.
    head, tail = float_bits.product_of(large - 1, large + 1)
    square, rest = float_bits.product_of(little, little)
    total, left = two_sum(head, square)
    near = 0.5 * logarithms.log1p(total + (left + (tail + rest)))
    close = (large > 0.5) & (large < 1.5) & (hypot(a, b) < 2.0)
    huge = large > 2.0 ** (format_of(a).bias - 1)
    unit = select(huge, number(a, 0.25), number(a, 1.0))
    far = logarithms.log(hypot(a * unit, b * unit)) + select(huge, number(a, math.log(4.0)), number(a, 0.0))
    return select(close, near, far)


def log(z: Complex) -> Complex:
    """The logarithm whose imaginary part is the angle of z."""
    return Complex(log_size(z), inverse_trigonometry.arctan2(z.im, z.re))


def log2(z: Complex) -> Complex:
    """The logarithm to the base 2."""
    return log(z) * math.log2(math.e)


def log10(z: Complex) -> Complex:
    """The logarithm to the base 10."""
    return log(z) * math.log10(math.e)


def log1p(z: Complex) -> Complex:
    """log(1 + z)."""
    x, y = z.re, z.im
    # |1 + z|**2 - 1 = x (2 + x) + y**2, where that is small.
    head, tail = float_bits.product_of(x, x + 2)
    square, rest = float_bits.product_of(y, y)
    total, left = two_sum(head, square)
    near = 0.5 * logarithms.log1p(total + (left + (tail + rest)))
    close = (magnitude(x) < 0.25) & (magnitude(y) < 0.5)
    size = select(close, near, log_size(Complex(x + 1, y)))
    return Complex(size, inverse_trigonometry.arctan2(y, x + 1))


def pow(x: Complex, y: Complex) -> Complex:
    """x**y; small whole exponents by multiplication, as NumPy has it."""
    whole = equal(y.im, 0.0) & equal(builder().op("rint", y.re), y.re) & (magnitude(y.re) < 100)
    size = magnitude(select(whole, y.re, number(y.re, 0.0)))
    total, square = paired(1.0, x), x
    for _ in range(7):
        half = size * 0.5
        size = builder().op("trunc", half)
        total = choose(differ(size, half), total * square, total)
        square = square * square
    inverse = quotient(paired(1.0, x), total)
    by_products = choose(y.re < 0, inverse, total)
    origin = equal(x.re, 0.0) & equal(x.im, 0.0)
    general = exp(y * log(x))
    nothing = Complex(number(x.re, 0.0), number(x.re, 0.0))
    unknown = Complex(number(x.re, math.nan), number(x.re, math.nan))
    at_origin = choose(y.re > 0, nothing, unknown)
    result = choose(whole, by_products, choose(origin, at_origin, general))
    zeroth = equal(y.re, 0.0) & equal(y.im, 0.0)
    return choose(zeroth, paired(1.0, x), choose(origin & ~zeroth, at_origin, result))


# Roots, circles and hyperbolas.


def sqrt(z: Complex) -> Complex:
    """The root with a real part that is not negative (Kahan)."""
    f = format_of(z.re)
    a, b = magnitude(z.re), magnitude(z.im)
    big = (a > 2.0 ** (f.bias - 3)) | (b > 2.0 ** (f.bias - 3))
    little = (a < 2.0 ** (f.fraction - f.bias)) & (b < 2.0 ** (f.fraction - f.bias))
    one = number(z.re, 1.0)
    up = 2.0 ** (2 * (f.fraction + 2))
    scale = select(big, number(z.re, 1 / 16), select(little, number(z.re, up), one))
    back = select(big, number(z.re, 4.0), select(little, number(z.re, 2.0 ** -(f.fraction + 2)), one))
    p, q = a * scale, b * scale
    t = float_bits.root((p + hypot(p, q)) * 0.5)
    other = q / (t + t)
    nothing = equal(t, 0.0)
    t, other = t * back, select(nothing, number(z.re, 0.0), other * back)
    right = ~differ(float_bits.sign_of(z.re), 0)
    re, im = select(right, t, other), select(right, other, t)
    infinite = isinf(z.im)
    endless = isinf(z.re) & ~infinite
    flat = select(float_bits.isnan(b), b, number(z.re, 0.0))
    re = select(infinite, b, select(endless, select(right, a, flat), re))
    im = select(infinite, b, select(endless, select(right, flat, a), im))
    return Complex(re, copysign(im, z.im))


def times_i(z: Complex) -> Complex:
    """i * z."""
    return Complex(-z.im, z.re)


def times_minus_i(z: Complex) -> Complex:
    """-i * z."""
    return Complex(z.im, -z.re)


def cosh(z: Complex) -> Complex:
    """cosh(x) cos(y) + i sinh(x) sin(y)."""
    (c, s), (sine, cosine) = growths(z.re), trigonometry.sin_cos(z.im)
    flat = float_bits.with_sign(number(z.re, 0.0), float_bits.sign_of(z.re) ^ float_bits.sign_of(z.im))
    zero = equal(z.im, 0.0)
    unknown = equal(z.re, 0.0) & ~float_bits.isfinite(z.im)
    return Complex(select(zero, c, c * cosine), select(zero | unknown, flat, s * sine))


def sinh(z: Complex) -> Complex:
    """sinh(x) cos(y) + i cosh(x) sin(y)."""
    (c, s), (sine, cosine) = growths(z.re), trigonometry.sin_cos(z.im)
    zero = equal(z.im, 0.0)
    unknown = equal(z.re, 0.0) & ~float_bits.isfinite(z.im)
    re = select(zero | unknown, s, s * cosine)
    return Complex(re, select(zero, z.im, c * sine))


def growths(x: Var) -> tuple[Var, Var]:
    """cosh(x) and sinh(x)."""
    return exponentials.cosh(x), exponentials.sinh(x)


def tanh(z: Complex) -> Complex:
    """sinh(z) / cosh(z) without their common growth (Kahan)."""
    limit = float_bits.by(z.re, 10.0, 20.0)
    far = magnitude(z.re) > limit
    x = select(far, number(z.re, 0.0), z.re)
    sine, cosine = trigonometry.sin_cos(z.im)
    t, s = sine / cosine, exponentials.sinh(x)
    b = fma(t, t, 1.0)
    r = float_bits.root(fma(s, s, 1.0))
    down = fma(b * s, s, 1.0)
    re, im = b * r * s / down, t / down
    endless = ~float_bits.isfinite(t)
    re, im = select(endless & float_bits.isfinite(z.im), r / s, re), select(endless & float_bits.isnan(t), t, im)
    decay = exponentials.exp(-2 * magnitude(z.re))
    tail = 4 * sine * cosine * decay
    tail = select(isinf(z.re) & ~float_bits.isfinite(z.im), number(z.re, 0.0), tail)
    return Complex(select(far, copysign(number(z.re, 1.0), z.re), re), select(far, tail, im))


def cos(z: Complex) -> Complex:
    """cosh(i z)."""
    return cosh(times_i(z))


def sides(z: Complex) -> tuple[Complex, Complex]:
    """The roots of 1 - z and of 1 + z."""
    return sqrt(Complex(1 - z.re, -z.im)), sqrt(Complex(1 + z.re, z.im))


def arcsin(z: Complex) -> Complex:
    """The inverse of sin (Kahan, "Branch cuts for complex elementary functions", 1987)."""
    below, above = sides(z)
    re = inverse_trigonometry.arctan2(z.re, below.re * above.re - below.im * above.im)
    return Complex(re, inverse_trigonometry.arcsinh(below.re * above.im - below.im * above.re))


def arccos(z: Complex) -> Complex:
    """The inverse of cos."""
    below, above = sides(z)
    re = 2 * inverse_trigonometry.arctan2(below.re, above.re)
    return Complex(re, inverse_trigonometry.arcsinh(above.re * below.im - above.im * below.re))


def arccosh(z: Complex) -> Complex:
    """The inverse of cosh."""
    below, above = sqrt(Complex(z.re - 1, z.im)), sqrt(Complex(z.re + 1, z.im))
    re = inverse_trigonometry.arcsinh(below.re * above.re + below.im * above.im)
    return Complex(re, 2 * inverse_trigonometry.arctan2(below.im, above.re))


def arctanh(z: Complex) -> Complex:
    """The inverse of tanh."""
    # Beyond this size the result is that of infinity; four times it is still a number.
    most = number(z.re, 2.0 ** (format_of(z.re).bias - 4))
    x, y = select(magnitude(z.re) > most, most, magnitude(z.re)), magnitude(z.im)
    y = copysign(select(y > most, most, y), z.im)
    away = 1 - x
    # Beside the poles at 1 and -1, whose distance has a square below all numbers.
    near = equal(away, 0.0) & (magnitude(y) < 2.0 ** -(format_of(z.re).bias // 2))
    ratio = select(near, 2 / magnitude(y), 4 * x / fma(away, away, y * y))
    re = select(near, number(x, 0.5), number(x, 0.25)) * logarithms.log1p(ratio)
    return Complex(copysign(re, z.re), 0.5 * inverse_trigonometry.arctan2(y + y, away * (1 + x) - y * y))


def rotated(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """z -> -i f(i z): the function of circles for one of hyperbolas, and the reverse."""
    return lambda z: times_minus_i(function(times_i(z)))


sin, tan, arcsinh, arctan = rotated(sinh), rotated(tanh), rotated(arcsin), rotated(arctanh)
