"""NumPy's diagonals and triangles."""

from __future__ import annotations

import operator
from typing import Any

from wholestep.dims import Dim
from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.conversions import plain_target
from wholestep.frontend.dispatch import binds, bound, covers
from wholestep.frontend.promotion import value_of
from wholestep.ir.graph import Value
from wholestep.numpy.creation import tri
from wholestep.numpy.movement import flat_view, normalized_axes, ravel, traced_array, view
from wholestep.numpy.outside import np
from wholestep.numpy.reductions import sum as sum_of
from wholestep.numpy.selection import where
from wholestep.primitives.movement import pad, permute, reshape, slice_


def _diagonal_of(v: Value, offset: int) -> Value:
    """The diagonal of the last two axes: flattened, its elements stand one row and one column apart."""
    *lead, rows, columns = v.shape
    first = (0, offset) if offset >= 0 else (-offset, 0)
    count = max(min(rows - first[0], columns - first[1]), 0)
    flat = reshape(v, shape=(*lead, rows * columns))
    start = first[0] * columns + first[1] if count else 0
    stop = start + (count - 1) * (columns + 1) + 1 if count else 0
    zero = (0,) * len(lead)
    made: Value = slice_(flat, start=(*zero, start), stop=(*lead, stop), step=(*[1] * len(lead), columns + 1))
    return made


@covers(np.diagonal)
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Array:
    """numpy.diagonal: a view that cannot be written."""
    x = traced_array(a)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs an array of two axes or more, not {x.type}")
    k = operator.index(offset)
    i, j = normalized_axes("diagonal", (axis1, axis2), x.ndim)
    order = (*[n for n in range(x.ndim) if n not in (i, j)], i, j)
    return view(x, lambda v: _diagonal_of(permute(v, axes=order), k), None, lambda plain: np.diagonal(plain, k, i, j))


@covers(np.diag)
def diag(v: Any, k: Any = 0) -> Array:
    """numpy.diag: a matrix from its diagonal, or the diagonal of a matrix."""
    x = traced_array(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: the input must be 1-d or 2-d, not {x.type}")
    off = operator.index(k)
    n = x.shape[0]
    size = n + abs(off)
    before = max(off, 0) + max(-off, 0) * size
    if n == 0:
        return Array(traced_array(np.zeros((size, size), x.dtype)).value)
    after = size * size - before - ((n - 1) * (size + 1) + 1)
    flat = pad(x.value, before=(before,), after=(after,), interior=(size,))
    return Array(reshape(flat, shape=(size, size)))


@covers(np.diagflat)
def diagflat(v: Any, k: Any = 0) -> Array:
    """numpy.diagflat."""
    return diag(ravel(traced_array(v)), k)


@binds(np.trace, casting="unsafe")
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Any:
    """numpy.trace."""
    return sum_of(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@covers(np.tril)
def tril(m: Any, k: int = 0) -> Array:
    """numpy.tril."""
    x = _matrix_of(m, "tril")
    return where(_below(x, k), x, np.zeros((), x.dtype))  # type: ignore[no-any-return]


@covers(np.triu)
def triu(m: Any, k: int = 0) -> Array:
    """numpy.triu."""
    x = _matrix_of(m, "triu")
    return where(_below(x, k - 1), np.zeros((), x.dtype), x)  # type: ignore[no-any-return]


def _below(x: Array, k: int) -> Any:
    """The mask of the elements on and below diagonal k of matrices; a constant where their sizes are constants."""
    rows, columns = x.shape[-2:]
    symbolic = isinstance(rows, Dim) or isinstance(columns, Dim)
    return (tri if symbolic else np.tri)(rows, columns, k, bool)


def _matrix_of(m: Any, name: str) -> Array:
    """A matrix; of a vector NumPy makes one with the vector in every row."""
    x = traced_array(m)
    if x.ndim == 0:
        raise ShapeError(f"{name}: the array has no axes")
    return x if x.ndim > 1 else traced_array(np.broadcast_to(x, (x.shape[0], x.shape[0])))


@covers(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """numpy.fill_diagonal: writes a in place."""
    x = writable("fill_diagonal", a)
    if x.ndim < 2:
        raise ShapeError("fill_diagonal: the array must be at least 2-d")
    end = None
    if x.ndim == 2:
        step = x.shape[1] + 1
        end = None if wrap else x.shape[1] * x.shape[1]
    else:
        if len(set(x.shape)) > 1:
            raise ShapeError("fill_diagonal: all sizes must be equal for more than two axes")
        step = 1 + int(np.cumprod(x.shape[:-1]).sum())
    flat = flat_view(x)
    count = len(range(*slice(0, end, step).indices(x.size)))
    flat[slice(0, end, step)] = np.resize(ravel(Array(value_of(val, x.dtype))), count)


def writable(name: str, a: Any) -> Array:
    """The traced array that a function writes in place; a plain one cannot take traced values."""
    if isinstance(a, Array):
        return a
    raise plain_target(name, a)


def _triangle_indices(outside: Any, arr: Any, k: int = 0) -> Any:
    if arr.ndim != 2:
        raise ShapeError(f"{outside.__name__}_from: a matrix has two axes, not {arr.ndim}")
    return outside(arr.shape[-2], k=k, m=arr.shape[-1])


PLAIN = "plain index arrays, since the shape alone decides"
tril_indices_from = bound(np.tril_indices_from, PLAIN, _triangle_indices, np.tril_indices)
triu_indices_from = bound(np.triu_indices_from, PLAIN, _triangle_indices, np.triu_indices)


@covers(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """numpy.diag_indices_from: plain index arrays, since the shape alone decides."""
    if arr.ndim < 2 or len(set(arr.shape)) > 1:
        raise ShapeError("diag_indices_from: all sizes must be equal, in two axes or more")
    return np.diag_indices(arr.shape[0], arr.ndim)
