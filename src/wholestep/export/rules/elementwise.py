"""Elementwise operations in graph words: comparisons, signs, remainders, shares by operations of nearly all targets."""

from __future__ import annotations

import math

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, copysign, floor_divide, fmod, imag, make_complex, real
from wholestep.primitives.creation import like
from wholestep.primitives.family import number_of, ones, zeros
from wholestep.primitives.functions import exp, log, sqrt
from wholestep.primitives.logic import (
    bitwise_xor,
    ceil,
    equal,
    floor,
    isfinite,
    isnan,
    less,
    not_equal,
    select,
    signbit,
    trunc,
)


def is_complex_value(x: Value) -> bool:
    """True for complex numbers."""
    return dtypes.is_complex(x.dtype)


def share_of_maximum(x: Value, y: Value) -> Value:
    """1 where x is larger, one half where x equals y, NaN where one of them is NaN."""
    half = select(equal(x, y), like(x, 0.5), zeros(x.type))
    share = select(less(y, x), ones(x.type), half)
    doubtful = [v for v in (x, y) if number_of(v) is None]
    if not doubtful:
        return share
    unordered = not_a_number(doubtful[0])
    for v in doubtful[1:]:
        unordered = unordered | not_a_number(v)
    found: Value = select(unordered, like(x, math.nan), share)
    return found


def differing(x: Value, y: Value) -> Value:
    """Inequality by equality."""
    return ~equal(x, y)


def not_a_number(x: Value) -> Value:
    """Inequality with itself."""
    found: Value = not_equal(x, x)
    return found


def below_infinity(x: Value) -> Value:
    """Smaller in size than infinity."""
    if is_complex_value(x):
        both: Value = isfinite(real(x)) & isfinite(imag(x))
        return both
    return less(absolute(x), like(x, math.inf))


def negative(x: Value) -> Value:
    """Below 0, or the 0 whose reciprocal is."""
    return (x < 0) | ((1 / x) < 0)  # no `select`, as ONNX Runtime's gives 0.0 for -0.0


def with_sign_of(x: Value, y: Value) -> Value:
    """The size of x with the sign of y."""
    size = absolute(x)
    found: Value = select(signbit(y), -size, size)
    return found


def towards_zero(x: Value) -> Value:
    """Rounded down above 0 and up below."""
    found: Value = select(x < 0, ceil(x), floor(x))
    return found


def three_signs(x: Value) -> Value | None:
    """1, 0 or -1; NaN where it is none."""
    if is_complex_value(x):
        return None
    below = select(x < 0, like(x, -1), zeros(x.type)) if x.dtype.kind != "u" else zeros(x.type)
    found = select(x > 0, ones(x.type), below)
    if dtypes.is_inexact(x.dtype):
        found = select(isnan(x), x, found)
    return found


def truncated_remainder(x: Value, y: Value) -> Value | None:
    """The rest of x after whole ys, with the sign of x; exact where the quotient is below 2**24, or 2**53."""
    return None if x.dtype.kind in "iu" else x - y * trunc(x / y)


def floored_remainder(x: Value, y: Value) -> Value:
    """The rest of x after whole ys, with the sign of y."""
    if x.dtype.kind in "iu":
        return x - floor_divide(x, y) * y
    left = fmod(x, y)
    nothing = equal(left, zeros(x.type))
    turned = bitwise_xor(left < 0, y < 0) & ~nothing
    found: Value = select(nothing, copysign(zeros(x.type), y), select(turned, left + y, left))
    return found


def floored_quotient(x: Value, y: Value) -> Value | None:
    """The number of whole ys in x, as NumPy rounds it."""
    if x.dtype.kind in "iu":
        return None
    left = fmod(x, y)
    quotient = (x - left) / y
    turned = bitwise_xor(left < 0, y < 0) & ~equal(left, zeros(x.type))
    quotient = select(turned, quotient - 1, quotient)
    down = floor(quotient)
    down = select(quotient - down > 0.5, down + 1, down)
    whole = select(equal(quotient, zeros(x.type)), copysign(zeros(x.type), x / y), down)
    found: Value = select(equal(y, zeros(x.type)), x / y, whole)
    return found


def conjugate(z: Value) -> Value:
    """The imaginary part turned."""
    found: Value = make_complex(real(z), -imag(z))
    return found


def length(x: Value, y: Value) -> Value:
    """The larger times the root of 1 and the square of their ratio, which cannot overflow on the way."""
    a, b = absolute(x), absolute(y)
    large, small = select(a < b, b, a), select(a < b, a, b)
    nothing = equal(large, zeros(x.type))
    ratio = select(equal(large, small), ones(x.type), small / select(nothing, ones(x.type), large))
    found = select(nothing, zeros(x.type), large * sqrt(1 + ratio * ratio))
    spoilt = isnan(a) | isnan(b)
    infinite = equal(a, like(a, math.inf)) | equal(b, like(b, math.inf))
    found = select(spoilt, like(x, math.nan), found)
    return select(infinite, like(x, math.inf), found)


def cube_root(x: Value) -> Value:
    """A power of one third and a step of Newton's, which makes it exact to rounding."""
    size = absolute(x)
    usual = less(zeros(x.type), size) & isfinite(size)
    safe = select(usual, size, ones(x.type))
    root = exp(log(safe) * (1 / 3))
    root = root - (root - safe / (root * root)) * (1 / 3)
    found: Value = copysign(select(usual, root, size), x)
    return found


ELEMENTWISE_RULES: dict[str, Rule] = {
    "wins": share_of_maximum,
    "not_equal": differing,
    "isnan": not_a_number,
    "isfinite": below_infinity,
    "signbit": negative,
    "copysign": with_sign_of,
    "trunc": towards_zero,
    "sign": three_signs,
    "fmod": truncated_remainder,
    "remainder": floored_remainder,
    "floor_divide": floored_quotient,
    "conj": conjugate,
    "hypot": length,
    "cbrt": cube_root,
}
"""Rules of arithmetic and logic."""
