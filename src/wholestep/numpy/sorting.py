"""NumPy's sorting and searching; derivatives follow the permutation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import bound, covers, is_traced
from wholestep.frontend.promotion import lift, promoted, wrap
from wholestep.numpy.movement import axis_of, flip, ravel, traced_array
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.selection import is_unknown, known_of
from wholestep.primitives.order import partition as partition_primitive, sort as sort_primitive

COMPARED = 256
"""A sorted array of up to so many elements is compared as a whole, which is no slower than to search it. Measured."""


def _sort_operand(name: str, a: Any, axis: Any, order: Any) -> tuple[Array, int]:
    """The array and the axis to sort; None flattens."""
    if order is not None:
        raise UnsupportedError(f"{name}: order= belongs to structured arrays, which are not covered")
    x = traced_array(a)
    if axis is None:
        return ravel(x), 0
    return x, axis_of(name, axis, x.ndim)


def _sorted(x: Array, axis: int, descending: Any) -> tuple[Array, Array]:
    """Values and where they came from. The largest first: floats by their negatives, which leaves NaN last, others by
    reversing the axis before and after."""
    if descending is NO_VALUE or not descending:
        values, places = sort_primitive(x.value, axis=axis)
        return Array(values), Array(places)
    if dtypes.is_inexact(x.dtype):
        values, places = sort_primitive((-x).value, axis=axis)
        return -Array(values), Array(places)
    values, places = sort_primitive(flip(x, axis).value, axis=axis)
    return flip(Array(values), axis), x.shape[axis] - 1 - flip(Array(places), axis)


def sorting(outside: Any, part: int) -> Callable[..., Array]:
    """The sorted values (part 0), or where they came from (part 1)."""

    # The parameters are listed, since `descending` is younger than the signature of some NumPy.
    def implementation(
        a: Any,
        axis: Any = -1,
        kind: Any = None,
        order: Any = None,
        *,
        stable: Any = None,
        descending: Any = NO_VALUE,
    ) -> Array:
        x, place = _sort_operand(outside.__name__, a, axis, order)
        return _sorted(x, place, descending)[part]

    implementation.__name__ = implementation.__qualname__ = outside.__name__
    implementation.__doc__ = f"numpy.{outside.__name__}; equal elements keep their order, whatever kind= asks for."
    return covers(outside)(implementation)


sort, argsort = sorting(np.sort, 0), sorting(np.argsort, 1)


def _partition_points(name: str, kth: Any, shape: Sequence[int], axis: int) -> tuple[int, ...]:
    found, size = [operator.index(k) for k in np.atleast_1d(known_of(name, kth))], shape[axis]
    if 0 in shape:
        return (0,)  # NumPy takes any of them
    for k in found:
        if not -size <= k < size:
            raise ShapeError(f"{name}: kth(={k}) out of bounds ({size})")
    return tuple([k % size for k in found])


def partitioned(name: str, part: int, a: Any, kth: Any, axis: Any = -1, order: Any = None) -> Array:
    """The partitioned values (part 0), or where they came from (part 1)."""
    x, place = _sort_operand(name, a, axis, order)
    return Array(partition_primitive(x.value, axis=place, kth=_partition_points(name, kth, x.shape, place))[part])


MOVES, TIES = "elements are permuted as NumPy permutes them", "among equal elements the order may differ from NumPy's"
partition = bound(np.partition, MOVES, partitioned, "partition", 0, ignored="kind")
argpartition = bound(np.argpartition, TIES, partitioned, "argpartition", 1, ignored="kind")


@covers(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Array:
    """numpy.lexsort: the last key counts most."""
    rows = [traced_array(k) for k in keys]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    place = axis_of("lexsort", axis, rows[0].ndim)
    found = sort_primitive(rows[0].value, axis=place)[1]
    for row in rows[1:]:
        moved = np.take_along_axis(row, Array(found), place)
        order = sort_primitive(moved.value, axis=place)[1]
        found = np.take_along_axis(Array(found), Array(order), place).value
    return Array(found)


@covers(np.sort_complex)
def sort_complex(a: Any) -> Array:
    """numpy.sort_complex."""
    x = sort(traced_array(a), -1)
    if dtypes.is_complex(x.dtype):
        return x
    small = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    return x.astype(np.complex64 if small else np.complex128)


@covers(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """numpy.searchsorted; NaN counts as the largest."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    x, y = [Array(w) for w in promoted(traced_array(a), traced_array(v))]
    if x.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted array is {x.type}, not 1-d")
    if sorter is not None:
        x = x[sorter]
    rows, wanted = x.value.data, y.value.data
    if rows is not None and wanted is not None:
        plain = np.searchsorted(np.broadcast_to(rows, x.shape), np.broadcast_to(wanted, y.shape), side)
        return lift(plain)
    n = x.shape[0]
    if isinstance(n, Dim) or n <= COMPARED:
        return np.sum(is_before(x, y[..., None], side), axis=-1)
    found = np.zeros(y.shape, np.int32 if n < 2**31 else np.int64)
    for step in [1 << bit for bit in reversed(range(n.bit_length()))]:  # binary search, by the bits of the answer
        reached = found + step
        item = np.take(x, reached - 1, mode="clip")
        found = np.where((reached <= n) & is_before(item, y, side), reached, found)
    return found.astype(np.int64)


def is_before(x: Any, y: Any, side: str) -> Any:
    """True where an element of a sorted array stands before the place of a number."""
    return less_with_nan_last(x, y) if side == "left" else ~less_with_nan_last(y, x)


def less_with_nan_last(x: Any, y: Any) -> Any:
    """x < y where NaN is larger than every number; of complex numbers by the real part first, as NumPy sorts them."""
    if dtypes.is_complex(x.dtype):
        a, b, c, d = x.real, y.real, x.imag, y.imag
        nan_last, apart = np.isnan(d) & ~np.isnan(c), np.isnan(a) ^ np.isnan(b)
        by_real = np.where(a < b, ~np.isnan(c) | np.isnan(d), nan_last)
        by_imag = (c < d) | nan_last
        return np.where(apart, np.isnan(b), np.where((a < b) | (a > b), by_real, by_imag))
    if not dtypes.is_inexact(x.dtype):
        return x < y
    return (x < y) | (np.isnan(y) & ~np.isnan(x))


@covers(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """numpy.digitize; bins whose values are not known count as rising where the last is not below the first."""
    a = lift(x)
    if dtypes.is_complex(a.dtype):
        raise TypeError("x may not be complex")
    side = "left" if right else "right"
    if is_unknown(bins) and bins.size:
        falling = bins.size - searchsorted(flip(bins), a, side)
        return np.where(bins[-1] >= bins[0], searchsorted(bins, a, side), falling)[()]
    edges = known_of("digitize", bins)
    steps = np.diff(edges)
    if np.all(steps >= 0):
        return searchsorted(bins, a, side)
    if not np.all(steps <= 0):
        raise ValueError("bins must be monotonically increasing or decreasing")
    backwards = flip(traced_array(bins)) if is_traced(bins) else edges[::-1]
    return wrap((len(edges) - searchsorted(backwards, a, side)).value)
