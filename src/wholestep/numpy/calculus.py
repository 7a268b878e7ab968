"""NumPy's differences, sums and interpolations along an axis."""

from __future__ import annotations

import math
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim, surely_above
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import bound, covers, is_traced
from wholestep.frontend.promotion import lift, promoted
from wholestep.numpy import reductions
from wholestep.numpy.contractions import products_summed
from wholestep.numpy.movement import (
    axis_of,
    broadcast_to,
    concatenate,
    flip,
    normalized_axes,
    ravel,
    reshape,
    traced_array,
)
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.sorting import argsort, searchsorted
from wholestep.primitives.arithmetic import conj, make_complex
from wholestep.primitives.contraction import window
from wholestep.primitives.movement import pad


def _cut(axis: int, start: Any, stop: Any) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(start, stop))


@covers(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = NO_VALUE, append: Any = NO_VALUE) -> Any:
    """numpy.diff."""
    if n == 0:
        return a
    if n < 0:
        raise ValueError("order must be non-negative but got " + repr(n))
    x = traced_array(a)
    if x.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    place = axis_of("diff", axis, x.ndim)
    edge = tuple([1 if i == place else m for i, m in enumerate(x.shape)])
    parts: list[Any] = [x]
    for more, at in ((prepend, 0), (append, 2)):
        if more is not NO_VALUE:
            piece = traced_array(more)
            parts.insert(at, piece if piece.ndim else broadcast_to(piece, edge))
    x = concatenate(parts, place) if len(parts) > 1 else x
    ufunc = np.not_equal if x.dtype.kind == "b" else np.subtract
    for _ in range(n):
        if x.shape[place] == 0:
            break
        x = ufunc(x[_cut(place, 1, None)], x[_cut(place, None, -1)])
    return x


@covers(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """numpy.ediff1d."""
    x = ravel(traced_array(ary))
    parts = [x[1:] - x[:-1]]
    for more, at in ((to_begin, 0), (to_end, 2)):
        if more is not None:
            piece = ravel(traced_array(more))
            if not np.can_cast(piece.dtype, x.dtype, "same_kind"):
                raise TypeError(
                    "dtype of `to_begin` and `to_end` must be compatible with input `ary` under `same_kind`"
                )
            parts.insert(at, piece.astype(x.dtype))
    return concatenate(parts, 0) if len(parts) > 1 else parts[0]


@covers(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """numpy.trapezoid."""
    a = traced_array(y)
    place = axis_of("trapezoid", axis, a.ndim)
    step: Any = dx
    if x is not None:
        at = traced_array(x)
        step = diff(at, axis=0 if at.ndim == 1 else axis)
        if at.ndim == 1:
            step = reshape(step, [-1 if i == place else 1 for i in range(a.ndim)])
    pairs = a[_cut(place, 1, None)] + a[_cut(place, None, -1)]
    return np.sum(step * pairs / 2.0, axis=axis)  # points of more axes than values count theirs


@covers(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """numpy.gradient; a tuple where there are several axes."""
    x = traced_array(f)
    axes = normalized_axes("gradient", axis, x.ndim)
    if edge_order not in (1, 2):
        raise ParameterError(f"gradient: edge_order={edge_order!r} is not covered", hint="it is 1 or 2")
    steps = _spacings(x, varargs, axes)
    if not dtypes.is_inexact(x.dtype):
        x = x.astype(np.float64)
    made = [_slope(x, place, h, edge_order) for place, h in zip(axes, steps, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _spacings(x: Array, varargs: tuple[Any, ...], axes: tuple[int, ...]) -> list[Any]:
    """One step for each axis: a number, or an array of differences where the coordinates are not even."""
    given = list(varargs) or [1.0]
    if len(given) == 1 and lift(given[0]).ndim == 0:
        given = given * len(axes)
    if len(given) != len(axes):
        raise TypeError("invalid number of arguments")
    steps = []
    for h, place in zip(given, axes, strict=True):
        at = lift(h)
        if at.ndim == 0:
            steps.append(h)
            continue
        if at.ndim != 1 or at.shape[0] != x.shape[place]:
            raise ShapeError(f"gradient: coordinates {at.type} do not fit axis {place} of {x.type}")
        if not is_traced(h):
            plain = np.diff(np.asarray(h, np.float64) if np.asarray(h).dtype.kind in "iu" else np.asarray(h))
            steps.append(plain[0] if (plain == plain[0]).all() else plain)
        else:
            steps.append(diff(at))
    return steps


def _slope(x: Array, place: int, h: Any, edge_order: int) -> Any:
    """Central differences inside, one-sided ones at the ends."""
    n = x.shape[place]
    if not isinstance(n, Dim) and n < edge_order + 1:
        raise ShapeError(f"gradient: {x.type} is too small along axis {place}: it needs edge_order + 1 elements")
    part = [x[_cut(place, i, j)] for i, j in ((None, -2), (1, -1), (2, None))]
    first = [x[_cut(place, i, i + 1)] for i in range(edge_order + 1)]
    last = [x[_cut(place, -1 - i, -i or None)] for i in range(edge_order + 1)]
    if np.ndim(h) == 0 if not isinstance(h, Array) else h.ndim == 0:
        inner = (part[2] - part[0]) / (2.0 * h)
        ends = [(first[1] - first[0]) / h, (last[0] - last[1]) / h]
        if edge_order == 2:
            ends[0] = first[0] * (-1.5 / h) + first[1] * (2.0 / h) + first[2] * (-0.5 / h)
            ends[1] = last[2] * (0.5 / h) + last[1] * (-2.0 / h) + last[0] * (1.5 / h)
    else:
        shape = [-1 if i == place else 1 for i in range(x.ndim)]
        a, b = lift(h[:-1]).reshape(shape), lift(h[1:]).reshape(shape)
        inner = part[0] * (-b / (a * (a + b))) + part[1] * ((b - a) / (a * b)) + part[2] * (a / (b * (a + b)))
        ends = [(first[1] - first[0]) / h[0], (last[0] - last[1]) / h[-1]]
        if edge_order == 2:
            ends = [_one_sided(first, h[0], h[1]), -1 * _one_sided(last, h[-1], h[-2])]
    return concatenate([ends[0], inner, ends[1]], place).astype(x.dtype)


def _one_sided(f: list[Any], a: Any, b: Any) -> Any:
    """The second-order difference at an end, the elements given inwards."""
    return f[0] * (-(2.0 * a + b) / (a * (a + b))) + f[1] * ((a + b) / (a * b)) + f[2] * (-a / (b * (a + b)))


@covers(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """numpy.interp, differentiable in x, xp and fp; at a knot the slope on its right is taken."""
    at, knots, heights = traced_array(x), traced_array(xp), traced_array(fp)
    if dtypes.is_complex(at.dtype) or dtypes.is_complex(knots.dtype):
        raise DtypeError(f"interp: complex places have no order: x is {at.type}, xp is {knots.type}")
    at, knots = at.astype(np.float64), knots.astype(np.float64)
    heights = heights.astype(np.complex128 if dtypes.is_complex(heights.dtype) else np.float64)
    if knots.ndim != 1 or heights.shape != knots.shape:
        raise ValueError("fp and xp are not of the same length.")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = abs(period)
        at, knots = at % period, knots % period
        order = argsort(knots)
        knots, heights = knots[order], heights[order]
        knots = concatenate([knots[-1:] - period, knots, knots[:1] + period], 0)
        heights = concatenate([heights[-1:], heights, heights[:1]], 0)
        left = right = None
    n = knots.shape[0]
    if n == 0:
        raise ValueError("array of sample points is empty")
    low = heights[0] if left is None else left
    high = heights[n - 1] if right is None else right
    made = _segments(at, knots, heights) if n > 1 else np.where(np.isnan(at), at, heights[0])
    made = np.where(at < knots[0], low, np.where(at > knots[n - 1], high, made))
    return made[()] if made.ndim == 0 else made


def _segments(at: Array, knots: Array, heights: Array) -> Any:
    """The lines between knots; one that infinite numbers leave unknown is read at a knot, or from its other end."""
    if dtypes.is_complex(heights.dtype):
        real, imag = [_segments(at, knots, part) for part in (heights.real, heights.imag)]
        return Array(make_complex(lift(real).value, lift(np.where(np.isnan(at), 0.0, imag)).value))
    i = np.clip(lift(searchsorted(knots, at, "right")) - 1, 0, knots.shape[0] - 2)
    (start, end), (first, second) = (knots[i], knots[i + 1]), (heights[i], heights[i + 1])
    flat = end == start
    slope = np.where(flat, 0.0, (second - first) / np.where(flat, 1.0, end - start))
    made, other = slope * (at - start) + first, slope * (at - end) + second
    level = np.isnan(other) & (first == second) & ~np.isnan(at)
    known = np.where(at == end, second, np.where((at == start) | level, first, other))
    return np.where(np.isnan(made), known, made)


def _cumulative(
    name: str, function: Any, unit: int, x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    a = traced_array(x)
    a = reshape(a, (1,)) if a.ndim == 0 else a
    if axis is None and a.ndim > 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    place = 0 if axis is None else axis_of(name, axis, a.ndim)
    made = function(a, place, dtype)
    if include_initial:
        edge = tuple([1 if i == place else n for i, n in enumerate(a.shape)])
        made = concatenate([np.full(edge, unit, made.dtype), made], place)
    return made


cumulative_sum = bound(np.cumulative_sum, "", _cumulative, "cumulative_sum", reductions.cumsum, 0)
cumulative_prod = bound(np.cumulative_prod, "", _cumulative, "cumulative_prod", reductions.cumprod, 1)


@covers(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 2 * math.pi) -> Any:
    """numpy.unwrap: whole periods are added where the step is too large; they do not change the derivative."""
    x = traced_array(p)
    place = axis_of("unwrap", axis, x.ndim)
    steps = diff(x, axis=place)
    kind = dtypes.promoted_dtype(steps.dtype, period)
    whole = kind.kind in "iu"
    high, rest = divmod(period, 2) if whole else (period / 2, 0)
    moved = (steps + high) % period - high
    if rest == 0:
        moved = np.where((moved == -high) & (steps > 0), high, moved)
    limit = period / 2 if discont is None else discont
    shift = np.where(np.abs(steps) < limit, 0, moved - steps)
    wide = x.astype(kind)
    inner = wide[_cut(place, 1, None)] + np.cumsum(shift, place)
    return concatenate([wide[_cut(place, None, 1)], inner], place).astype(kind)


def _sliding(a: Any, v: Any, mode: Any, turn: bool, name: str) -> Any:
    """The longer operand's windows times the shorter one, which `turn` reverses (and does not conjugate)."""
    x, y = [Array(w) for w in promoted(traced_array(a), traced_array(v))]
    if x.ndim > 1 or y.ndim > 1 or (not turn and not (x.ndim and y.ndim)):
        raise ShapeError(f"{name}: operands are 1-d, not {x.type} and {y.type}")
    x, y = reshape(x, (-1,)), reshape(y, (-1,))
    n, m = x.shape[0], y.shape[0]
    if n == 0 or m == 0:
        raise ValueError(f"{'a' if n == 0 else 'v'} cannot be empty")
    kind = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if kind not in ("valid", "same", "full"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    # Every place of a full result is padded for, whichever operand is longer, so that sizes may be symbolic.
    swapped = surely_above(m, n) if kind == "full" else n < m
    second = Array(conj(y.value)) if not turn and dtypes.is_complex(y.dtype) else y
    longer, shorter = (second, x) if swapped else (x, second)
    short = shorter.shape[0]
    before, after = {"full": (short - 1, short - 1), "same": (short // 2, (short - 1) // 2), "valid": (0, 0)}[kind]
    wide = pad(longer.value, before=(before,), after=(after,), interior=(0,))
    windows = window(wide, size=(short,), stride=(1,), dilation=(1,))
    sums = Array(products_summed(windows, (flip(shorter) if turn else shorter).value, spec="ij,j->i"))
    return flip(sums) if swapped and not turn else sums


@covers(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """numpy.convolve."""
    return _sliding(a, v, mode, True, "convolve")


@covers(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """numpy.correlate: the second operand is conjugated."""
    return _sliding(a, v, mode, False, "correlate")
