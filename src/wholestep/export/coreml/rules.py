"""Functions in graph words that MIL lacks, of float32: tails of the error function, angles of points, inverses."""

from __future__ import annotations

import math
from collections.abc import Mapping

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import negative
from wholestep.export.rules.functions import FUNCTION_RULES, logarithm_of_sum, real_only
from wholestep.export.rules.random_words import like
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, copysign, maximum, minimum
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import arctan, erfcx, exp, log, log1p, sqrt
from wholestep.primitives.logic import equal, isnan, less, select

TAIL = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""log(erfcx(x) / t) in powers of t = 1 / (1 + x / 2), to 1.2e-7 (Press et al., Numerical Recipes, 1992, erfcc)."""


def scaled_tail(x: Value) -> Value:
    """exp(x * x) (1 - erf(x)) from 0 on, by a polynomial in an exponential; below by 2 exp(x * x) less its mirror."""
    size = absolute(x)
    t = 1 / (1 + size * 0.5)
    series = like(x, TAIL[-1])
    for c in reversed(TAIL[:-1]):
        series = series * t + c
    right = t * exp(series)
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
    """log(x + sqrt(x * x - 1)), by what x has above 1."""
    large = less(like(x, 1e3), x)
    above = select(large, ones(x.type), x) - 1
    near = log1p(above + sqrt(above * (above + 2)))
    found: Value = select(large, log(x) + math.log(2), near)
    return found


def binary_logarithm_of_sum(x: Value, y: Value) -> Value:
    """The logarithm of a sum to the base 2, by that of powers of e."""
    return logarithm_of_sum(x * math.log(2), y * math.log(2)) * (1 / math.log(2))


def floats_only(f: Rule) -> Rule:
    """A rule for real floats, in which half precision is no narrower than what is computed."""

    def rule(*xs: Value) -> Value | None:
        made = f(*xs) if dtypes.is_float(xs[0].dtype) else None
        assert made is None or isinstance(made, Value)
        return made

    return rule


COREML_RULES: Mapping[str, Rule] = {
    **{name: rule for name, rule in FUNCTION_RULES.items() if name not in ("sinh", "cosh", "exp2")},
    "erfcx": floats_only(scaled_tail),
    "erfc": floats_only(error_tail),
    "ndtr": floats_only(normal_share),
    "log_ndtr": floats_only(log_normal_share),
    "arctan2": floats_only(angle_of_point),
    "arcsinh": floats_only(inverse_sinh),
    "arccosh": floats_only(inverse_cosh),
    "logaddexp2": real_only(binary_logarithm_of_sum),
}
"""Rules for Core ML."""
