"""Unsigned integers in signed ones of 64 bits, for targets that lack operations on the former."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from wholestep.export.core import Rule
from wholestep.ir.graph import OPS, Value
from wholestep.primitives.arithmetic import floor_divide, remainder
from wholestep.primitives.creation import cast, like
from wholestep.primitives.family import zeros
from wholestep.primitives.logic import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    left_shift,
    less,
    right_shift,
    select,
)

INT = np.dtype(np.int64)
LOWEST, LARGEST = np.iinfo(INT).min, np.iinfo(INT).max
RING = "sum prod cumsum cumprod contract neg bitwise_not scatter scatter_add".split()
"""Operations whose bits do not depend on the sign: they are exact but for multiples of a power of 2."""
ORDERED = "max min maximum minimum cummax cummin sort top_k argmax argmin scatter_max scatter_min".split()
"""Operations that go by the order of numbers."""
WRITING = ("scatter", "scatter_add", "scatter_max", "scatter_min")
"""Operations of an array, an update and indices, which stay as they are."""


def to_order(x: Value) -> Value:
    """A signed number of 64 bits for each unsigned one, in their order."""
    wide: Value = cast(x, dtype=INT)
    return bitwise_xor(wide, like(wide, LOWEST)) if x.dtype.itemsize == 8 else wide


def from_order(y: Value, dtype: np.dtype[Any]) -> Value:
    """The unsigned number of each signed one of `to_order`."""
    found: Value = cast(bitwise_xor(y, like(y, LOWEST)) if dtype.itemsize == 8 else y, dtype=dtype)
    return found


def in_signed(name: str, ordered: bool, *xs: Value, **params: Any) -> Sequence[Value]:
    """An operation on the signed numbers of unsigned ones; places among its results stay as they are."""
    dtype, data = xs[0].dtype, 2 if name in WRITING else len(xs)
    wide = [to_order(x) if ordered else cast(x, dtype=INT) for x in xs[:data]]
    found = OPS[name](*wide, *xs[data:], **params)
    results = [found] if isinstance(found, Value) else list(found)
    if not name.startswith("arg"):
        results[0] = from_order(results[0], dtype) if ordered else cast(results[0], dtype=dtype)
    return results


def unsigned_sign(x: Value) -> Value:
    """1 but for 0."""
    found: Value = select(equal(x, zeros(x.type)), zeros(x.type), like(x, 1))
    return found


def unsigned_power(x: Value, y: Value) -> Value | None:
    """A power in signed numbers, which are too narrow for exponents of 64 bits."""
    if x.dtype.itemsize == 8:
        return None
    found: Value = cast(OPS["pow"](cast(x, dtype=INT), cast(y, dtype=INT)), dtype=x.dtype)
    return found


def unsigned_quotient(x: Value, y: Value) -> Value:
    """The number of whole ys in x, 0 for a y of 0.

    Of 64 bits half of x is divided, which is not negative as a signed number, and twice the quotient is at most one
    too small. A y of 2⁶³ or more, which is negative as a signed number, goes once or never into x.
    """
    a, b = cast(x, dtype=INT), cast(y, dtype=INT)
    if x.dtype.itemsize < 8:
        return cast(floor_divide(a, b), dtype=x.dtype)
    half = bitwise_and(right_shift(a, like(a, 1)), like(a, LARGEST))
    twice = left_shift(floor_divide(half, b), like(a, 1))
    more = bitwise_or(equal(b, zeros(b.type)), less(to_order(cast(a - twice * b, dtype=x.dtype)), to_order(y)))
    found: Value = select(more, twice, twice + like(a, 1))
    large = select(less(to_order(x), to_order(y)), zeros(a.type), like(a, 1))
    return cast(select(less(b, zeros(b.type)), large, found), dtype=x.dtype)


def unsigned_rest(x: Value, y: Value) -> Value:
    """The rest of x after whole ys, 0 for a y of 0."""
    if x.dtype.itemsize < 8:
        return cast(remainder(cast(x, dtype=INT), cast(y, dtype=INT)), dtype=x.dtype)
    left = cast(x, dtype=INT) - cast(unsigned_quotient(x, y), dtype=INT) * cast(y, dtype=INT)
    found: Value = cast(select(equal(y, zeros(y.type)), zeros(left.type), left), dtype=x.dtype)
    return found


UNSIGNED_RULES: dict[str, Rule] = {
    **{name: partial(in_signed, name, False) for name in RING},
    **{name: partial(in_signed, name, True) for name in ORDERED},
    "sign": unsigned_sign,
    "pow": unsigned_power,
    "floor_divide": unsigned_quotient,
    "remainder": unsigned_rest,
    "fmod": unsigned_rest,
}
"""Rules for operands of unsigned integers; None where there is none."""


def or_unsigned(name: str, otherwise: Rule | None) -> Rule:
    """The rule for unsigned integers, and another one for all else."""
    rule = UNSIGNED_RULES[name]

    def chosen(*xs: Value, **params: Any) -> Value | Sequence[Value] | None:
        found = rule(*xs, **params) if xs and xs[0].dtype.kind == "u" else None
        return otherwise(*xs, **params) if found is None and otherwise is not None else found

    return chosen
