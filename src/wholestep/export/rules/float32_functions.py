"""Functions of float32 in graph words, for formats: the error function and its tails, angles of points, inverses."""

from __future__ import annotations

import math
from collections.abc import Mapping

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import negative
from wholestep.export.rules.functions import FUNCTION_RULES, logarithm_of_sum, real_only
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, copysign, maximum, minimum
from wholestep.primitives.creation import like
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import arctan, cos, erfcx, exp, log, log1p, sin, sqrt
from wholestep.primitives.logic import equal, isnan, less, select

TAIL = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""log(erfcx(x) / t) in powers of t = 1 / (1 + x / 2), to 1.2e-7 (Press et al., Numerical Recipes, 1992, erfcc)."""


ARCTAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""arctan(x) / x - 1, divided by x**2, in falling powers of x**2 up to tan(pi / 8) (Moshier, Cephes, 1992, atanf)."""
ARCSIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
"""arcsin(x) / x - 1, likewise, up to 1/2 (Cephes, asinf)."""
ERF = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2, 1.128358514861418e-1,
    -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
"""erf(x) / x in falling powers of x**2, up to 1 (Cephes, ndtrf)."""


def polynomial_at(x: Value, powers: tuple[float, ...]) -> Value:
    """A polynomial in falling powers."""
    found = like(x, powers[0])
    for c in powers[1:]:
        found = found * x + c
    return found


def sine_by_cosine(x: Value) -> Value:
    """The quotient of sine and cosine."""
    found: Value = sin(x) / cos(x)
    return found


def inverse_tangent(x: Value) -> Value:
    """A polynomial, of numbers beyond tan(pi / 8) after a turn by a quarter, and beyond its inverse by a half."""
    size = absolute(x)
    far, middle = less(like(x, math.tan(3 * math.pi / 8)), size), less(like(x, math.tan(math.pi / 8)), size)
    turned = select(far, -1 / select(far, size, ones(x.type)), select(middle, (size - 1) / (size + 1), size))
    begun = select(far, like(x, math.pi / 2), select(middle, like(x, math.pi / 4), zeros(x.type)))
    square = turned * turned
    found: Value = copysign(begun + (polynomial_at(square, ARCTAN) * square * turned + turned), x)
    return found


def small_inverse_sine(x: Value) -> Value:
    """arcsin up to 1/2."""
    square = x * x
    found: Value = polynomial_at(square, ARCSIN) * square * x + x
    return found


def inverse_sine(x: Value) -> Value:
    """A polynomial up to 1/2, and from there a quarter less twice that of the half angle's sine."""
    size = absolute(x)
    far = less(like(x, 0.5), size)
    made = small_inverse_sine(select(far, sqrt((1 - size) * 0.5), size))
    found: Value = copysign(select(far, math.pi / 2 - made * 2, made), x)
    return found


def inverse_cosine(x: Value) -> Value:
    """Twice the half angle, without loss near 1; a quarter less arcsin between."""
    size = absolute(x)
    far = less(like(x, 0.5), size)
    made = small_inverse_sine(select(far, sqrt((1 - size) * 0.5), x))
    outside = select(negative(x), math.pi - made * 2, made * 2)
    found: Value = select(far, outside, math.pi / 2 - made)
    return found


def inverse_hyperbolic_tangent(x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2 of the size of x."""
    size = absolute(x)
    found: Value = copysign(log1p(2 * size / (1 - size)) * 0.5, x)
    return found


def error_function(x: Value) -> Value:
    """A polynomial up to 1, and from there 1 less the tail."""
    size = absolute(x)
    near = minimum(size, ones(x.type))
    inside = near * polynomial_at(near * near, ERF)
    found: Value = copysign(select(less(like(x, 1.0), size), 1 - error_tail(size), inside), x)
    return select(isnan(x), x, found)


def scaled_tail(x: Value) -> Value:
    """exp(x * x) (1 - erf(x)) from 0 on, by a polynomial in an exponential; below by 2 exp(x * x) less its mirror."""
    size = absolute(x)
    t = 1 / (1 + size * 0.5)
    right = t * exp(polynomial_at(t, TAIL[::-1]))
    found: Value = select(less(x, zeros(x.type)), 2 * exp(x * x) - right, right)
    return found


def error_tail(x: Value) -> Value:
    """1 - erf(x), near in ratio for large x too."""
    size = absolute(x)
    right = exp(-size * size) * erfcx(size)
    found: Value = select(less(x, zeros(x.type)), 2 - right, right)
    return found


def normal_share(x: Value) -> Value:
    """The share of a normal distribution below a number."""
    return error_tail(x * -math.sqrt(0.5)) * 0.5


def log_normal_share(x: Value) -> Value:
    """Its logarithm, whose square is taken out before below 0."""
    below = minimum(x, zeros(x.type))
    left = log(erfcx(below * -math.sqrt(0.5)) * 0.5) - below * below * 0.5
    right = log1p(normal_share(-maximum(x, zeros(x.type))) * -1)
    found: Value = select(less(x, zeros(x.type)), left, right)
    return found


def angle_of_point(y: Value, x: Value) -> Value:
    """The angle of a point: of a ratio of at most 1, turned by a quarter or a half where it lies elsewhere."""
    a, b = absolute(x), absolute(y)
    large, small = maximum(a, b), minimum(a, b)
    single = equal(large, zeros(x.type))
    ratio = select(equal(large, small), ones(x.type), small / select(single, ones(x.type), large))
    near = arctan(select(single, zeros(x.type), ratio))
    first = select(less(a, b), math.pi / 2 - near, near)
    half = select(negative(x), math.pi - first, first)
    turned = copysign(half, y)
    found: Value = select(isnan(x) | isnan(y), x + y, turned)
    return found


def inverse_sinh(x: Value) -> Value:
    """log(|x| + sqrt(x * x + 1)) without loss near 0 and without a square that overflows."""
    size = absolute(x)
    large = less(like(x, 1e3), size)
    safe = select(large, ones(x.type), size)
    square = safe * safe
    near = log1p(safe + square / (1 + sqrt(1 + square)))
    far = log(size) + math.log(2)
    found: Value = copysign(select(large, far, near), x)
    return found


def inverse_cosh(x: Value) -> Value:
    """log(x + sqrt(x * x - 1)), computed from x - 1 where x is not large."""
    large = less(like(x, 1e3), x)
    above = select(large, ones(x.type), x) - 1
    near = log1p(above + sqrt(above * (above + 2)))
    found: Value = select(large, log(x) + math.log(2), near)
    return found


def binary_logarithm_of_sum(x: Value, y: Value) -> Value:
    """The logarithm of a sum to the base 2, by that of powers of e."""
    return logarithm_of_sum(x * math.log(2), y * math.log(2)) * (1 / math.log(2))


def floats_only(f: Rule) -> Rule:
    """A rule for real floats of any precision; it does not hold for other dtypes."""

    def rule(*xs: Value) -> Value | None:
        made = f(*xs) if dtypes.is_float(xs[0].dtype) else None
        assert made is None or isinstance(made, Value)
        return made

    return rule


FLOAT32_RULES: Mapping[str, Rule] = {
    **FUNCTION_RULES,
    "tan": floats_only(sine_by_cosine),
    "arctan": floats_only(inverse_tangent),
    "arcsin": floats_only(inverse_sine),
    "arccos": floats_only(inverse_cosine),
    "arctanh": floats_only(inverse_hyperbolic_tangent),
    "erf": floats_only(error_function),
    "erfcx": floats_only(scaled_tail),
    "erfc": floats_only(error_tail),
    "ndtr": floats_only(normal_share),
    "log_ndtr": floats_only(log_normal_share),
    "arctan2": floats_only(angle_of_point),
    "arcsinh": floats_only(inverse_sinh),
    "arccosh": floats_only(inverse_cosh),
    "logaddexp2": real_only(binary_logarithm_of_sum),
}
"""Rules for targets whose floats are float32."""
