"""NumPy's functions that put arrays together, repeat them, and add or drop parts along an axis."""

from __future__ import annotations

import math
import operator
from typing import Any

from wholestep.dims import Dim
from wholestep.errors import BoundsError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import lift, value_of
from wholestep.numpy.axes import atleast_1d, atleast_2d, atleast_3d
from wholestep.numpy.movement import (
    axis_of,
    broadcast_to,
    check_depth,
    concatenate,
    moveaxis,
    ravel,
    reshape,
    traced_array,
)
from wholestep.numpy.outside import np
from wholestep.numpy.selection import is_unknown, known_of


def _array_list(arrays: Any) -> list[Any]:
    return [arrays[i] for i in range(len(arrays))] if isinstance(arrays, Array) else list(arrays)


@covers(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """numpy.vstack."""
    return concatenate([atleast_2d(lift(a)) for a in _array_list(tup)], 0, dtype=dtype, casting=casting)


@covers(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """numpy.hstack."""
    parts = [atleast_1d(lift(a)) for a in _array_list(tup)]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@covers(np.dstack)
def dstack(tup: Any) -> Array:
    """numpy.dstack."""
    return concatenate([atleast_3d(lift(a)) for a in _array_list(tup)], 2)


@covers(np.column_stack)
def column_stack(tup: Any) -> Array:
    """numpy.column_stack."""
    parts = [traced_array(a) for a in _array_list(tup)]
    return concatenate([p if p.ndim > 1 else reshape(p, (-1, 1)) for p in parts], 1)


@covers(np.block)
def block(arrays: Any) -> Array:
    """numpy.block."""
    depth = _depth(arrays)
    leaves: list[Array] = []
    _gather_leaves(arrays, leaves)
    ndim = max([depth, *[leaf.ndim for leaf in leaves]])
    return Array(_join_arrays(arrays, ndim - depth, ndim).value)


def _depth(arrays: Any, around: int = 0) -> int:
    if not isinstance(arrays, list):
        return 0
    check_depth("block", around)
    if not arrays:
        raise ShapeError("block: lists cannot be empty")
    depths = {_depth(item, around + 1) for item in arrays}
    if len(depths) > 1:
        raise ShapeError("block: list depths are mismatched")
    return 1 + depths.pop()


def _gather_leaves(arrays: Any, leaves: list[Array]) -> None:
    if isinstance(arrays, list):
        for item in arrays:
            _gather_leaves(item, leaves)
    else:
        leaves.append(lift(arrays))


def _join_arrays(arrays: Any, axis: int, ndim: int) -> Array:
    if not isinstance(arrays, list):
        x = traced_array(arrays)
        return reshape(x, (*[1] * (ndim - x.ndim), *x.shape))
    return concatenate([_join_arrays(item, axis + 1, ndim) for item in arrays], axis)


@covers(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Array:
    """numpy.append."""
    if axis is None:
        return concatenate([ravel(lift(arr)), ravel(lift(values))], 0)
    return concatenate([lift(arr), lift(values)], axis)


@covers(np.tile)
def tile(A: Any, reps: Any) -> Array:
    """numpy.tile."""
    x = traced_array(A)
    counts = (
        [operator.index(r) for r in reps] if isinstance(reps, tuple | list | np.ndarray) else [operator.index(reps)]
    )
    counts = [1] * (x.ndim - len(counts)) + counts
    sizes = [1] * (len(counts) - x.ndim) + list(x.shape)
    apart = [n for pair in zip([1] * len(sizes), sizes, strict=True) for n in pair]
    wide = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    spread = broadcast_to(reshape(x, tuple(apart)), tuple(wide))
    return Array(reshape(spread, tuple([c * n for c, n in zip(counts, sizes, strict=True)])).value)


@covers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Array:
    """numpy.repeat; the counts decide the shape, so they must be known."""
    x = traced_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of("repeat", axis, x.ndim)
    counts = known_of("repeat", repeats)
    size = x.shape[place]
    if counts.size == 1:
        n = int(counts.ravel()[0])
        wide = (*x.shape[: place + 1], n, *x.shape[place + 1 :])
        spread = broadcast_to(reshape(x, (*x.shape[: place + 1], 1, *x.shape[place + 1 :])), wide)
        return Array(reshape(spread, (*x.shape[:place], size * n, *x.shape[place + 1 :])).value)
    return _taken(x, np.repeat(np.arange(size), counts), place)


def _taken(x: Array, index: Any, axis: int) -> Array:
    return x[(*[slice(None)] * axis, index)]  # type: ignore[no-any-return]


@covers(np.resize)
def resize(a: Any, new_shape: Any) -> Array:
    """numpy.resize: the elements again and again, as many as the new shape needs."""
    x = ravel(traced_array(a))
    shape = tuple([operator.index(n) for n in (new_shape if np.iterable(new_shape) else [new_shape])])
    if any(n < 0 for n in shape):
        raise ShapeError("resize: all sizes of the new shape must be non-negative")
    size = math.prod(shape)
    if size == 0 or x.size == 0:
        return lift(np.zeros(shape, x.dtype))
    times = -(-size // x.size)
    return Array(reshape((concatenate([x] * times, 0) if times > 1 else x)[:size], shape).value)


@covers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Array:
    """numpy.delete; the indices must be known, except those given by a mask along the first axis."""
    x = traced_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of("delete", axis, x.ndim)
    if place == 0 and is_unknown(obj) and lift(obj).dtype.kind == "b":
        return x[~lift(obj)]  # type: ignore[no-any-return]
    what = obj if isinstance(obj, slice) else known_of("delete", obj)
    if not isinstance(what, slice) and what.size == 0 and not isinstance(obj, np.ndarray):
        what = what.astype(np.int64)
    if isinstance(x.shape[place], Dim) and not isinstance(what, slice) and what.size == 1 and what.dtype.kind in "iu":
        at, head = int(what.reshape(-1)[0]), (slice(None),) * place
        parts = [slice(None, at), *([] if at == -1 else [slice(at + 1, None)])]
        return concatenate([x[(*head, part)] for part in parts], place)
    kept = np.delete(np.arange(x.shape[place]), what)
    return _taken(x, kept, place)


@covers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Array:
    """numpy.insert; where is inserted must be known."""
    x = traced_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of("insert", axis, x.ndim)
    size = x.shape[place]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(size))
    at = known_of("insert", obj)
    if at.dtype.kind == "b":
        at = np.flatnonzero(at)
    new = Array(value_of(values, x.dtype))
    if at.size == 1:
        return _insert_one(x, int(at.ravel()[0]), new, place, at.ndim == 0)
    at = np.where(at < 0, at + size, at).astype(np.int64)
    target = np.insert(np.arange(size), at, size + np.arange(len(at)))
    wide = broadcast_to(new, (*x.shape[:place], len(at), *x.shape[place + 1 :]))
    return _taken(concatenate([x, wide], place), target, place)


def _insert_one(x: Array, at: int, new: Array, place: int, scalar: bool) -> Array:
    """x with one or several values inserted at one position."""
    size = x.shape[place]
    if not -size <= at <= size:
        raise BoundsError(f"insert: index {at} is out of bounds for axis {place} with size {size}")
    at = at + size if at < 0 else at
    if new.ndim < x.ndim:
        new = reshape(new, (*[1] * (x.ndim - new.ndim), *new.shape))
    if scalar:
        new = moveaxis(new, 0, place)
    wide = broadcast_to(new, (*x.shape[:place], new.shape[place], *x.shape[place + 1 :]))
    head = (slice(None),) * place
    return concatenate([x[(*head, slice(0, at))], wide, x[(*head, slice(at, None))]], place)
