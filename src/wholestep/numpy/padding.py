"""numpy.pad in all its modes: each axis is extended at both ends, by gathered or computed elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.dims import Dim
from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import broadcast_to as broadcast_value, cast_to, lift
from wholestep.numpy.movement import broadcast_to, concatenate, traced_array
from wholestep.numpy.outside import np

Width = tuple[int, int]

OPTIONS = {
    "constant": {"constant_values"},
    "linear_ramp": {"end_values"},
    **{mode: {"stat_length"} for mode in ("maximum", "mean", "median", "minimum")},
    **{mode: {"reflect_type"} for mode in ("reflect", "symmetric")},
    **{mode: set() for mode in ("edge", "wrap", "empty")},
}


@covers(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """numpy.pad; mode "empty" gives zeros."""
    x = traced_array(array)
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    if mode not in OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    unknown = set(kwargs) - OPTIONS[mode]
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    for axis, width in enumerate(widths):
        if width != (0, 0):
            x = _extended(x, axis, width, mode, kwargs)
    return Array(x.value)


def _extended(x: Array, axis: int, width: Width, mode: str, options: dict[str, Any]) -> Array:
    """One axis padded."""
    size = x.shape[axis]
    if mode in ("reflect", "symmetric", "wrap", "edge") and size == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode in ("reflect", "symmetric") and options.get("reflect_type", "even") == "odd":
        return _odd(x, axis, width, mode)
    if mode in POSITIONS:
        # The ends alone are gathered: a gather of the whole axis would leave it strided for its readers.
        beyond = np.arange(-width[0], 0), size + np.arange(width[1])
        count = lift(size) if isinstance(size, Dim) else size
        ends = [x[(*[slice(None)] * axis, POSITIONS[mode](places, count))] for places in beyond]
    elif mode in ("constant", "empty"):
        first, last = _pair(options.get("constant_values", 0), axis, x.ndim)
        ends = [_constant_edge(x, axis, n, v) for n, v in zip(width, (first, last), strict=True)]
    elif mode == "linear_ramp":
        first, last = _pair(options.get("end_values", 0), axis, x.ndim)
        ends = [_ramp(x, axis, width[0], first, 0), _ramp(x, axis, width[1], last, 1)]
    else:
        lengths = _pair(options.get("stat_length"), axis, x.ndim)
        ends = [_statistic(x, axis, n, lengths[i], mode, i) for i, n in enumerate(width)]
    return concatenate([ends[0], x, ends[1]], axis)


def _reflect(i: Any, n: Any) -> Any:
    period = np.maximum(2 * n - 2, 1)
    j = i % period
    return np.where(j < n, j, period - j)


def _symmetric(i: Any, n: Any) -> Any:
    j = i % (2 * n)
    return np.where(j < n, j, 2 * n - 1 - j)


POSITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "reflect": _reflect,
    "symmetric": _symmetric,
}
"""The source index of each element beyond the ends of an axis."""


def _widths(given: Any, ndim: int) -> list[Width]:
    """(before, after) for each axis."""
    if isinstance(given, dict):
        pairs: list[Any] = [(0, 0)] * ndim
        for axis, width in given.items():
            pairs[axis] = (width, width) if isinstance(width, int) else tuple(width)
        given = pairs
    wide = np.asarray(given)
    if wide.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if wide.size and wide.min() < 0:
        raise ValueError("index can't contain negative values")
    return [(a, b) for a, b in np.broadcast_to(wide, (ndim, 2)).tolist()]


def _pair(given: Any, axis: int, ndim: int) -> tuple[Any, Any]:
    """The two numbers of an axis from an option that NumPy broadcasts to (ndim, 2)."""
    if given is None:
        return None, None
    if is_traced(given):
        wide = broadcast_to(lift(given), (ndim, 2))
        return wide[axis, 0], wide[axis, 1]
    plain = np.broadcast_to(np.asarray(given), (ndim, 2))
    return plain[axis, 0], plain[axis, 1]


def _sized(shape: tuple[Any, ...], axis: int, n: int) -> tuple[Any, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _constant_edge(x: Array, axis: int, n: int, number: Any) -> Array:
    return Array(broadcast_value(cast_to(lift(number).value, x.dtype), _sized(x.shape, axis, n)))


def _at_end(x: Array, axis: int, end: int, n: int = 1) -> Any:
    """The first or last n elements along an axis."""
    size = x.shape[axis]
    last = slice(None) if n == size else slice(-n, None) if n > 0 else slice(0, 0)
    return x[(*[slice(None)] * axis, slice(0, n) if end == 0 else last)]


def _ramp(x: Array, axis: int, n: int, target: Any, end: int) -> Array:
    """A straight line from the edge to the end value, which stands outermost."""
    edge = _at_end(x, axis, end)
    line = np.arange(n, dtype=np.float64) / max(n, 1)
    line = (line if end == 0 else line[::-1]).reshape(_sized((1,) * x.ndim, axis, n))
    made = lift(target) + (edge.astype(np.result_type(x.dtype, np.float64)) - target) * line
    if x.dtype.kind in "iu":
        made = np.floor(made)
    return made.astype(x.dtype)  # type: ignore[no-any-return]


def _statistic(x: Array, axis: int, n: int, length: Any, mode: str, end: int) -> Array:
    """The mean, median, maximum or minimum of the outer elements, repeated."""
    size = x.shape[axis]
    count = size if length is None else min(int(length), size)
    if count == 0 and mode in ("maximum", "minimum"):
        raise ShapeError(f"pad: stat_length of 0 yields no value for mode {mode!r}")
    chunk = _at_end(x, axis, end, count)
    found = {"mean": np.mean, "median": np.median, "maximum": np.max, "minimum": np.min}[mode]
    made = found(chunk, axis=axis, keepdims=True)
    if x.dtype.kind in "iu":
        made = np.rint(made)
    return broadcast_to(lift(made).astype(x.dtype), _sized(x.shape, axis, n))


def _odd(x: Array, axis: int, width: Width, mode: str) -> Array:
    """Reflected through the edge point: 2 * edge - reflection, as many times as the widths need."""
    size = x.shape[axis]
    skip = 1 if mode == "reflect" else 0
    left, right = width
    if size - skip == 0:
        return x[(*[slice(None)] * axis, np.clip(np.arange(-left, size + right), 0, size - 1))]  # type: ignore[no-any-return]
    while left > 0 or right > 0:
        now = x.shape[axis]
        a, b = min(left, now - skip), min(right, now - skip)
        head = (slice(None),) * axis
        before = 2 * _at_end(x, axis, 0) - x[(*head, slice(skip, skip + a))][(*head, slice(None, None, -1))]
        after = 2 * _at_end(x, axis, 1) - x[(*head, slice(now - skip - b, now - skip))][(*head, slice(None, None, -1))]
        x = concatenate([before, x, after], axis)
        left, right = left - a, right - b
    return x


def _by_function(x: Array, widths: list[Width], function: Any, options: dict[str, Any]) -> Array:
    """A function that writes the padding of each vector along each axis."""
    for axis, width in enumerate(widths):
        x = concatenate([_constant_edge(x, axis, width[0], 0), x, _constant_edge(x, axis, width[1], 0)], axis)
    padded = Array(x.value)
    for axis, width in enumerate(widths):
        moved = np.moveaxis(padded, axis, -1)
        for place in np.ndindex(*moved.shape[:-1]):
            function(moved[place], width, axis, options)
    return padded
