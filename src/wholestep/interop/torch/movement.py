"""Operators of PyTorch that make arrays, and that move their elements without looking at them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import FLOAT, PLAIN, cast, promote

MOVEMENT = Handlers()
entry = MOVEMENT.entry
OPEN = 1 << 62
"""The smallest end of a slice that means the end of the axis."""


def axes_of(x: Any, axes: Any) -> tuple[int, ...]:
    """Axes from an integer or several, none of which may be missing."""
    return tuple(axis % max(x.ndim, 1) for axis in (axes if isinstance(axes, Sequence) else [axes]))


def along(x: Any, axis: int, index: Any) -> tuple[Any, ...]:
    """An index that means all of x but along one axis."""
    return (*[slice(None)] * (axis % x.ndim), index)


MOVEMENT.update(
    {
        "view": lambda x, shape: wnp.reshape(x, tuple(shape)),
        "reshape": lambda x, shape: wnp.reshape(x, tuple(shape)),
        "_unsafe_view": lambda x, shape: wnp.reshape(x, tuple(shape)),
        "permute": lambda x, axes: wnp.transpose(x, tuple(axes)),
        "transpose": lambda x, a, b: wnp.swapaxes(x, a, b) if wnp.ndim(x) else x,
        "t": lambda x: wnp.transpose(x),
        "unsqueeze": lambda x, axis: wnp.expand_dims(x, axis),
        "cat": lambda xs, axis=0: concatenated(xs, axis),
        "stack": lambda xs, axis=0: wnp.stack(xs, axis=axis),
        "flip": lambda x, axes: wnp.flip(x, axis=tuple(axes)),
        "select": lambda x, axis, index: x[along(x, axis, index)],
        "unbind": lambda x, axis=0: list(wnp.unstack(x, axis=axis)),
        "diagonal": lambda x, offset=0, a=0, b=1: wnp.diagonal(x, offset, a, b),
        "tril": lambda x, k=0: wnp.tril(x, k),
        "triu": lambda x, k=0: wnp.triu(x, k),
        "scalar_tensor": lambda value, **options: created(value, options),
        "full": lambda shape, value, **options: wnp.broadcast_to(created(value, options), tuple(shape)),
        "ones": lambda shape, **options: wnp.ones(tuple(shape), options.get("dtype") or FLOAT),
        "zeros": lambda shape, **options: wnp.zeros(tuple(shape), options.get("dtype") or FLOAT),
        "empty": lambda shape, **options: wnp.zeros(tuple(shape), options.get("dtype") or FLOAT),
        "empty_permuted": lambda shape, order, **options: wnp.zeros(tuple(shape), options.get("dtype") or FLOAT),
        "empty_strided": lambda shape, strides, **options: wnp.zeros(tuple(shape), options.get("dtype") or FLOAT),
        "full_like": lambda x, value, **options: filled_like(x, value, options),
        "zeros_like": lambda x, **options: filled_like(x, 0, options),
        "ones_like": lambda x, **options: filled_like(x, 1, options),
        "empty_like": lambda x, **options: filled_like(x, 0, options),
        "new_zeros": lambda x, shape, **options: wnp.zeros(tuple(shape), options.get("dtype") or x.dtype),
        "new_ones": lambda x, shape, **options: wnp.ones(tuple(shape), options.get("dtype") or x.dtype),
        "new_empty": lambda x, shape, **options: wnp.zeros(tuple(shape), options.get("dtype") or x.dtype),
        "new_full": lambda x, shape, value, **options: wnp.full(
            tuple(shape), cast(value, options.get("dtype") or x.dtype)
        ),
        "fill": lambda x, value: filled_like(x, value, {}),
        "eye": lambda n, m=None, **options: wnp.eye(n, m, dtype=options.get("dtype") or FLOAT),
        "tril_indices": lambda n, m, offset=0, **options: np.stack(np.tril_indices(n, offset, m)),
        "triu_indices": lambda n, m, offset=0, **options: np.stack(np.triu_indices(n, offset, m)),
    }
)


def created(value: Any, options: dict[str, Any]) -> Any:
    """A number as an array without axes, in the dtype that is asked for, or its own."""
    return cast(value, options.get("dtype") or PLAIN.get(type(value)) or wnp.asarray(value).dtype)


def filled_like(x: Any, value: Any, options: dict[str, Any]) -> Any:
    """An array of the shape of x, all of one value."""
    return wnp.broadcast_to(cast(value, options.get("dtype") or x.dtype), x.shape)


def concatenated(xs: Sequence[Any], axis: int) -> Any:
    """Arrays one after another, without arrays of shape [0], which PyTorch accepts beside any shape."""
    kept = [x for x in xs if x.shape != (0,)] or list(xs[:1])
    dtype = functools.reduce(promote, [x.dtype for x in xs])
    return wnp.concatenate([cast(x, dtype) for x in kept], axis=axis)


@entry("expand")
def expand(x: Any, shape: Sequence[Any], *, implicit: bool = False) -> Any:
    new = len(shape) - x.ndim
    sizes = [x.shape[i - new] if isinstance(d, int) and d == -1 else d for i, d in enumerate(shape)]
    return wnp.broadcast_to(x, tuple(sizes))


@entry("squeeze")
def squeeze(x: Any, axes: Any = None) -> Any:
    chosen = range(x.ndim) if axes is None else axes_of(x, axes) if x.ndim else ()
    return wnp.squeeze(x, axis=tuple(i for i in chosen if isinstance(x.shape[i], int) and x.shape[i] == 1))


@entry("flatten")
def flatten(x: Any, first: int = 0, last: int = -1) -> Any:
    first, last = (first % x.ndim, last % x.ndim) if x.ndim else (0, -1)
    return wnp.reshape(x, (*x.shape[:first], -1, *x.shape[last + 1 :]))


@entry("slice")
def sliced(x: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[along(x, axis, slice(start, ending(end), step))]


def ending(end: Any) -> Any:
    """The end of a slice; None for an end beyond every axis."""
    return None if isinstance(end, int) and end >= OPEN else end


@entry("slice_scatter")
def slice_scatter(x: Any, source: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    made = wnp.array(x)
    made[along(x, axis, slice(start, ending(end), step))] = source
    return made


@entry("select_scatter")
def select_scatter(x: Any, source: Any, axis: int, index: Any) -> Any:
    made = wnp.array(x)
    made[along(x, axis, index)] = source
    return made


@entry("diagonal_scatter")
def diagonal_scatter(x: Any, source: Any, offset: int = 0, a: int = 0, b: int = 1) -> Any:
    made = wnp.array(wnp.moveaxis(x, (a, b), (-2, -1)))
    rows = np.arange(source.shape[-1]) + max(-offset, 0)
    made[..., rows, rows + offset] = source
    return wnp.moveaxis(made, (-2, -1), (a, b))


@entry("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(x: Any, sizes: Sequence[Any], axis: int = 0) -> list[Any]:
    made, start = [], 0
    for size in sizes:
        made.append(x[along(x, axis, slice(start, start + size))])
        start = start + size
    return made


@entry("split", "split_copy")
def split(x: Any, size: Any, axis: int = 0) -> list[Any]:
    if isinstance(size, Sequence):
        return split_with_sizes(x, size, axis)
    length = x.shape[axis]
    return [x[along(x, axis, slice(i, min(i + size, length)))] for i in range(0, max(length, 1), size or 1)]


@entry("chunk")
def chunk(x: Any, count: int, axis: int = 0) -> list[Any]:
    return split(x, max(-(-x.shape[axis] // count), 1), axis)


@entry("repeat")
def repeat(x: Any, counts: Sequence[Any]) -> Any:
    return wnp.tile(x, tuple(counts))


@entry("repeat_interleave")
def repeat_interleave(x: Any, counts: Any, axis: int | None = None, *, output_size: Any = None) -> Any:
    return wnp.repeat(x, counts, axis=axis)


@entry("roll")
def roll(x: Any, shifts: Sequence[int], axes: Sequence[int] = ()) -> Any:
    return wnp.roll(x, tuple(shifts), axis=tuple(axes)) if axes else wnp.roll(x, shifts[0])


@entry("movedim")
def movedim(x: Any, source: Any, target: Any) -> Any:
    return wnp.moveaxis(x, source, target)


@entry("arange")
def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, **where: Any) -> Any:
    first, last = (0, start) if end is None else (start, end)
    kind = np.dtype(np.int64) if all(not isinstance(x, float) for x in (first, last, step)) else FLOAT
    return wnp.arange(first, last, step, dtype=dtype or kind)


@entry("linspace")
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, **where: Any) -> Any:
    return wnp.linspace(start, end, steps, dtype=dtype or FLOAT)


@entry("constant_pad_nd", "pad")
def constant_pad_nd(x: Any, widths: Sequence[int], value: Any = 0) -> Any:
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    lead = x.ndim - len(pairs)
    cut = x[
        (
            *[slice(None)] * lead,
            *[slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape[lead:], pairs, strict=True)],
        )
    ]
    around = [(0, 0)] * lead + [(max(a, 0), max(b, 0)) for a, b in pairs]
    return wnp.pad(cut, around, constant_values=cast(value, x.dtype))


@entry("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(x: Any, widths: Sequence[int]) -> Any:
    return wnp.pad(x, pad_pairs(x, widths), mode="reflect")


@entry("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(x: Any, widths: Sequence[int]) -> Any:
    return wnp.pad(x, pad_pairs(x, widths), mode="edge")


def pad_pairs(x: Any, widths: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of widths before and after each axis, from PyTorch's list that begins with the last axis."""
    pairs = [(a, b) for a, b in zip(widths[::2], widths[1::2], strict=True)][::-1]
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs


@entry("pixel_shuffle")
def pixel_shuffle(x: Any, factor: int) -> Any:
    *lead, c, h, w = x.shape
    cut = x.reshape(*lead, c // factor**2, factor, factor, h, w)
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return wnp.transpose(cut, order).reshape(*lead, c // factor**2, h * factor, w * factor)


@entry("pixel_unshuffle")
def pixel_unshuffle(x: Any, factor: int) -> Any:
    *lead, c, h, w = x.shape
    cut = x.reshape(*lead, c, h // factor, factor, w // factor, factor)
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return wnp.transpose(cut, order).reshape(*lead, c * factor**2, h // factor, w // factor)


@entry("channel_shuffle")
def channel_shuffle(x: Any, groups: int) -> Any:
    cut = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return wnp.swapaxes(cut, 1, 2).reshape(x.shape)


@entry("unfold")
def unfold(x: Any, axis: int, size: int, step: int) -> Any:
    places = np.arange(0, x.shape[axis] - size + 1, step)[:, None] + np.arange(size)
    taken = x[along(x, axis, places)]
    return wnp.moveaxis(taken, axis % x.ndim + 1, -1)


@entry("as_strided", "as_strided_copy")
def as_strided(x: Any, size: Any, stride: Any, offset: int | None = None, *, held: Any = None) -> Any:
    """Elements by their places in memory, where those of x lie by the strides `held`, or in NumPy's order."""
    flat = wnp.transpose(x, memory_order(x, held)).reshape(-1)
    places = strided_places(flat.shape[0], size, stride, offset)
    whole = np.array_equal(places.reshape(-1), np.arange(flat.shape[0]))
    return flat.reshape(tuple(size)) if whole else flat[places]


@entry("as_strided_scatter")
def as_strided_scatter(x: Any, new: Any, size: Any, stride: Any, offset: int | None = None, *, held: Any = None) -> Any:
    """x with other elements at the places that `as_strided` reads."""
    order = memory_order(x, held)
    turned = wnp.transpose(x, order)
    flat = wnp.array(turned.reshape(-1))
    flat[strided_places(flat.shape[0], size, stride, offset)] = new
    return wnp.transpose(flat.reshape(turned.shape), np.argsort(order))


def memory_order(x: Any, held: Any) -> tuple[int, ...]:
    """The axes of x in the order in which they lie in memory; raises UnsupportedError for one with gaps."""
    apart = [i for i, n in enumerate(x.shape) if n > 1]
    order = sorted(apart, key=lambda i: -held[i]) if held is not None else apart
    dense = [math.prod(x.shape[i] for i in order[k + 1 :]) for k in range(len(order))]
    if held is not None and [held[i] for i in order] != dense:
        raise UnsupportedError("from_torch_export: as_strided of an array with gaps between its elements")
    return (*order, *[i for i in range(x.ndim) if i not in order])


def strided_places(count: int, size: Any, stride: Any, offset: int | None) -> Any:
    """The places among so many elements of memory that strides read; raises UnsupportedError for others."""
    places = np.full(tuple(size), offset or 0)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += step * np.arange(n).reshape([-1 if i == axis else 1 for i in range(len(size))])
    if places.max(initial=0) >= max(count, 1):
        raise UnsupportedError("from_torch_export: as_strided reads what lies around an array")
    return places


@entry("numel", "sym_numel")
def numel(x: Any) -> Any:
    return math.prod(x.shape)


def window(n: int, periodic: bool, f: Callable[[int], Any], options: Mapping[str, Any]) -> Any:
    """A window function of NumPy, which is symmetric, or a period of it; one element is 1."""
    made = np.ones(n) if n == 1 else f(n + 1)[:-1] if periodic else f(n)
    return wnp.asarray(made.astype(options.get("dtype") or FLOAT))


MOVEMENT.update(
    {
        "hann_window": lambda n, periodic=True, **options: window(n, periodic, np.hanning, options),
        "blackman_window": lambda n, periodic=True, **options: window(n, periodic, np.blackman, options),
        "bartlett_window": lambda n, periodic=True, **options: window(n, periodic, np.bartlett, options),
        "kaiser_window": lambda n, periodic=True, beta=12.0, **options: window(
            n, periodic, lambda m: np.kaiser(m, beta), options
        ),
        "hamming_window": lambda n, periodic=True, a=0.54, b=0.46, **options: window(
            n, periodic, lambda m: a - b * np.cos(2 * np.pi * np.arange(m) / (m - 1)), options
        ),
    }
)
