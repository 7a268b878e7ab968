"""NumPy's functions that read and write at positions: take, put and their kin."""

from __future__ import annotations

import math
import operator
from typing import Any

from wholestep.dims import Dim
from wholestep.errors import BoundsError, DtypeError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, bound, covers, is_traced
from wholestep.frontend.promotion import WEAK, broadcast_shapes, lift, promoted, value_of, wrap
from wholestep.numpy.creation import arange
from wholestep.numpy.diagonals import writable
from wholestep.numpy.movement import axis_of, broadcast_to, concatenate, cycled, flat_view, ravel, reshape, traced_array
from wholestep.numpy.outside import np
from wholestep.numpy.selection import is_unknown, known_of, where

MODES = ("raise", "wrap", "clip")


def positions(name: str, indices: Any, size: int, mode: str, negative: bool = True) -> Any:
    """Indices as integers in range by the rule of mode=; with "raise" those outside are left for the read to refuse."""
    if mode not in MODES:
        raise ValueError(f"{name}: clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    index = lift(indices) if is_traced(indices) else np.asarray(indices)
    if index.size == 0 and not isinstance(indices, Array | np.ndarray):
        index = np.zeros(index.shape, np.int64)
    if index.dtype.kind not in "iub":
        raise DtypeError(f"{name}: an index is {index.dtype}, not an integer")
    index = index.astype(np.int64)
    if mode == "wrap":
        return index % size
    if mode == "clip":
        return np.clip(index, 0, size - 1)
    if negative:
        return index
    if not is_traced(index) and index.size and index.min() < 0:
        raise BoundsError(f"{name}: invalid entry {index.min()} in choice array")
    return np.where(index < 0, size, index)


@binds(np.take, casting="unsafe")
def take(a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """numpy.take."""
    x = traced_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of("take", axis, x.ndim)
    index = positions("take", indices, x.shape[place], mode)
    made = x[(*[slice(None)] * place, index)]
    return Array(made.value, made._scalar or made.ndim == 0)


def _index_along(x: Array, indices: Any, axis: int, name: str) -> tuple[Any, ...]:
    """The index that picks along one axis and walks the others."""
    index = lift(indices) if is_traced(indices) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if index.ndim != x.ndim:
        raise ShapeError(f"{name}: the indices and {x.type} must have the same number of axes")
    return tuple(
        [
            index
            if i == axis
            else (arange(n) if isinstance(n, Dim) else np.arange(n)).reshape(
                [n if j == i else 1 for j in range(x.ndim)]
            )
            for i, n in enumerate(x.shape)
        ]
    )


@covers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Array:
    """numpy.take_along_axis."""
    x = traced_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    place = axis_of("take_along_axis", axis, x.ndim)
    return x[_index_along(x, indices, place, "take_along_axis")]  # type: ignore[no-any-return]


@covers(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """numpy.put_along_axis: writes arr in place."""
    x = writable("put_along_axis", arr)
    if axis is None:
        x, axis = flat_view(x), 0
    place = axis_of("put_along_axis", axis, x.ndim)
    x[_index_along(x, indices, place, "put_along_axis")] = values


@covers(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """numpy.put: writes a in place."""
    x = flat_view(writable("put", a))
    index = positions("put", ind, x.size, mode)
    count = math.prod(index.shape)
    new = Array(value_of(v, x.dtype))
    if count and new.size:
        x[index.reshape(-1)] = cycled(new, count)


@covers(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """numpy.putmask: writes a in place where the mask holds; works without knowing the mask."""
    x = writable("putmask", a)
    if isinstance(values, Array | np.ndarray) and not np.can_cast(values.dtype, x.dtype, "safe"):
        given = lift(values).type
        raise DtypeError(f"putmask: {given} does not go into {x.type} without a loss", hint="use values.astype")
    new = Array(value_of(values, x.dtype))
    chosen = traced_array(mask).astype(bool)
    if chosen.size != x.size:
        raise ShapeError(f"putmask: the mask {chosen.type} and the array {x.type} must be of one size")
    if new.size:
        x[...] = where(reshape(chosen, x.shape), reshape(cycled(new, x.size), x.shape), x)


@covers(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """numpy.place: writes arr in place, the first value where the mask first holds, and so on."""
    x = writable("place", arr)
    chosen = traced_array(mask).astype(bool)
    if chosen.size != x.size:
        raise ShapeError(f"place: the mask {chosen.type} and the array {x.type} must be of one size")
    new = ravel(Array(value_of(vals, x.dtype)))
    if new.size == 0:
        if np.any(known_of("place", mask)):
            raise ValueError("Cannot insert from an empty array!")
        return
    turn = (np.cumsum(ravel(chosen)) - 1) % new.size
    x[...] = where(reshape(chosen, x.shape), reshape(new[turn], x.shape), x)


@covers(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """numpy.copyto: writes dst in place."""
    x = writable("copyto", dst)
    new = src if type(src) in WEAK else lift(src)
    if not np.can_cast(new.dtype if isinstance(new, Array) else np.result_type(x.dtype, new), x.dtype, casting):
        raise DtypeError(f"copyto: cannot write {lift(new).type} into {x.type} by the rule {casting!r}")
    if where is True:
        x[...] = new
    else:
        x[...] = np.where(where, Array(value_of(new, x.dtype)), x)


@binds(np.choose, casting="unsafe")
def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """numpy.choose."""
    options = [Array(v) for v in promoted(*choices)]
    index = positions("choose", a, len(options), mode, negative=False)
    shape = broadcast_shapes("choose", [index.shape, *[o.shape for o in options]])
    board = concatenate([broadcast_to(o, shape)[None] for o in options], 0)
    made = take_along_axis(board, broadcast_to(traced_array(index), shape)[None], 0)[0]
    return wrap(made.value)


@covers(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """numpy.compress; a condition that is not known chooses along the first axis, as x[condition] does."""
    if is_unknown(condition) and out is None and (axis is None or axis_of("compress", axis, traced_array(a).ndim) == 0):
        return (ravel(traced_array(a)) if axis is None else traced_array(a))[lift(condition) != 0]
    mask = known_of("compress", condition)
    if mask.ndim != 1:
        raise ShapeError("compress: the condition must be a 1-d array")
    return take(a, np.flatnonzero(mask), axis, out)


@covers(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """numpy.extract; a condition that is not known chooses as x[condition] does."""
    if is_unknown(condition):
        return ravel(traced_array(arr))[ravel(lift(condition)) != 0]
    return take(ravel(traced_array(arr)), np.flatnonzero(known_of("extract", condition)), 0)


@covers(np.nonzero)
def nonzero(a: Any) -> tuple[Array, ...]:
    """numpy.nonzero; the values must be known."""
    return tuple([lift(i) for i in np.nonzero(known_of("nonzero", a))])


def of_known(outside: Any, a: Any) -> Array:
    """A function whose result's shape depends on the values."""
    return lift(outside(known_of(outside.__name__, a)))


argwhere, flatnonzero = [bound(f, "the values must be known", of_known, f) for f in (np.argwhere, np.flatnonzero)]


@covers(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """numpy.count_nonzero."""
    x = lift(a)
    return np.sum(x if x.dtype.kind == "b" else x != 0, axis=axis, keepdims=keepdims)


@covers(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """numpy.ix_; boolean arguments must be known."""
    found = []
    for i, arg in enumerate(args):
        x = traced_array(arg)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if x.shape == (0,) and not isinstance(arg, np.ndarray | Array):
            x = x.astype(np.intp)
        if x.dtype.kind == "b":
            x = lift(np.flatnonzero(known_of("ix_", x)))
        found.append(reshape(x, [-1 if j == i else 1 for j in range(len(args))]))
    return tuple(found)


@covers(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """numpy.unravel_index."""
    given = lift(indices)
    if given.dtype.kind not in "iu":
        raise DtypeError(f"unravel_index: indices are integers, not {given.type}")
    rest = given.astype(np.int64)
    sizes = [operator.index(n) for n in (shape if np.iterable(shape) else [shape])]
    found = []
    for n in sizes if order == "F" else sizes[::-1]:
        found.append(rest % n)
        rest = rest // n
    return tuple(found if order == "F" else found[::-1])


@covers(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """numpy.ravel_multi_index; out-of-range indices must be known to be refused."""
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    flat: Any = 0
    parts = list(zip(multi_index, dims, modes, strict=True))
    for index, n, rule in parts if order == "C" else parts[::-1]:
        inside = positions("ravel_multi_index", index, n, rule)
        data = lift(inside).value.data if rule == "raise" else None
        if data is not None and np.any((data < 0) | (data >= n)):
            raise BoundsError("ravel_multi_index: invalid entry in coordinates array")
        flat = flat * n + inside
    return flat
