"""Resampling: images made larger or smaller by repetition or interpolation, and channels turned into pixels."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single
from wholestep.nn.windows import Ints, per_axis, rank_is, type_text

MODES = {
    **dict.fromkeys(("nearest", "area", "lanczos3", "lanczos5")),
    **{"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2},
}
"""The modes of upsampling, and over how many axes each goes."""

CUBIC = -0.75
"""The parameter of cubic convolution, which makes the slope at an element."""

MOST_PHASES = 8
"""The largest integer factor by which an axis is interpolated phase by phase."""


def upsample(
    x: Any, scale: float | Sequence[float] | None = None, *, size: Ints | None = None, mode: str = "nearest"
) -> NDArray:
    """Resample the axes after the first two, by a scale or to a size.

    The `mode` "nearest" takes element floor(i / scale), "linear", "bilinear" and "trilinear" interpolate between the
    centres of elements over one, two or three axes, "bicubic" by cubic convolution with a = -0.75, as PyTorch does with
    align_corners=False; "area" is the mean of the elements that a new one covers. "lanczos3" and "lanczos5" weigh the
    elements up to three and five away by sinc(d) sinc(d / 3) and sinc(d) sinc(d / 5), as JAX does; when an axis becomes
    shorter, d is the distance in new elements. `scale` and `size` are one number or one for each axis.

    Shapes: x [n, c, ...]; [n, c, ...], interpolated in the dtype of x.
    Raises: ParameterError for both or none of scale and size, or for invalid numbers, ShapeError where the mode does
    not fit x.
    Source: PyTorch's interpolate; Keys, "Cubic convolution interpolation for digital image processing", 1981; Duchon,
    "Lanczos filtering in one and two dimensions", 1979, and jax.image.resize.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.upsample(np.array([[[1.0, 3.0]]]), 2).tolist()
    [[[1.0, 1.0, 3.0, 3.0]]]
    >>> ws.nn.upsample(np.array([[[1.0, 3.0]]]), 2, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    a = wnp.asarray(x)
    if mode not in MODES:
        raise ParameterError(f"upsample: mode is {mode!r}", hint=f"{', '.join(MODES)} are known")
    if a.ndim < 3 or MODES[mode] not in (None, a.ndim - 2) or 0 in a.shape[2:]:
        raise ShapeError(f"upsample: {mode} does not fit x {type_text(a)}", hint="x is [n, channels, ...]")
    sizes, steps = targets(a.shape[2:], scale, size)
    for axis, (length, step) in enumerate(zip(sizes, steps, strict=True), 2):
        kind: Callable[..., Any] = KINDS.get(mode, interpolated)
        a = kind(a, axis, length, step)
    return a


def targets(lengths: Sequence[int], scale: Any, size: Any) -> tuple[list[int], list[float]]:
    """The new lengths, and the distances of neighboring new elements in old elements."""
    n = len(lengths)
    if (scale is None) == (size is None):
        raise ParameterError("upsample: give one of scale and size")
    if size is not None:
        sizes = list(per_axis("upsample", "size", size, n))
        return sizes, [length / m for length, m in zip(lengths, sizes, strict=True)]
    scales = [float(s) for s in (scale if isinstance(scale, Sequence) else [scale] * n)]
    if len(scales) != n or not all(0 < s < np.inf for s in scales):
        raise ParameterError(f"upsample: scale is {scale!r}; it must be {n} positive numbers, or one")
    sizes = [int(length * s) for length, s in zip(lengths, scales, strict=True)]
    if 0 in sizes:
        raise ParameterError(f"upsample: scale {scale!r} leaves nothing of {tuple(lengths)}")
    return sizes, [1 / s for s in scales]


def nearest(x: Any, axis: int, length: int, step: float) -> Any:
    """One axis by the nearest element, repeated where the scale is an integer."""
    if length % x.shape[axis] == 0 and step == x.shape[axis] / length:
        return wnp.repeat(x, length // x.shape[axis], axis=axis)
    places = np.minimum(np.floor(np.arange(length) * step).astype(np.int64), x.shape[axis] - 1)
    return wnp.take(x, places, axis=axis)


def interpolated(x: Any, axis: int, length: int, step: float) -> Any:
    """One axis by interpolation between centres; between whole scales a product with a matrix of two weights a row."""
    factor = length // x.shape[axis]
    if factor * x.shape[axis] == length and step == x.shape[axis] / length and factor <= MOST_PHASES:
        return in_single(lambda a: in_phases(a, axis, factor), x)
    places = np.maximum((np.arange(length) + 0.5) * step - 0.5, 0)
    low = np.minimum(places.astype(np.int64), x.shape[axis] - 1)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    return mix_elements(x, axis, [(low, 1 - (places - low)), (high, places - low)])


def mix_elements(x: Any, axis: int, parts: Sequence[tuple[Any, Any]]) -> Any:
    """One axis whose new elements are sums of old ones: in each part an index and a weight for each new element."""
    length = len(parts[0][0])
    weights = np.zeros((x.shape[axis], length))
    for places, shares in parts:
        np.add.at(weights, (places, np.arange(length)), shares)
    return times_weights(x, axis, weights)


def times_weights(x: Any, axis: int, weights: Any) -> Any:
    """One axis times a matrix [old, new]."""

    def of(a: Any) -> Any:
        made = wnp.matmul(wnp.moveaxis(a, axis, -1), weights.astype(a.dtype))
        return wnp.moveaxis(made, -1, axis)

    return in_single(of, x)


def cubic(x: Any, axis: int, length: int, step: float) -> Any:
    """One axis by cubic convolution of the four elements around each place; edge elements are repeated beyond it."""
    places = (np.arange(length) + 0.5) * step - 0.5
    low = np.floor(places).astype(np.int64)
    parts = []
    for tap in (-1, 0, 1, 2):
        at = np.clip(low + tap, 0, x.shape[axis] - 1)
        parts.append((at, cubic_weight(np.abs(places - low - tap))))
    return mix_elements(x, axis, parts)


def cubic_weight(distance: Any) -> Any:
    """The weight of an element at a distance of at most 2."""
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = CUBIC * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, far)


def area(x: Any, axis: int, length: int, step: float) -> Any:
    """One axis by the mean of the elements that each new one covers, as adaptive pooling cuts it."""
    count = x.shape[axis]
    first = np.arange(length) * count // length
    end = -(-(np.arange(1, length + 1) * count) // length)
    parts = []
    for tap in range(int(np.max(end - first))):
        inside = first + tap < end
        parts.append((np.minimum(first + tap, count - 1), inside / (end - first)))
    return mix_elements(x, axis, parts)


def lanczos(x: Any, axis: int, length: int, step: float, *, taps: int) -> Any:
    """One axis by a sinc windowed by the main lobe of a wider sinc, stretched if the axis becomes shorter."""
    places = (np.arange(length) + 0.5) * step - 0.5
    distance = np.abs(places - np.arange(x.shape[axis])[:, None]) / max(step, 1)
    weights = np.where(distance < taps, np.sinc(distance) * np.sinc(distance / taps), 0)
    return times_weights(x, axis, weights / weights.sum(axis=0))


KINDS: dict[str, Callable[..., Any]] = {
    "nearest": nearest,
    "area": area,
    "bicubic": cubic,
    "lanczos3": functools.partial(lanczos, taps=3),
    "lanczos5": functools.partial(lanczos, taps=5),
}
"""The functions that resample an axis in the modes that do not interpolate linearly."""


def in_phases(x: Any, axis: int, factor: int) -> Any:
    """One axis made longer by a whole factor: each of `factor` phases blends the axis with itself shifted by one.

    New element i * factor + r lies at i + (r + 1/2) / factor - 1/2. Slices and their sums, forward and backward, are
    loops over contiguous memory, unlike a product with a sparse matrix.
    """
    n = x.shape[axis]

    def cut(a: Any, start: int) -> Any:
        return a[(*[slice(None)] * axis, slice(start, start + n))]

    first, last = [(*[slice(None)] * axis, end) for end in (slice(0, 1), slice(n - 1, n))]
    padded = wnp.concatenate([x[first], x, x[last]], axis=axis)
    phases = []
    for r in range(factor):
        place = (r + 0.5) / factor + 0.5
        low, share = int(place), place - int(place)
        phase = cut(padded, low)
        if share:  # infinity times 0 is no number
            phase = phase * x.dtype.type(1 - share) + cut(padded, low + 1) * x.dtype.type(share)
        phases.append(phase)
    joined = wnp.stack(phases, axis=axis + 1)
    return joined.reshape(*x.shape[:axis], n * factor, *x.shape[axis + 1 :])


def pixel_shuffle(x: Any, factor: int) -> NDArray:
    """Channels turned into pixels, r by r of them where `factor` is r.

    Shapes: x [n, c * r * r, height, width] of any dtype; [n, c, height * r, width * r].
    Raises: ShapeError for channels that r * r does not divide, ParameterError for a factor that is no positive integer.
    Source: Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel convolutional
    neural network", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.pixel_shuffle(np.arange(4.0).reshape(1, 4, 1, 1), 2).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    a, r = wnp.asarray(x), whole_factor("pixel_shuffle", factor)
    rank_is("pixel_shuffle", a, 4, "[n, channels, height, width]")
    n, c, h, w = a.shape
    if c % (r * r):
        raise ShapeError(f"pixel_shuffle: {r} * {r} does not divide the {c} channels of {type_text(a)}")
    return a.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


def pixel_unshuffle(x: Any, factor: int) -> NDArray:
    """Pixels turned into channels, r by r of them where `factor` is r, the inverse of `pixel_shuffle`.

    Shapes: x [n, c, height * r, width * r] of any dtype; [n, c * r * r, height, width].
    Raises: ShapeError for a height or width that the factor does not divide, ParameterError for a factor that is no
    positive integer.
    Source: as `pixel_shuffle`.

    >>> import numpy as np, wholestep as ws
    >>> x = np.arange(32.0).reshape(1, 2, 4, 4)
    >>> bool((ws.nn.pixel_shuffle(ws.nn.pixel_unshuffle(x, 2), 2) == x).all())
    True
    """
    a, r = wnp.asarray(x), whole_factor("pixel_unshuffle", factor)
    rank_is("pixel_unshuffle", a, 4, "[n, channels, height, width]")
    n, c, h, w = a.shape
    if h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: {r} does not divide height and width of {type_text(a)}")
    return a.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h // r, w // r)


def channel_shuffle(x: Any, groups: int) -> NDArray:
    """Channels interleaved from `groups` groups, one from each in turn.

    Shapes: x [n, c, ...] of any dtype; the same.
    Raises: ShapeError for channels that `groups` does not divide, ParameterError for no positive integer.
    Source: Zhang et al., "ShuffleNet: an extremely efficient convolutional neural network for mobile devices", 2018.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.channel_shuffle(np.arange(6.0).reshape(1, 6), 2).tolist()
    [[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]]
    """
    a, g = wnp.asarray(x), whole_factor("channel_shuffle", groups)
    if a.ndim < 2 or a.shape[1] % g:
        raise ShapeError(f"channel_shuffle: {g} groups do not divide the channels of {type_text(a)}")
    n, c, *rest = a.shape
    return a.reshape(n, g, c // g, *rest).swapaxes(1, 2).reshape(a.shape)


def whole_factor(name: str, factor: Any) -> int:
    """A factor of 1 or more; raises ParameterError for another."""
    if isinstance(factor, bool) or not hasattr(factor, "__index__") or operator.index(factor) < 1:
        raise ParameterError(f"{name}: the factor is {factor!r}; it must be an integer of 1 or more")
    return operator.index(factor)
