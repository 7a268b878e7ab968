"""Operators of ONNX that slide windows over images: convolutions, their transposes, pools, and columns to images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes, nn, numpy as wnp
from wholestep.errors import ModelError, UnsupportedError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, integers, within_limits
from wholestep.nn.exponentials import safe_sqrt
from wholestep.nn.windows import Pairs, Slide, pad_axes, windows

CONVOLUTIONS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}


class Windows(NamedTuple):
    """The windows of a node: sizes, strides, dilations, the padding that is asked for, and that which windows reach."""

    size: list[int]
    stride: list[int]
    dilation: list[int]
    asked: Pairs
    reached: Pairs

    def of(self, x: Any, fill: Any) -> Any:
        """The windows over an image padded with a number: [n, c, *places, *size]."""
        at = Slide(tuple(self.size), tuple(self.stride), tuple(self.dilation), self.reached)
        padded = [n + a + b for n, (a, b) in zip(x.shape[2:], self.reached, strict=True)]
        if any(n < span for n, span in zip(padded, at.span, strict=True)):
            raise ModelError(f"a window covers {at.span}, more than {tuple(padded)}")
        return windows(pad_axes(x, self.reached, fill), at)


def windows_over(node: OnnxNode, x: Any, size: Any) -> Windows:
    """The windows of a node over an image."""
    size = [int(k) for k in size]
    n = len(size)
    if x.ndim != n + 2:
        raise ModelError(f"a window over {n} axes of an array with {x.ndim} axes")
    stride, dilation, pads = node.each("strides", 1, n), node.each("dilations", 1, n), node.each("pads", 0, 2 * n)
    if min(*stride, *dilation, *size, 1) < 1:
        raise ModelError(f"windows {size} at strides {stride} and dilations {dilation}")
    auto = node.get("auto_pad", "NOTSET")
    asked = [(a, b) for a, b in zip(pads[:n], pads[n:], strict=True)]
    if auto == "VALID":
        asked = [(0, 0)] * n
    elif auto != "NOTSET":
        spans = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
        totals = [max((-(-m // s) - 1) * s + e - m, 0) for m, s, e in zip(x.shape[2:], stride, spans, strict=True)]
        asked = [halves(total, auto) for total in totals]
    if any(p < 0 for pair in asked for p in pair):
        raise ModelError(f"pads {asked}")
    reached = list(asked)
    if node.get("ceil_mode", 0) and auto == "NOTSET":
        spans = [(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)]
        reached = [sticking_out(*of) for of in zip(x.shape[2:], spans, stride, asked, strict=True)]
    return Windows(size, stride, dilation, tuple(asked), tuple(reached))


def halves(total: int, auto: str) -> tuple[int, int]:
    """Padding before and after: where it is odd, one more after, or with SAME_LOWER before."""
    less = total // 2
    return (total - less, less) if auto == "SAME_LOWER" else (less, total - less)


def sticking_out(length: int, span: int, stride: int, pair: tuple[int, int]) -> tuple[int, int]:
    """Padding with which a last window is whole that begins inside or in the padding before."""
    before, after = pair
    places = -(-(length + before + after - span) // stride) + 1
    if (places - 1) * stride >= length + before:
        places -= 1
    return before, after + max((places - 1) * stride + span - length - before - after, 0)


def conv(node: OnnxNode, x: Any, w: Any, b: Any = None) -> Any:
    """A correlation of images with a kernel."""
    at = windows_over(node, x, w.shape[2:])
    if len(at.size) not in CONVOLUTIONS:
        raise UnsupportedError(f"a convolution over {len(at.size)} axes; one to three are covered")
    f = CONVOLUTIONS[len(at.size)]
    return f(
        x, w, b, stride=at.stride, padding=at.asked, dilation=at.dilation, groups=node.get("group", 1)
    )  # fmt: skip


def conv_transpose(node: OnnxNode, x: Any, w: Any, b: Any = None) -> Any:
    """The transpose of a convolution: windows added to the image at the places that a convolution reads them from."""
    size = [int(k) for k in w.shape[2:]]
    n = len(size)
    if n not in CONVOLUTIONS or x.ndim != n + 2:
        raise UnsupportedError(f"a transposed convolution over {n} axes of {x.ndim}; one to three are covered")
    stride, dilation, more = node.each("strides", 1, n), node.each("dilations", 1, n), node.each("output_padding", 0, n)
    full = [(m - 1) * s + (k - 1) * d + 1 for m, s, k, d in zip(x.shape[2:], stride, size, dilation, strict=True)]
    auto, wanted = node.get("auto_pad", "NOTSET"), node.ints("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [m * s for m, s in zip(x.shape[2:], stride, strict=True)]
    if wanted is None:
        pads = node.each("pads", 0, 2 * n)
        starts = pads[:n]
        wanted = [f + e - a - c for f, e, a, c in zip(full, more, starts, pads[n:], strict=True)]
    else:
        wanted = wanted[-n:]
        totals = [max(f + e - m, 0) for f, e, m in zip(full, more, wanted, strict=True)]
        starts = [halves(total, "SAME_UPPER" if auto == "SAME_UPPER" else "SAME_LOWER")[0] for total in totals]
    transposed = getattr(nn, f"conv_transpose{n}d")
    made = transposed(x, w, None, stride=stride, dilation=dilation, groups=node.get("group", 1))
    lacking = tuple([(0, max(s + m - have, 0)) for s, m, have in zip(starts, wanted, made.shape[2:], strict=True)])
    cut = [slice(s, s + m) for s, m in zip(starts, within_limits(wanted), strict=True)]
    made = pad_axes(made, lacking)[(..., *cut)]
    return made if b is None else made + b.reshape(-1, *[1] * n)


def max_pool(node: OnnxNode, x: Any) -> Any:
    """The largest element of each window, and where it lies."""
    at = windows_over(node, x, node.need("kernel_shape"))
    n = len(at.size)
    if node.count == 1 and dtypes.is_float(x.dtype) and n <= 3 and at.dilation == [1] * n:
        pool = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}[n]
        if all(2 * max(pair) <= k for pair, k in zip(at.reached, at.size, strict=True)):
            return pool(x, at.size, at.stride, padding=at.reached)
    low = -np.inf if dtypes.is_float(x.dtype) else np.iinfo(x.dtype).min
    seen = at.of(x, low)
    flat = seen.reshape(*seen.shape[: n + 2], math.prod(at.size))
    first = wnp.expand_dims(wnp.argmax(flat, axis=-1), -1)
    best = wnp.take_along_axis(flat, first, -1)[..., 0]
    if node.count == 1:
        return best
    places = np.arange(math.prod(x.shape)).reshape(x.shape)
    if node.get("storage_order", 0):
        turned = np.arange(math.prod(x.shape)).reshape(*x.shape[:2], *x.shape[:1:-1])
        places = turned.transpose(0, 1, *range(x.ndim - 1, 1, -1))
    where = at.of(np.ascontiguousarray(places), -1).reshape(flat.shape)
    return best, wnp.take_along_axis(where, first, -1)[..., 0]


def average_pool(node: OnnxNode, x: Any) -> Any:
    """The mean of each window; padding that is asked for counts with `count_include_pad`."""
    at = windows_over(node, x, node.need("kernel_shape"))
    inside = tuple(range(-len(at.size), 0))
    counted = np.ones((1, 1, *x.shape[2:]))
    rest = at.reached
    if node.get("count_include_pad", 0):
        counted = np.pad(counted, [(0, 0), (0, 0), *at.asked], constant_values=1)
        rest = tuple([(0, b - a) for (_, a), (_, b) in zip(at.asked, at.reached, strict=True)])
    counts = np.asarray(at._replace(reached=rest).of(counted, 0)).sum(axis=inside)
    return wnp.sum(at.of(x, 0), axis=inside) / counts.astype(x.dtype)


def lp_pool(node: OnnxNode, x: Any) -> Any:
    """The p-norm of each window."""
    at, p = windows_over(node, x, node.need("kernel_shape")), node.get("p", 2)
    return norm(at.of(x, 0), tuple(range(-len(at.size), 0)), p, False)


def norm(x: Any, axes: tuple[int, ...], p: int, keep: bool) -> Any:
    """The p-norm over axes."""
    if p == 1:
        return wnp.sum(wnp.abs(x), axis=axes, keepdims=keep)
    if p == 2:
        return safe_sqrt(wnp.sum(x * x, axis=axes, keepdims=keep))
    return wnp.power(wnp.sum(wnp.power(wnp.abs(x), float(p)), axis=axes, keepdims=keep), 1 / p).astype(x.dtype)


def global_average_pool(node: OnnxNode, x: Any) -> Any:
    """The mean of each channel."""
    return wnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def global_max_pool(node: OnnxNode, x: Any) -> Any:
    """The largest element of each channel."""
    return wnp.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def global_lp_pool(node: OnnxNode, x: Any) -> Any:
    """The p-norm of each channel."""
    return norm(x, tuple(range(2, x.ndim)), node.get("p", 2), True)


def max_unpool(node: OnnxNode, x: Any, places: Any, sizes: Any = None) -> Any:
    """The elements that a pool took, in their places, and 0 elsewhere."""
    size = node.ints("kernel_shape") or []
    n = len(size)
    stride, pads = node.each("strides", 1, n), node.each("pads", 0, 2 * n)
    own = [(m - 1) * s - a - b + k for m, s, k, a, b in zip(x.shape[2:], stride, size, pads[:n], pads[n:], strict=True)]
    inferred = within_limits([*x.shape[:2], *own])
    flat = wnp.zeros(math.prod(inferred), x.dtype)
    if not isinstance(x, np.ndarray):
        flat = flat + x.reshape(-1)[:1] * 0
    flat[places.reshape(-1)] = x.reshape(-1)
    made = flat.reshape(inferred)
    if sizes is None:
        return made
    wanted = within_limits(integers(sizes, "the shape"))
    return wnp.pad(made, [(0, max(m - k, 0)) for m, k in zip(wanted, inferred, strict=True)])


def columns_to_image(node: OnnxNode, x: Any, image: Any, block: Any) -> Any:
    """Blocks added at their places in an image."""
    sizes, size = integers(image, "the image"), integers(block, "the block")
    n = len(size)
    stride, dilation, pads = node.each("strides", 1, n), node.each("dilations", 1, n), node.each("pads", 0, 2 * n)
    full = within_limits([m + a + b for m, a, b in zip(sizes, pads[:n], pads[n:], strict=True)])
    places = [(m - (k - 1) * d - 1) // s + 1 for m, k, d, s in zip(full, size, dilation, stride, strict=True)]
    channels = x.shape[1] // math.prod(size)
    parts = x.reshape(x.shape[0], channels, *size, *places)
    total: Any = 0
    for at in np.ndindex(*size):
        part = parts[(slice(None), slice(None), *at)]
        start = [i * d for i, d in zip(at, dilation, strict=True)]
        where = [slice(a, a + (p - 1) * s + 1, s) for a, p, s in zip(start, places, stride, strict=True)]
        total = total + spread(part, full, where)
    cut = [slice(a, a + m) for a, m in zip(pads[:n], sizes, strict=True)]
    return total[(..., *cut)]


def spread(part: Any, full: Any, where: list[slice]) -> Any:
    """Elements put at slices of the last axes, and 0 elsewhere."""
    made = wnp.zeros_like(part, shape=(*part.shape[:2], *full))
    made[(..., *where)] = part
    return made


TABLE: Mapping[str, Handler] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalLpPool": global_lp_pool,
    "MaxUnpool": max_unpool,
    "Col2Im": columns_to_image,
}
