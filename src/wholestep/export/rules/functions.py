"""Functions in graph words, by exponentials and logarithms without loss near their zeros, for formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.export.rules.matrices import MATRIX_RULES
from wholestep.export.rules.special import SPECIAL_RULES
from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.primitives.arithmetic import abs as absolute, maximum, minimum
from wholestep.primitives.creation import cast, iota, like
from wholestep.primitives.family import number_of, ones, zeros
from wholestep.primitives.functions import exp, expm1, log, log1p
from wholestep.primitives.logic import bitwise_and, equal, isfinite, isnan, less, not_equal, select
from wholestep.primitives.movement import concat, permute, reshape, slice_along
from wholestep.primitives.reduction import last, shifted


def real_only(f: Callable[..., Value]) -> Rule:
    """A rule that does not hold for complex numbers."""

    def rule(*xs: Value) -> Value | None:
        return None if dtypes.is_complex(xs[0].dtype) else f(*xs)

    return rule


def logarithm_of_more(x: Value) -> Value:
    """log(1 + x) as log(u) x / (u - 1), in which the rounding of u = 1 + x cancels."""
    u = 1 + x
    same = equal(u, ones(x.type))
    usual = isfinite(u) & ~same
    safe = select(usual, u, like(x, 2.0))
    found: Value = select(usual, log(safe) * (x / (safe - 1)), select(same, x, log(u)))
    return found


def exponential_less_one(x: Value) -> Value:
    """exp(x) - 1 as (u - 1) x / log(u), in which the rounding of u = exp(x) cancels."""
    u = exp(x)
    same, away = equal(u, ones(x.type)), less(like(x, 0.5), absolute(x))
    safe = select(same | away, like(x, 2.0), u)
    near = (safe - 1) * (x / log(safe))
    found: Value = select(away, u - 1, select(same, x, near))
    return found


def scaled_logarithm(factor: float) -> Rule:
    """A logarithm to another base."""
    return real_only(lambda x: log(x) * factor)


def log_of_sigmoid(x: Value) -> Value:
    """min(x, 0) - log(1 + exp(-|x|))."""
    found: Value = minimum(x, like(x, 0.0)) - log1p(exp(-absolute(x)))
    return found


def logarithm_of_sum(x: Value, y: Value) -> Value:
    """max + log(1 + exp(-|difference|)); for equal infinities, that infinity."""
    same = equal(x, y)
    rest = log1p(exp(-absolute(select(same, like(x, 0.0), x - y))))
    found: Value = maximum(x, y) + rest
    return found


def hyperbolic_sine(x: Value) -> Value:
    """(e + e / (e + 1)) / 2 with e = expm1(x)."""
    size = absolute(x)
    e = expm1(minimum(size, like(x, 20.0)))
    near = (e + e / (e + 1)) / 2
    half = exp(size / 2)
    found = select(less(like(x, 20.0), size), half * (half / 2), near)
    return select(less(x, like(x, 0.0)), -found, found)


def hyperbolic_cosine(x: Value) -> Value:
    """(exp(x) + exp(-x)) / 2, in halves that do not overflow before it does."""
    half = exp(absolute(x) / 2)
    found: Value = half * (half / 2) + exp(-absolute(x)) / 2
    return found


def whole_power(x: Value, y: Value) -> Value | None:
    """Integers by squaring, bit by bit of the exponent; of floats there is a word."""
    if x.dtype.kind not in "iu":
        return None
    number = number_of(y)
    most = int(number).bit_length() if number is not None and number >= 0 else 8 * x.dtype.itemsize - 1
    found, square = ones(x.type), x
    for bit in range(most):
        wanted = not_equal(bitwise_and(y, like(y, 1 << bit)), zeros(y.type))
        found = select(wanted, found * square, found)
        if bit + 1 < most:
            square = square * square
    return found


def halved_product(x: Value, *, axes: tuple[int, ...]) -> Value:
    """Products of halves, until one is left."""
    x = last(x, axes)
    axis = x.ndim - 1
    if x.shape[axis] == 0:
        return ones(array_type(x.shape[:axis], x.dtype))
    while x.shape[axis] > 1:
        half, odd = divmod(x.shape[axis], 2)
        product = slice_along(x, axis, 0, half) * slice_along(x, axis, half, 2 * half)
        x = concat(product, slice_along(x, axis, 2 * half, 2 * half + 1), axis=axis) if odd else product
    found: Value = reshape(x, shape=x.shape[:axis])
    return found


def along_last(x: Value, axis: int, f: Callable[[Value], Sequence[Value]]) -> Sequence[Value]:
    """The results of a function of an array whose axis is moved to the end, moved back."""
    order = (*[i for i in range(x.ndim) if i != axis], axis)
    back = tuple(sorted(range(x.ndim), key=lambda i: order[i]))
    return [permute(y, axes=back) for y in f(permute(x, axes=order))]


def running_product(x: Value, *, axis: int, reverse: bool) -> Value:
    """Products over twice as many places in each step (Hillis and Steele, 1986)."""
    step = -1 if reverse else 1
    while abs(step) < x.shape[axis]:
        x, step = x * shifted(x, step, axis), 2 * step
    return x


def running_extreme(largest: bool) -> Rule:
    """The extreme so far and its place, over twice as many places in each step; the first of equals, the last NaN."""

    def rule(x: Value, *, axis: int) -> Sequence[Value] | None:
        if is_complex_value(x):
            return None

        def doubled(y: Value) -> Sequence[Value]:
            at: Value = iota(shape=y.shape, axis=y.ndim - 1, dtype=np.dtype(np.int64))
            step = 1
            while step < y.shape[-1]:
                # Places before the first are 0: there every number is compared with the first one, which stays.
                before, place = (held_shift(v, step) for v in (y, at))
                new = less(before, y) if largest else less(y, before)
                if dtypes.is_inexact(y.dtype):
                    new = new | isnan(y)
                y, at = select(new, y, before), select(new, at, place)
                step *= 2
            return [y, at]

        if dtypes.is_bool(x.dtype):
            found, at = along_last(cast(x, dtype=np.dtype(np.int32)), axis, doubled)
            return cast(found, dtype=x.dtype), at
        return along_last(x, axis, doubled)

    return rule


def held_shift(x: Value, step: int) -> Value:
    """x moved up along its last axis, where its first element stays."""
    axis, size = x.ndim - 1, x.shape[-1]
    first = slice_along(x, axis, 0, 1)
    found: Value = concat(*[first] * min(step, size), slice_along(x, axis, 0, size - min(step, size)), axis=axis)
    return found


FUNCTION_RULES: Mapping[str, Rule] = {
    "log1p": real_only(logarithm_of_more),
    "expm1": real_only(exponential_less_one),
    "exp2": real_only(lambda x: exp(x * math.log(2))),
    "log2": scaled_logarithm(1 / math.log(2)),
    "log10": scaled_logarithm(1 / math.log(10)),
    "log_expit": real_only(log_of_sigmoid),
    "logaddexp": real_only(logarithm_of_sum),
    "sinh": real_only(hyperbolic_sine),
    "cosh": real_only(hyperbolic_cosine),
    "pow": whole_power,
    "prod": halved_product,
    "cumprod": running_product,
    "cummax": running_extreme(True),
    "cummin": running_extreme(False),
    **SPECIAL_RULES,
    **MATRIX_RULES,
}
"""Rules of functions, running results and powers, for targets that are formats and no libraries."""
