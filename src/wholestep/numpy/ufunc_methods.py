"""reduce, accumulate, reduceat and at of the ufuncs that have no primitive for them."""

from __future__ import annotations

from typing import Any

from wholestep.dtypes import is_inexact
from wholestep.errors import ReadOnlyError, ShapeError, UnsupportedError
from wholestep.frontend import ufuncs
from wholestep.frontend.array import Array
from wholestep.frontend.control import scan
from wholestep.frontend.conversions import plain_target
from wholestep.frontend.dispatch import FUNCTIONS, HOOKS, is_traced, unsupported
from wholestep.frontend.promotion import broadcast_shapes, checked, lift, wrap
from wholestep.frontend.ufunc_rules import LOGICAL
from wholestep.numpy.movement import (
    axis_of,
    broadcast_to,
    concatenate,
    moveaxis,
    normalized_axes,
    reshape,
    traced_array,
)
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.reductions import cumprod, cumsum
from wholestep.numpy.statistics import moved_last
from wholestep.primitives.order import cummax, cummin

ASSOCIATIVE = frozenset(
    "logaddexp logaddexp2 bitwise_and bitwise_or bitwise_xor logical_xor hypot fmax fmin gcd lcm".split()
)
"""Folded in halves: log2(n) steps."""

IN_TURN = frozenset(("subtract", "divide", "arctan2"))
"""Folded from the left: n steps."""


TOTALS = frozenset(("add", "multiply"))
"""Reductions whose results have a dtype of their own choice."""


def in_loop(ufunc: np.ufunc, x: Any, dtype: Any) -> Array:
    """The operand of a method, cast to the loop that its dtype or `dtype=` selects; truth values for logical ufuncs."""
    a, wanted = traced_array(x), None if dtype is None else checked(dtype)
    loop = ufuncs.loop_dtypes(ufunc, (a.dtype,) * ufunc.nin, wanted, "unsafe")[0]
    return a.astype(np.bool_ if ufunc.__name__ in LOGICAL else loop)


def reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **options: Any
) -> Any:
    """`ufunc.reduce`: as the function of that meaning where there is one, else by folding."""
    name = ufunc.__name__
    if name in ufuncs.REDUCE:
        if dtype is not None:
            x, options = in_loop(ufunc, x, dtype), {**options, **({"dtype": dtype} if name in TOTALS else {})}
        initial = options.pop("initial", None) if name in LOGICAL else None
        made = FUNCTIONS[ufuncs.REDUCE[name]](x, axis=axis, keepdims=keepdims, **options)
        if initial is not None and initial is not NO_VALUE:
            made = ufunc(made, lift(initial))
        return ufuncs.assign_out(name, out, made)
    if name not in ASSOCIATIVE | IN_TURN:
        raise unsupported(f"numpy.{name}.reduce")
    initial, where = options.pop("initial", None), options.pop("where", True)
    a = in_loop(ufunc, x, dtype)
    initial = None if initial is None else lift(initial).astype(a.dtype)
    axes = normalized_axes(name, axis, a.ndim)
    if name in IN_TURN and len(axes) > 1:
        raise ValueError(f"reduction operation '{name}' is not reorderable, so at most one axis may be specified")
    rows = moved_last(a, axes)
    if where is not True:
        unit = initial if ufunc.identity is None else ufunc.identity
        if unit is None:
            raise ShapeError(f"{name}: where= needs initial=, the value of an empty choice")
        mask = moved_last(broadcast_to(traced_array(where), a.shape), axes)
        rows = lift(np.where(mask, rows, lift(unit).astype(a.dtype)))
    made = _folded(ufunc, rows, initial)
    if keepdims and keepdims is not NO_VALUE:
        made = reshape(made, tuple([1 if i in axes else n for i, n in enumerate(a.shape)]))
    return ufuncs.assign_out(name, out, wrap(made.value))


def _folded(ufunc: np.ufunc, rows: Array, initial: Any) -> Array:
    """The last axis folded away; NumPy's unit is an operand beside fewer than two elements."""
    n = rows.shape[-1]
    if n < 2 and initial is None and ufunc.identity is not None:
        initial = lift(ufunc.identity).astype(rows.dtype)
    if n == 0:
        if initial is None:
            raise ShapeError(f"{ufunc.__name__}: zero-size array to a reduction without identity")
        return lift(broadcast_to(initial, rows.shape[:-1]))
    if ufunc.__name__ in IN_TURN:
        made = lift(rows[..., 0] if initial is None else ufunc(initial, rows[..., 0]))
        return scan(lambda made, row: (ufunc(made, row), None), made, moveaxis(rows[..., 1:], -1, 0))[0]
    while rows.shape[-1] > 1:
        half = rows.shape[-1] // 2
        pairs = ufunc(rows[..., :half], rows[..., half : 2 * half])
        rows = concatenate([pairs, rows[..., 2 * half :]], -1) if rows.shape[-1] % 2 else pairs
    made = rows[..., 0]
    return lift(made if initial is None else ufunc(initial, made))


def accumulate(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """`ufunc.accumulate`: a primitive where there is one, else step by step."""
    name = ufunc.__name__
    if name in ACCUMULATE:
        return ufuncs.assign_out(name, out, ACCUMULATE[name](x, axis, dtype))
    if name not in ASSOCIATIVE | IN_TURN:
        raise unsupported(f"numpy.{name}.accumulate")
    return ufuncs.assign_out(name, out, _step_by_step(ufunc, in_loop(ufunc, x, dtype), axis))


def _step_by_step(ufunc: np.ufunc, a: Array, axis: Any) -> Array:
    place = axis_of(ufunc.__name__, axis, a.ndim)
    if a.shape[place] == 0:
        return a.copy()
    rows = moveaxis(a, place, 0)

    def step(made: Array, row: Array) -> tuple[Array, Array]:
        made = lift(ufunc(made, row))
        return made, made

    return moveaxis(concatenate([rows[:1], scan(step, rows[0], rows[1:])[1]]), 0, place)


def reduceat(ufunc: np.ufunc, x: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    """`ufunc.reduceat`: all segments at once, in halves where the ufunc allows; the indices must be plain."""
    name = ufunc.__name__
    if is_traced(indices):
        raise UnsupportedError(f"{name}.reduceat: the indices must be plain integers")
    a = traced_array(x)
    place = axis_of(name, axis, a.ndim)
    size, head = a.shape[place], (slice(None),) * place
    starts = np.asarray(indices, np.intp)
    for low in starts[(starts < 0) | (starts >= size)]:
        raise IndexError(f"index {low} out-of-bounds in {name}.reduceat [0, {size})")
    stops = np.maximum(np.append(starts[1:], size), starts + 1)
    if name in IN_TURN and starts.size:
        parts = [a[(*head, slice(*ends))] for ends in zip(starts, stops, strict=True)]
        parts = [reduce(ufunc, part, place, dtype, keepdims=True) for part in parts]
        return ufuncs.assign_out(name, out, concatenate(parts, place))
    a = a.astype(lift(reduce(ufunc, a[(*head, slice(0, 1))], place, dtype)).dtype)
    rows = moveaxis(a, place, 0)[np.concatenate([np.arange(0), *map(np.arange, starts, stops)])]
    made = _segments_in_halves(ufunc, rows, np.repeat(np.arange(len(starts)), stops - starts))
    return ufuncs.assign_out(name, out, moveaxis(made, 0, place))


def _segments_in_halves(ufunc: np.ufunc, rows: Array, segments: Any) -> Array:
    """One row for each segment: neighbours of a segment are combined until there are none; its numbers are in order."""
    while True:
        rank = np.arange(len(segments)) - np.searchsorted(segments, segments)
        right = np.flatnonzero(rank % 2)
        if not right.size:
            return rows
        alone = np.delete(np.arange(len(segments)), np.union1d(right, right - 1))
        kept = np.concatenate([right - 1, alone])
        made = concatenate([lift(ufunc(rows[right - 1], rows[right])), rows[alone]])
        rows, segments = made[np.argsort(kept)], segments[np.sort(kept)]


AT_ONCE = {np.add: "add", np.subtract: "add", np.maximum: "maximum", np.minimum: "minimum"}
"""The ufuncs whose `at` is one scatter, each with the operation that combines elements."""


def at(ufunc: np.ufunc, x: Any, index: Any, *operands: Any) -> None:
    """`ufunc.at`, unbuffered: operands of one element are combined, or applied in turn, one layer after the other."""
    if not isinstance(x, Array):
        raise plain_target(f"{ufunc.__name__}.at", x)
    if x._scalar:
        raise ReadOnlyError(f"{ufunc.__name__}.at: NumPy scalars cannot be written", hint="keep an array instead")
    if ufunc in AT_ONCE and _casts_first(AT_ONCE[ufunc], x.dtype, lift(operands[0]).dtype):
        operand = lift(operands[0]).astype(x.dtype)
        HOOKS.setitem(x, index, -operand if ufunc is np.subtract else operand, join=AT_ONCE[ufunc])
        return
    numbers = np.arange(x.size).reshape(x.shape)
    places = lift(numbers)[index] if is_traced(index) else numbers[index]
    given = [lift(v) for v in operands]
    for v in given:
        if broadcast_shapes(ufunc.__name__, [v.shape, places.shape]) != places.shape:
            raise ShapeError(f"{ufunc.__name__}.at: {v.type} does not fit a place of shape {places.shape}")
    wide = [broadcast_to(v, places.shape).reshape(-1) for v in given]
    if is_traced(index):
        x[...] = one_after_another(ufunc, x, places.reshape(-1), wide)
        return
    flat = np.ravel(places)
    turn = _turns(flat)
    line = x[None] if x.ndim == 0 else x
    for k in range(int(turn.max(initial=-1)) + 1):
        chosen = np.flatnonzero(turn == k)
        where = np.unravel_index(flat[chosen], line.shape)
        made = ufunc(line[where], *[v[chosen] for v in wide])
        line[where] = lift(made).astype(x.dtype)


def _casts_first(join: str, dtype: np.dtype, operand: np.dtype) -> bool:
    """Test whether operands may be cast before they are combined, where NumPy casts what it has combined.

    Integers wrap around alike in sums, not in extrema; a float is cut off, and a truth value may become false again.
    """
    if dtype.kind == "b" or (dtype.kind == "c" and join != "add"):  # no scatter orders complex numbers
        return False
    return is_inexact(dtype) or np.can_cast(operand, dtype) or (join == "add" and operand.kind in "iu")


def one_after_another(ufunc: np.ufunc, x: Array, places: Array, operands: list[Array]) -> Array:
    """An array after a ufunc at each of some places, in a loop, since which of them repeat is not known."""

    def step(flat: Array, row: tuple[Array, ...]) -> tuple[Array, None]:
        place, *given = row
        made = flat.copy()
        made[place] = lift(ufunc(flat[place], *given)).astype(x.dtype)
        return made, None

    flat = x.reshape(-1)
    if places.size == 1:
        return step(flat, (places[0], *[v[0] for v in operands]))[0].reshape(x.shape)
    return lift(scan(step, flat, (places, *operands))[0]).reshape(x.shape)


def _turns(flat: Any) -> Any:
    """The number of times each entry has come before."""
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = np.searchsorted(ordered, ordered)
    turn = np.empty(len(flat), np.int64)
    turn[order] = np.arange(len(flat)) - first
    return turn


def outer(ufunc: np.ufunc, x: Any, y: Any, **options: Any) -> Any:
    """`ufunc.outer`: every element of x with every element of y."""
    a, b = lift(x), lift(y)
    return ufuncs.call(ufunc, reshape(a, (*a.shape, *[1] * b.ndim)), b, **options)


def _accumulator(primitive: Any) -> Any:
    def run(x: Any, axis: Any, dtype: Any) -> Array:
        a = traced_array(x) if dtype is None else traced_array(x).astype(dtype)
        return Array(primitive(a.value, axis=axis_of("accumulate", axis, a.ndim))[0])

    return run


def _extremum(ufunc: np.ufunc, primitive: Any) -> Any:
    def run(x: Any, axis: Any, dtype: Any) -> Array:
        a = in_loop(ufunc, x, dtype)
        return _step_by_step(ufunc, a, axis) if a.dtype.kind == "c" else _accumulator(primitive)(a, axis, None)

    return run


def _truths(ufunc: np.ufunc, primitive: Any) -> Any:
    def run(x: Any, axis: Any, dtype: Any) -> Array:
        made: Array = _accumulator(primitive)(in_loop(ufunc, x, dtype), axis, np.int8)
        return made.astype(bool)

    return run


ACCUMULATE = {
    "add": lambda x, axis, dtype: cumsum(lift(x), axis, dtype),
    "multiply": lambda x, axis, dtype: cumprod(lift(x), axis, dtype),
    "maximum": _extremum(np.maximum, cummax),
    "minimum": _extremum(np.minimum, cummin),
    "logical_and": _truths(np.logical_and, cummin),
    "logical_or": _truths(np.logical_or, cummax),
}
"""ufunc name -> (x, axis, dtype) -> running result."""

ufuncs.METHODS.update(reduce=reduce, accumulate=accumulate, reduceat=reduceat, outer=outer, at=at)
