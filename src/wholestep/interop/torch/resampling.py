"""Operators of PyTorch on windows and places of images: pools, resampling, and sums over overlapping patches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import nn, numpy as wnp
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.grids import cubic, sampled
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.contractions import filled
from wholestep.interop.torch.promotion import cast
from wholestep.nn.pooling import placed
from wholestep.nn.windows import pad_axes, windows

RESAMPLING = Handlers()
entry = RESAMPLING.entry
MAX_POOLS = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
AVG_POOLS = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}


def batched(f: Callable[..., Any], n: int, x: Any) -> Any:
    """A function of [n, channels, ...] for an array that may lack the first axis."""
    return f(x) if x.ndim == n + 2 else f(x[None])[0]


def max_pool(n: int) -> Callable[..., Any]:
    """The handler of maxima of windows over n axes."""

    def pooled(
        x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Any:
        options: dict[str, Any] = {"dilation": filled(dilation, n), "ceil_mode": ceil_mode}
        return batched(lambda a: MAX_POOLS[n](a, *pool_window(n, size, stride, padding), **options), n, x)

    return pooled


def max_pool_with_indices(n: int) -> Callable[..., Any]:
    """The handler of maxima of windows and of where each stands, counted over the last n axes."""

    def pooled(
        x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> tuple[Any, Any]:
        options: dict[str, Any] = {"dilation": filled(dilation, n), "ceil_mode": ceil_mode, "return_indices": True}
        whole = x if x.ndim == n + 2 else x[None]
        largest, places = MAX_POOLS[n](whole, *pool_window(n, size, stride, padding), **options)
        return (largest, places) if whole is x else (largest[0], places[0])

    return pooled


def pool_window(n: int, size: Any, stride: Any, padding: Any) -> tuple[Any, Any, Any]:
    """The size, the stride, which is the size where it is not given, and the padding of windows over n axes."""
    sizes = filled(size, n)
    return sizes, filled(stride, n) if stride else sizes, filled(padding, n)


def avg_pool(n: int) -> Callable[..., Any]:
    """The handler of means of windows over n axes."""

    def pooled(
        x: Any,
        size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        window = pool_window(n, size, stride, padding)
        if divisor_override is None:
            options = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
            return batched(lambda a: AVG_POOLS[n](a, *window, **options), n, x)

        def total(a: Any) -> Any:
            at = placed("avg_pool", n, a, *window, ceil_mode)
            return wnp.sum(windows(pad_axes(a, at.around, 0.0), at), axis=tuple(range(-n, 0)))

        return batched(total, n, x) / np.asarray(divisor_override, x.dtype)

    return pooled


for axes in (1, 2, 3):
    RESAMPLING.update(
        {
            f"max_pool{axes}d": max_pool(axes),
            f"max_pool{axes}d_with_indices": max_pool_with_indices(axes),
            f"avg_pool{axes}d": avg_pool(axes),
        }
    )


@entry(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"
)
def adaptive_avg_pool(x: Any, size: Sequence[int]) -> Any:
    return batched(lambda a: nn.adaptive_avg_pool(a, tuple(size)), len(size), x)


@entry("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(x: Any, size: Sequence[int], places: Sequence[int], draws: Any) -> tuple[Any, Any]:
    """Maxima of windows whose steps are drawn, and where each stands, counted over the last axes."""
    n = len(size)
    whole = x if x.ndim == n + 2 else x[None]
    turns = draws[..., ::-1] if n == 2 else draws  # in two dimensions the columns take the first draw
    at: list[Any] = []
    flat: Any = 0
    for i in range(n):
        begin = starts(turns[..., i], whole.shape[i + 2], size[i], places[i])
        found = begin[..., None] + np.arange(size[i])
        at.append(
            found.reshape(*found.shape[:2], *[m for k in range(n) for m in (found.shape[2:] if k == i else (1, 1))])
        )
        flat = flat * whole.shape[i + 2] + at[-1]
    lead = np.ix_(*[np.arange(m) for m in whole.shape[:2]])
    seen = whole[(*[a.reshape(*a.shape, *[1] * (2 * n)) for a in lead], *at)]
    order = (0, 1, *range(2, 2 * n + 2, 2), *range(3, 2 * n + 2, 2))  # a place and an offset of each axis alternate
    lines, spots = (
        wnp.transpose(wnp.broadcast_to(a, seen.shape), order).reshape(*seen.shape[:2], *places, -1)
        for a in (seen, flat)
    )
    first = wnp.argmax(stop_gradient(lines), axis=-1)[..., None]
    largest, index = (wnp.take_along_axis(a, first, axis=-1)[..., 0] for a in (lines, spots))
    return (largest, index) if whole is x else (largest[0], index[0])


def starts(draw: Any, length: int, size: int, places: int) -> Any:
    """The first elements of the windows along an axis: about equally far apart, shifted by a draw, one at the end."""
    last = wnp.full((*draw.shape, 1), length - size, np.int64)
    if places == 1:
        return last
    step = cast((length - size) / (places - 1), draw.dtype)
    draw = draw[..., None]
    before = wnp.trunc((draw + np.arange(places - 1, dtype=draw.dtype)) * step) - wnp.trunc(draw * step)
    return wnp.concatenate([before.astype(np.int64), last], axis=-1)


@entry("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(x: Any, size: Sequence[int]) -> tuple[Any, None]:
    return batched(lambda a: nn.adaptive_max_pool(a, tuple(size)), len(size), x), None


def sizes_of(x: Any, size: Any, scales: Any) -> tuple[list[int], list[float]]:
    """The new lengths of the axes after the first two, and the distance of new elements in old ones."""
    lengths = x.shape[2:]
    made = [int(n * s) for n, s in zip(lengths, scales, strict=True)] if size is None else [int(n) for n in size]
    given = [None] * len(made) if scales is None else list(scales)
    return made, [1 / s if s else n / m for s, n, m in zip(given, lengths, made, strict=True)]


def resampled(x: Any, axis: int, weights: Any) -> Any:
    """One axis of x as sums by a matrix of weights [old, new]."""
    return wnp.moveaxis(wnp.moveaxis(x, axis, -1) @ weights.astype(x.dtype), -1, axis)


def linear_weights(length: int, new: int, step: float, corners: bool) -> Any:
    """The weights of linear interpolation, two for each new element."""
    step = (length - 1) / max(new - 1, 1) if corners else step
    places = np.arange(new) * step if corners else np.maximum((np.arange(new) + 0.5) * step - 0.5, 0)
    low = np.minimum(places.astype(np.int64), length - 1)
    weights = np.zeros((length, new))
    np.add.at(weights, (low, np.arange(new)), 1 - (places - low))
    np.add.at(weights, (np.minimum(low + 1, length - 1), np.arange(new)), places - low)
    return weights


@entry("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(x: Any, size: Any, corners: bool, *scales: Any) -> Any:
    made, steps = sizes_of(x, size, scales_of(scales))
    if not corners and all(n / m == s for n, m, s in zip(x.shape[2:], made, steps, strict=True)):
        return nn.upsample(x, size=made, mode=("linear", "bilinear", "trilinear")[len(made) - 1])
    for axis, (new, step) in enumerate(zip(made, steps, strict=True), 2):
        x = resampled(x, axis, linear_weights(x.shape[axis], new, step, corners))
    return x


@entry("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(x: Any, size: Any, *scales: Any) -> Any:
    for axis, (new, step) in enumerate(zip(*sizes_of(x, size, scales_of(scales)), strict=True), 2):
        if new % x.shape[axis] == 0 and step == x.shape[axis] / new:
            x = wnp.repeat(x, new // x.shape[axis], axis=axis)
        else:
            places = np.minimum((np.arange(new) * np.float32(step)).astype(np.int64), x.shape[axis] - 1)
            x = wnp.take(x, places, axis=axis)
    return x


def scales_of(given: Sequence[Any]) -> Any:
    """Scales from the two ways of PyTorch: one list of them, or one argument each."""
    found = list(given[0]) if len(given) == 1 and isinstance(given[0], Sequence) else list(given)
    return found if any(s is not None for s in found) else None


@entry("upsample_bicubic2d")
def upsample_bicubic(x: Any, size: Any, corners: bool, *scales: Any) -> Any:
    made, steps = sizes_of(x, size, scales_of(scales))
    for axis, (new, step) in enumerate(zip(made, steps, strict=True), 2):
        length = x.shape[axis]
        step = (length - 1) / max(new - 1, 1) if corners else step
        places = np.arange(new) * step if corners else (np.arange(new) + 0.5) * step - 0.5
        weights, low = np.zeros((length, new)), np.floor(places).astype(np.int64)
        for k in range(-1, 3):
            at = np.clip(low + k, 0, length - 1)
            np.add.at(weights, (at, np.arange(new)), cubic(places - low - k))
        x = resampled(x, axis, weights)
    return x


def triangle(distance: Any) -> Any:
    """The kernel of linear interpolation."""
    return np.maximum(1 - np.abs(distance), 0)


def antialiased(kernel: Callable[[Any], Any]) -> Callable[..., Any]:
    """The handler of images made smaller by a kernel as wide as the distance of new elements, cut off at the ends."""

    def resized(x: Any, size: Any, corners: bool, *scales: Any) -> Any:
        made, steps = sizes_of(x, size, scales_of(scales))
        for axis, (new, step) in enumerate(zip(made, steps, strict=True), 2):
            length = x.shape[axis]
            step = ((length - 1) / (new - 1) if new > 1 else 0.0) if corners else step
            middles = step * (np.arange(new) + 0.5) - 0.5
            weights = kernel((np.arange(length)[:, None] - middles) / max(step, 1.0))
            x = resampled(x, axis, weights / weights.sum(axis=0))
        return x

    return resized


RESAMPLING.update(
    {"_upsample_bilinear2d_aa": antialiased(triangle), "_upsample_bicubic2d_aa": antialiased(lambda d: cubic(d, -0.5))}
)


@entry("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def grid_sampler(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    return sampled(x, grid, ("linear", "nearest", "cubic")[mode], ("zeros", "border", "reflection")[padding], corners)


def patches(lengths: Sequence[int], size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Any, Any]:
    """Rows and columns of the padded image that each patch takes: [i, j, patches] each."""
    found = []
    for length, m, d, p, s in zip(lengths, size, dilation, padding, stride, strict=True):
        starts = np.arange(0, length + 2 * p - d * (m - 1), s)
        found.append(starts[None, :] + d * np.arange(m)[:, None])
    rows, columns = found
    shape = (rows.shape[0], columns.shape[0], rows.shape[1], columns.shape[1])
    r = np.broadcast_to(rows[:, None, :, None], shape).reshape(*shape[:2], -1)
    return r, np.broadcast_to(columns[None, :, None, :], shape).reshape(*shape[:2], -1)


@entry("im2col")
def im2col(x: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if x.ndim == 3:
        return im2col(x[None], size, dilation, padding, stride)[0]
    rows, columns = patches(x.shape[2:], size, dilation, padding, stride)
    wide = pad_axes(x, ((padding[0],) * 2, (padding[1],) * 2))
    return wide[:, :, rows, columns].reshape(x.shape[0], x.shape[1] * math.prod(size), rows.shape[-1])


@entry("col2im")
def col2im(x: Any, lengths: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if x.ndim == 2:
        return col2im(x[None], lengths, size, dilation, padding, stride)[0]
    rows, columns = patches(lengths, size, dilation, padding, stride)
    channels = x.shape[1] // math.prod(size)
    h, w = [n + 2 * p for n, p in zip(lengths, padding, strict=True)]
    made = wnp.array(wnp.zeros((x.shape[0], channels, h, w), x.dtype))
    add_at: Any = np.add.at
    add_at(made, (slice(None), slice(None), rows, columns), x.reshape(x.shape[0], channels, *rows.shape))
    return made[:, :, padding[0] : h - padding[0], padding[1] : w - padding[1]]
