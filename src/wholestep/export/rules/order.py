"""Orders in graph words: complex numbers by their real, then their imaginary parts, and extrema by others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.ir.graph import OPS, Value
from wholestep.lower.legalize.sort import boolean_extreme, complex_argument_extreme, complex_product
from wholestep.primitives.arithmetic import imag, make_complex, neg, real
from wholestep.primitives.creation import cast, iota
from wholestep.primitives.family import zeros
from wholestep.primitives.indexing import gather, scatter, take_along
from wholestep.primitives.logic import bitwise_not, equal, less, rint
from wholestep.primitives.movement import concat, permute, reshape
from wholestep.primitives.order import sort

INTEGER = np.dtype(np.int64)


def complex_comparison(name: str) -> Rule:
    """A comparison of complex numbers: by their real parts, and where those are the same by the imaginary ones."""

    def rule(x: Value, y: Value) -> Value | None:
        if not is_complex_value(x):
            return None
        first: Value = less(real(x), real(y))
        same = equal(real(x), real(y))
        return first | (same & OPS[name](imag(x), imag(y)))

    return rule


def complex_rint(x: Value) -> Value | None:
    """Both parts rounded."""
    if not is_complex_value(x):
        return None
    found: Value = make_complex(rint(real(x)), rint(imag(x)))
    return found


def complex_sort(x: Value, *, axis: int) -> Sequence[Value] | None:
    """Sorted by imaginary, then, as equal ones stay in order, by real parts; for numbers none of which is NaN."""
    if not is_complex_value(x):
        return None
    _, order = sort(imag(x), axis=axis)
    _, then = sort(take_along(real(x), order, axis), axis=axis)
    order = take_along(order, then, axis)
    return take_along(x, order, axis), order


def smallest_place(x: Value, *, axis: int) -> Value:
    """The place of the largest of the negatives, or of the complements of integers."""
    found: Value = OPS["argmax"](in_other_order(x), axis=axis)
    return found


def in_other_order(x: Value) -> Value:
    """The same numbers in the other order."""
    found: Value = bitwise_not(x) if x.dtype.kind in "biu" else neg(x)
    return found


def largest_written(x: Value, u: Value, *indices: Value, axes: tuple[int, ...]) -> Value:
    """Old and new elements, sorted and written in that order: the last, which stays, is the largest."""
    if u.type.size == 0:
        return x
    front = (*axes, *[a for a in range(x.ndim) if a not in axes])
    shape = tuple([x.shape[a] for a in front])
    places, count = math.prod(shape[: len(axes)]), indices[0].type.size
    rest = math.prod(shape[len(axes) :])
    held = reshape(permute(x, axes=front), shape=(places, rest))
    rows: Value = concat(held, reshape(u, shape=(count, rest)), axis=0)
    written = reshape(flat_place_numbers(indices, shape), shape=(count,))
    at = concat(iota(shape=(places,), axis=0, dtype=INTEGER), written, axis=0)
    ordered, order = sort(rows, axis=0)
    column = iota(shape=rows.shape, axis=1, dtype=INTEGER)
    made = scatter(zeros(held.type), ordered, gather(at, order, axes=(0,)), column, axes=(0, 1))
    back: Value = permute(reshape(made, shape=shape), axes=tuple(np.argsort(front).tolist()))
    return back


def smallest_written(x: Value, u: Value, *indices: Value, axes: tuple[int, ...]) -> Value:
    """The largest of the numbers in the other order."""
    return in_other_order(largest_written(in_other_order(x), in_other_order(u), *indices, axes=axes))


def flat_place_numbers(indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Indices of the first axes as one in row-major order, all of them counted from the front."""
    found: Value | None = None
    for index, n in zip(indices, sizes, strict=False):
        at: Value = cast(index, dtype=INTEGER)
        if dtypes.counts_back(index.dtype):
            at = OPS["select"](less(at, integers_like(0, at)), at + integers_like(n, at), at)
        found = at if found is None else found * integers_like(n, at) + at
    assert found is not None, "a scatter has an index"
    return found


def integers_like(value: int, like: Value) -> Value:
    """One integer in the shape of an array."""
    made: Value = OPS["full"](value=value, shape=like.shape, dtype=INTEGER)
    return made


def first_of(first: Callable[..., Sequence[Value] | None], other: Rule) -> Rule:
    """The first rule, and another one where that does not hold."""

    def rule(*xs: Value, **params: int) -> Value | Sequence[Value] | None:
        found = first(*xs, **params)
        return other(*xs, **params) if found is None else found

    return rule


ORDER_RULES: dict[str, Rule] = {
    "less": complex_comparison("less"),
    "less_equal": complex_comparison("less_equal"),
    "rint": complex_rint,
    "sort": complex_sort,
    "argmin": first_of(complex_argument_extreme("argmin", "min", float("inf")), smallest_place),
    "argmax": complex_argument_extreme("argmax", "max", -float("inf")),
    "max": boolean_extreme("any"),
    "min": boolean_extreme("all"),
    "prod": complex_product,
    "scatter_max": largest_written,
    "scatter_min": smallest_written,
}
"""Rules of orders and extrema."""
