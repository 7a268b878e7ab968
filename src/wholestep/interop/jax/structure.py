"""Primitives of lax that make, move, join and cut arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.interop.handlers import Handlers

STRUCTURE = Handlers()
entry = STRUCTURE.entry

STRUCTURE.update(
    {
        "reshape": lambda x, *, new_sizes, dimensions=None, **params: wnp.reshape(
            x if dimensions is None else wnp.transpose(x, dimensions), tuple(new_sizes)
        ),
        "squeeze": lambda x, *, dimensions, **params: wnp.squeeze(x, axis=tuple(dimensions)),
        "transpose": lambda x, *, permutation, **params: wnp.transpose(x, tuple(permutation)),
        "rev": lambda x, *, dimensions, **params: wnp.flip(x, axis=tuple(dimensions)),
        "concatenate": lambda *xs, dimension, **params: wnp.concatenate(xs, axis=dimension),
        "stack": lambda *xs, axis, **params: wnp.stack(xs, axis=axis),
        "unstack": lambda x, *, axis, **params: list(wnp.unstack(x, axis=axis)),
        "tile": lambda x, *, reps, **params: wnp.tile(x, tuple(reps)),
        "split": lambda x, *, sizes, axis, **params: wnp.split(x, [int(n) for n in np.cumsum(sizes)[:-1]], axis=axis),
        "empty": lambda *, shape, dtype, **params: wnp.zeros(tuple(shape), dtypes.check(dtype)),
        "empty2": lambda *, dtype, **params: wnp.zeros((), dtypes.check(dtype)),
        "tie": lambda x, y, **params: y,
        "zeros_like": lambda x, **params: wnp.zeros_like(x),
    }
)


@entry("broadcast_in_dim")
def broadcast_in_dim(x: Any, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **params: Any) -> Any:
    sizes = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, wnp.shape(x), strict=True):
        sizes[axis] = size
    return wnp.broadcast_to(wnp.reshape(x, tuple(sizes)), tuple(shape))


@entry("iota")
def iota(*, dtype: Any, shape: Sequence[int], dimension: int, **params: Any) -> Any:
    sizes = [shape[dimension] if i == dimension else 1 for i in range(len(shape))]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtypes.check(dtype)).reshape(sizes), tuple(shape))


@entry("iota_2x32_shape")
def iota_2x32_shape(*, shape: Sequence[int], **params: Any) -> list[Any]:
    order = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(tuple(shape))
    return [(order >> np.uint64(32)).astype(np.uint32), order.astype(np.uint32)]


@entry("slice")
def sliced(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any = None, **params: Any) -> Any:
    steps = strides or [1] * x.ndim
    return x[tuple(slice(a, b, s) for a, b, s in zip(start_indices, limit_indices, steps, strict=True))]


@entry("pad")
def pad(x: Any, value: Any, *, padding_config: Sequence[tuple[int, int, int]], **params: Any) -> Any:
    return padded(x, value, padding_config)


def padded(x: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """x with a value before, after and between its elements; where before or after is negative, with less of it."""
    for axis, (_, _, between) in enumerate(config):
        if between and x.shape[axis] > 1:
            x = spread(x, value, axis, between)
    around = [(max(a, 0), max(b, 0)) for a, b, _ in config]
    if any(a or b for a, b in around):
        x = wnp.pad(x, around, constant_values=value)
    cuts = [slice(max(-a, 0), n - max(-b, 0)) for n, (a, b, _) in zip(x.shape, config, strict=True)]
    return x[tuple(cuts)] if any(a < 0 or b < 0 for a, b, _ in config) else x


def spread(x: Any, value: Any, axis: int, between: int) -> Any:
    """x with `between` copies of a value between neighbors along an axis."""
    n = x.shape[axis]
    wide = wnp.expand_dims(x, axis + 1)
    widths = [(0, between if i == axis + 1 else 0) for i in range(wide.ndim)]
    made = wnp.pad(wide, widths, constant_values=value)
    joined = made.reshape(*x.shape[:axis], n * (between + 1), *x.shape[axis + 1 :])
    return joined[(*[slice(None)] * axis, slice(n * (between + 1) - between))]


def starts_within(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Starts of a slice, clipped so that the slice is inside x; None for an axis that is taken whole."""
    return [
        None if size == n else wnp.clip(start, 0, n - size).astype(np.int64)
        for n, start, size in zip(x.shape, starts, sizes, strict=True)
    ]


@entry("dynamic_slice")
def dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int], **params: Any) -> Any:
    for axis, start in enumerate(starts_within(x, starts[: x.ndim], slice_sizes)):
        if start is not None:
            x = wnp.take(x, start + np.arange(slice_sizes[axis]), axis=axis)
    return x


@entry("dynamic_update_slice")
def dynamic_update_slice(x: Any, update: Any, *starts: Any, **params: Any) -> Any:
    within = starts_within(x, starts, update.shape)
    cut = [axis for axis, start in enumerate(within) if start is not None]
    made = wnp.array(x)
    if not cut:
        return wnp.broadcast_to(update, x.shape)
    index: list[Any] = [slice(None)] * x.ndim
    for place, axis in enumerate(cut):
        shape = [-1 if i == place else 1 for i in range(len(cut))]
        index[axis] = (within[axis] + np.arange(update.shape[axis])).reshape(shape)
    order = [*cut, *[i for i in range(x.ndim) if i not in cut]]
    turned = wnp.array(wnp.transpose(made, order))
    turned[tuple(index[i] for i in cut)] = wnp.transpose(update, order)
    return wnp.transpose(turned, tuple(int(i) for i in np.argsort(order)))
