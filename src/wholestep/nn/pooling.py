"""Pooling: the maximum, the mean, a norm, or a smooth maximum of each window."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single, logsumexp
from wholestep.nn.spatial import by_rank
from wholestep.nn.windows import (
    Ints,
    Padding,
    Pairs,
    Slide,
    floating,
    pad_axes,
    per_axis,
    rank_is,
    slide,
    taps,
    type_text,
    windows,
)

EXAMPLES = (
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.{}1d(np.ones((1, 3, 4)), 2).shape
    (1, 3, 2)
    """,
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.{}3d(np.ones((1, 3, 4, 4, 4)), 2).shape
    (1, 3, 2, 2, 2)
    """,
)


def max_pool(
    name: str,
    n: int,
    x: Any,
    size: Ints,
    stride: Ints | None = None,
    padding: Padding = 0,
    *,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of images.

    `size`, `stride`, `padding` and `dilation` are an integer or one for each axis, `padding` also any other form that
    `conv2d` takes. The stride is the size if it is not given. Padding counts as -inf: at most half a window, so that
    none is padding throughout. With `ceil_mode` a last window may stick out, if it begins inside. The elements of a
    window lie `dilation` apart. The whole gradient goes to the first of equal elements in row-major order; nan is
    larger than anything. `return_indices` also returns the flat indices of the elements within their images, which
    `max_unpool2d` takes.

    Shapes: x floats [n, c, height, width]; [n, c, ...], and with `return_indices` integers of that shape.
    Raises: ShapeError for an x or a window that does not fit, ParameterError for invalid options, DtypeError for an x
    that is not real floats.
    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.max_pool2d(np.arange(16.0).reshape(1, 1, 4, 4), 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    a = floats(name, x)
    at = placed(name, n, a, size, stride, padding, ceil_mode, dilation)
    wide = pad_axes(a, at.around, -math.inf)
    if return_indices:
        return largest_and_where(wide, numbered_places(a.shape[2:], at.around), at)
    if at.stride == at.size == at.span:
        return largest_of_tiles(wide, at.size)
    # One axis after another, the last first, which leaves the first winner the same.
    for axis in reversed(range(n)):
        wide = elementwise_largest(taps(wide, axis + 2, at.size[axis], at.stride[axis], at.dilation[axis]))
    return wide


def avg_pool(
    name: str,
    n: int,
    x: Any,
    size: Ints,
    stride: Ints | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of images.

    `size`, `stride` and `padding` are those of `max_pool2d`. Padding counts as zeros, or with `count_include_pad=False`
    not at all; window elements beyond the padding, with `ceil_mode`, never count.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: as `max_pool2d` does.
    Source: as `max_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.avg_pool2d(np.ones((1, 1, 2, 2)), 2, padding=1).tolist()
    [[[[0.25, 0.25], [0.25, 0.25]]]]
    """
    given = floats(name, x)
    at = placed(name, n, given, size, stride, padding, ceil_mode)
    include = placed(name, n, given, size, stride, padding, False).around if count_include_pad else ((0, 0),) * n

    def of(a: Any) -> Any:
        return window_sums(pad_axes(a, at.around), at) / window_counts(a, at, include)

    return in_single(of, given)


def lp_pool(
    name: str,
    n: int,
    x: Any,
    p: float,
    size: Ints,
    stride: Ints | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
) -> Any:
    """sum(|x|**p)**(1 / p) over each window of images: its p-norm, whose gradient where it is zero is zero.

    `size`, `stride` and `padding` are those of `max_pool2d`. Padding counts as zeros, and so do the elements that a
    last window that sticks out with `ceil_mode` lacks.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: ParameterError for a p that is not positive and finite, and as `max_pool2d` does.
    Source: Sermanet, Chintala and LeCun, "Convolutional neural networks applied to house numbers digit
    classification", 2012.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.lp_pool2d(np.array([[[[3.0, 0.0], [0.0, -4.0]]]]), 2, 2).tolist()
    [[[[5.0]]]]
    """
    given = floats(name, x)
    if not 0 < p < math.inf:
        raise ParameterError(f"{name}: p is {p}; it must be positive and finite", hint="max_pool2d is the limit")
    at = placed(name, n, given, size, stride, padding, ceil_mode)

    def of(a: Any) -> Any:
        sums = window_sums(pad_axes(abs(a) ** p if p != 2 else a * a, at.around), at)
        some = sums > 0
        return wnp.where(some, wnp.where(some, sums, 1) ** (1 / p), 0)

    return in_single(of, given)


max_pool1d, max_pool2d, max_pool3d = by_rank(max_pool, *[example.format("max_pool") for example in EXAMPLES])
avg_pool1d, avg_pool2d, avg_pool3d = by_rank(avg_pool, *[example.format("avg_pool") for example in EXAMPLES])
lp_pool1d, lp_pool2d, lp_pool3d = by_rank(
    lp_pool, *[example.format("lp_pool").replace(", 2).shape", ", 2, 2).shape") for example in EXAMPLES]
)


def smooth_max_pool(
    x: Any, size: Ints, stride: Ints | None = None, padding: Padding = 0, *, beta: float = 1.0, ceil_mode: bool = False
) -> NDArray:
    """log(mean(exp(beta * x))) / beta over each window: the mean for beta near 0, the maximum for a large one.

    Windows go over all axes after the first two. Padding does not count. `size`, `stride`, `padding` and `ceil_mode`
    are those of `max_pool2d`.

    Shapes: x floats [n, c, ...]; [n, c, ...].
    Raises: ParameterError for beta 0 or less, and as `max_pool2d` does.
    Source: Pinheiro and Collobert, "From image-level to pixel-level labeling with convolutional networks", 2015.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.smooth_max_pool(np.array([[[1.0, 2.0]]]), 2, beta=100.0).round(2).tolist()
    [[[1.99]]]
    """
    name, a = "smooth_max_pool", floats("smooth_max_pool", x)
    if not beta > 0:
        raise ParameterError(f"{name}: beta is {beta}; it must be positive")
    n = a.ndim - 2
    at = placed(name, n, a, size, stride, padding, ceil_mode)
    inside = tuple(range(-n, 0))

    def of(v: Any) -> Any:
        seen = windows(pad_axes(beta * v, at.around, -math.inf), at)
        return (logsumexp(seen, axis=inside) - np.log(window_counts(v, at, ((0, 0),) * n))) / beta

    return in_single(of, a)


def global_max_pool(x: Any) -> NDArray:
    """The largest element of each channel; the gradient goes to the first of equal ones.

    Shapes: x floats [n, c, ...]; [n, c].
    Raises: as `global_avg_pool` does, and ValueError for empty axes.
    Source: as `global_avg_pool`, with the maximum.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.global_max_pool(np.arange(4.0).reshape(1, 1, 4)).tolist()
    [[3.0]]
    """
    a = floats("global_max_pool", x)
    flat = a.reshape(*a.shape[:2], math.prod(a.shape[2:]))
    first = wnp.argmax(flat, axis=-1)[..., None]
    return wnp.take_along_axis(flat, first, axis=-1)[..., 0]


def global_avg_pool(x: Any) -> NDArray:
    """The mean of each channel.

    Shapes: x floats [n, c, ...]; [n, c].
    Raises: ShapeError for an x without places.
    Source: Lin, Chen and Yan, "Network in network", 2014.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.global_avg_pool(np.arange(4.0).reshape(1, 1, 4)).tolist()
    [[1.5]]
    """
    a = floats("global_avg_pool", x)
    return wnp.mean(a, axis=tuple(range(2, a.ndim)))


def adaptive_max_pool(x: Any, size: Ints) -> NDArray:
    """The largest elements of `size` parts of each axis after the first two.

    Part i of m of an axis of n elements runs from floor(i n / m) to ceil((i + 1) n / m), as in PyTorch; parts may
    overlap. `size` is an integer, or one for each axis.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: ParameterError for a size that is not positive, ShapeError for an x without places, DtypeError for an x that
    is not real floats.
    Source: He, Zhang, Ren and Sun, "Spatial pyramid pooling in deep convolutional networks for visual recognition",
    2014.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.adaptive_max_pool(np.arange(5.0).reshape(1, 1, 5), 2).tolist()
    [[[2.0, 4.0]]]
    """
    return adapted("adaptive_max_pool", x, size, lambda part: elementwise_largest(list(wnp.unstack(part, axis=-1))))


def adaptive_avg_pool(x: Any, size: Ints) -> NDArray:
    """The means of `size` parts of each axis after the first two; parts as in `adaptive_max_pool`.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: as `adaptive_max_pool` does.
    Source: as `adaptive_max_pool`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.adaptive_avg_pool(np.arange(5.0).reshape(1, 1, 5), 2).tolist()
    [[[1.0, 3.0]]]
    """
    return adapted("adaptive_avg_pool", x, size, lambda part: wnp.mean(part, axis=-1))


def floats(name: str, x: Any) -> Any:
    """A floating array [n, channels, ...]; raises DtypeError or ShapeError for another."""
    a = floating(name, x)
    if a.ndim < 3:
        rank_is(name, a, 3, "[n, channels, ...]")
    return a


def placed(
    name: str,
    n: int,
    x: Any,
    size: Ints,
    stride: Ints | None,
    padding: Padding,
    ceil_mode: bool,
    dilation: Ints = 1,
) -> Slide:
    """The windows of a pool; with `ceil_mode` the padding after an axis includes the end of the last window."""
    rank_is(name, x, n + 2, "[n, channels, ...]")
    at = slide(name, x, n, size, size if stride is None else stride, padding, dilation)
    for span, pair in zip(at.span, at.around, strict=True):
        if 2 * max(pair) > span:
            raise ParameterError(f"{name}: padding {pair} is more than half of a window of {span}")
    if ceil_mode:
        at = at._replace(around=tuple([*map(reaching, x.shape[2:], at.span, at.stride, at.around)]))
    if max(at.dilation) > 1:
        no_window_misses(name, x, at)
    return at


def no_window_misses(name: str, x: Any, at: Slide) -> None:
    """Raise ShapeError if all elements of a dilated window are padding."""
    for axis, (length, (before, after)) in enumerate(zip(x.shape[2:], at.around, strict=True)):
        size, stride, dilation, span = at.size[axis], at.stride[axis], at.dilation[axis], at.span[axis]
        starts = np.arange(0, length + before + after - span + 1, stride) - before
        read = starts[:, None] + dilation * np.arange(size)
        if not ((read >= 0) & (read < length)).any(1).all():
            raise ShapeError(
                f"{name}: a window of {size} elements {dilation} apart reads only the padding of {type_text(x)}",
                hint="less dilation, or less padding",
            )


def reaching(length: int, size: int, stride: int, pair: tuple[int, int]) -> tuple[int, int]:
    """Padding with which a last window that begins inside, or in the padding before, is whole."""
    before, after = pair
    total = length + before + after
    places = -(-(total - size) // stride) + 1
    if (places - 1) * stride >= length + before:
        places -= 1
    return before, after + max((places - 1) * stride + size - total, 0)


def numbered_places(lengths: Sequence[int], around: Pairs) -> Any:
    """The number of each element of an image in row-major order, and -1 in the padding."""
    numbers = np.arange(math.prod(lengths)).reshape(lengths)
    return np.pad(numbers, around, constant_values=-1)[None, None]


def largest_and_where(x: Any, numbers: Any, at: Slide) -> tuple[Any, Any]:
    """The largest element of each window of an array that is padded already, and its number."""

    def better(best: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
        # Padding gives way to anything: an element of the array may be -inf too.
        wins = (other[0] > best[0]) | (other[0] != other[0]) | ((best[1] < 0) & (other[1] >= 0))
        return wnp.where(wins, other[0], best[0]), wnp.where(wins, other[1], best[1])

    for axis in reversed(range(len(at.size))):
        facts = axis + 2, at.size[axis], at.stride[axis], at.dilation[axis]
        x, numbers = functools.reduce(better, zip(taps(x, *facts), taps(numbers, *facts), strict=True))
    return x, wnp.broadcast_to(numbers, x.shape)


def elementwise_largest(parts: list[Any]) -> Any:
    """The largest of several arrays, the first of equal ones; nan where any is nan."""
    return functools.reduce(lambda best, x: wnp.where((x > best) | (x != x), x, best), parts)


def largest_of_tiles(x: Any, size: Sequence[int]) -> Any:
    """The maximum of windows side by side: elementwise over x cut into tiles, where taps would be spread and added."""
    lead, lengths = x.shape[: x.ndim - len(size)], x.shape[x.ndim - len(size) :]
    places = [length // s for length, s in zip(lengths, size, strict=True)]
    whole = x[(..., *[slice(p * s) for p, s in zip(places, size, strict=True)])]
    cut = whole.reshape(*lead, *[d for both in zip(places, size, strict=True) for d in both])
    inside = tuple(range(len(lead) + 1, cut.ndim, 2))
    order = np.arange(math.prod(size), dtype=np.int32).reshape([d for s in size for d in (1, s)])
    top = stop_gradient(wnp.max(cut, axis=inside, keepdims=True))
    won = wnp.where((cut == top) | (cut != cut), order, order.size)
    return wnp.sum(wnp.where(order == wnp.min(won, axis=inside, keepdims=True), cut, 0), axis=inside)


def window_sums(wide: Any, at: Slide) -> Any:
    """The sum of the elements of each window of padded images, one axis after another, the last first."""
    for axis in reversed(range(len(at.size))):
        wide = functools.reduce(operator.add, taps(wide, axis + 2, at.size[axis], at.stride[axis]))
    return wide


def window_counts(x: Any, at: Slide, included: Pairs) -> Any:
    """The number of elements of each window that count: those of x and of the padding that is included."""
    n, counts = len(at.size), np.ones(())
    for length, size, stride, (before, after), (low, high) in zip(
        x.shape[x.ndim - n :], at.size, at.stride, at.around, included, strict=True
    ):
        starts = np.arange(0, length + before + after - size + 1, stride) - before
        inside = np.minimum(starts + size, length + high) - np.maximum(starts, -low)
        counts = counts[..., None] * inside
    return (counts if counts.size and np.ptp(counts) else counts.reshape(-1)[:1].reshape(())).astype(x.dtype)


def adapted(name: str, x: Any, size: Ints, pooled: Callable[[Any], Any]) -> Any:
    """A pool over parts of the axes, one axis after another, the last first."""
    a = floats(name, x)
    counts = per_axis(name, "size", size, a.ndim - 2)
    if 0 in a.shape[2:]:
        raise ShapeError(f"{name}: x is {type_text(a)}, with nothing to pool")
    for axis in reversed(range(2, a.ndim)):
        length, m = a.shape[axis], counts[axis - 2]
        last = wnp.moveaxis(a, axis, -1)
        parts = [pooled(last[..., i * length // m : -(-(i + 1) * length // m)]) for i in range(m)]
        a = wnp.stack(parts, axis=axis)
    return a
