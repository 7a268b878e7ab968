"""NumPy's functions that reorder, turn and roll axes, and add missing ones."""

from __future__ import annotations

import operator
from typing import Any

from wholestep.dims import Dim
from wholestep.errors import AxisError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import bound, covers, is_traced
from wholestep.frontend.promotion import lift
from wholestep.ir.build import owned
from wholestep.numpy.creation import arange
from wholestep.numpy.movement import (
    axis_of,
    concatenate,
    expand_dims,
    flip,
    normalized_axes,
    ravel,
    reshape,
    swapaxes,
    traced_array,
    transpose,
)
from wholestep.numpy.outside import np


@covers(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Array:
    """numpy.matrix_transpose: a view."""
    a = traced_array(x)
    if a.ndim < 2:
        raise ShapeError(f"matrix_transpose: a matrix has two axes or more, not {a.type}")
    return swapaxes(a, -1, -2)


@covers(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: int = 0) -> Array:
    """numpy.rollaxis: a view."""
    x = traced_array(a)
    source = axis_of("rollaxis", axis, x.ndim)
    target = start + x.ndim if start < 0 else start
    if not 0 <= target <= x.ndim:
        raise AxisError(f"rollaxis: start {start} is out of bounds for {x.type}")
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target - 1 if source < target else target, source)
    return transpose(x, order)


def _flipped(axis: int, m: Any) -> Array:
    return flip(traced_array(m), axis)


flipud, fliplr = bound(np.flipud, "a view", _flipped, 0), bound(np.fliplr, "a view", _flipped, 1)


@covers(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    """numpy.rot90: a view, turned k times by 90 degrees."""
    x = traced_array(m)
    if len(axes) != 2:
        raise ShapeError("rot90: turning needs two axes")
    i, j = normalized_axes("rot90", tuple(axes), x.ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return x[...]  # type: ignore[no-any-return]
    if turns == 2:
        return flip(flip(x, i), j)
    if turns == 1:
        return swapaxes(flip(x, j), i, j)
    return flip(swapaxes(x, i, j), j)


@covers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """numpy.roll."""
    x = traced_array(a)
    if axis is None:
        total = np.sum(lift(shift)) if is_traced(shift) else int(np.sum(shift))
        return reshape(roll(ravel(x), total, 0), x.shape)
    steps, places = (lift(shift) if is_traced(shift) else np.asarray(shift)), np.asarray(axis)
    shape = np.broadcast_shapes(steps.shape, places.shape)
    steps, places = np.broadcast_to(steps, shape).ravel(), np.broadcast_to(places, shape).ravel()
    for n, at in enumerate(places.tolist()):
        x = rolled(x, steps[n], axis_of("roll", at, x.ndim))
    return Array(owned(x.value))


def rolled(x: Array, step: Any, place: int) -> Array:
    """An array rolled along one axis by a number of places that may be traced."""
    size = x.shape[place]
    if isinstance(size, Dim) or (is_traced(step) and size):
        return np.take(x, (arange(size) - step.astype(np.int64)) % size, place)  # type: ignore[no-any-return]
    cut = int(step) % size if size else 0
    if not cut:
        return x
    head = (slice(None),) * place
    return concatenate([x[(*head, slice(size - cut, None))], x[(*head, slice(0, size - cut))]], place)


def _each(arys: tuple[Any, ...], one: Any) -> Any:
    made = tuple([one(traced_array(a)) for a in arys])
    return made[0] if len(made) == 1 else made


@covers(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """numpy.atleast_1d: views."""
    return _each(arys, lambda x: x if x.ndim else reshape(x, (1,)))


@covers(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """numpy.atleast_2d: views."""
    return _each(arys, _at_least_2d)


def _at_least_2d(x: Array) -> Array:
    return x if x.ndim > 1 else expand_dims(x, tuple(range(2 - x.ndim)))


@covers(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """numpy.atleast_3d: views; a matrix gets its new axis at the end."""
    return _each(arys, _three)


def _three(x: Array) -> Array:
    places: tuple[int, ...] = ((0, 1, 2), (0, 2), (2,))[x.ndim] if x.ndim < 3 else ()
    return expand_dims(x, places) if places else x
