"""Products with sliding windows as Conv, and windows that no product reads as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.onnx.arithmetic import onnx_computed
from wholestep.export.onnx.convolved import cut_off, flipped_kernel
from wholestep.export.onnx.kernels import wider
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node, Value

PATCHES = 1 << 24
"""The most elements of windows that are held at a time."""


def onnx_convolved(w: OnnxWriter, node: Node, c: ConvolvedProduct, *bias: str) -> str:
    """Conv of the array under the windows with the other operand, the axes of both in Conv's order."""
    if is_by_patches(c) and not bias:
        return onnx_gradient_by_patches(w, c)
    kernel = flipped_kernel(c)
    if kernel is not None and not bias:
        return onnx_transposed(w, c, kernel)
    k, spatial, lead = len(c.kernel), c.spatial, (*c.rows, *c.groups, *c.channels)
    moved = [c.source.shape[axis] for axis in c.axes]
    x = w.reshaped(w.permute(w.get(c.source), c.axes), moved, [*c.shape(c.lead), *spatial])
    x = w.permute(x, [*[c.lead.index(q) for q in lead], *range(len(lead), len(lead) + k)])
    sizes = [c.count(c.rows), c.count((*c.groups, *c.channels)), *spatial]
    x = w.reshaped(x, [*c.shape(lead), *spatial], sizes)
    letters = (*c.groups, *c.features, *c.channels, *c.kernel)
    y = w.permute(w.get(c.other), [c.other_letters.index(q) for q in letters])
    sizes = [c.count((*c.groups, *c.features)), c.count(c.channels), *c.shape(c.kernel)]
    y = w.reshaped(y, c.shape(letters), sizes)
    after = [max(n, 0) for n in c.exact_after]
    made = onnx_computed(
        w, "Conv", [x, y, *bias], node.types[0].dtype, kernel_shape=c.shape(c.kernel), group=c.count(c.groups),
        strides=c.strides, dilations=c.dilations, pads=(*c.before, *after),
    )  # fmt: skip
    if tuple(after) != c.exact_after:
        made = w.op("Slice", made, w.ints([0] * k), w.ints(c.shape(c.places)), w.ints(range(2, 2 + k)))
    letters = (*c.rows, *c.groups, *c.features, *c.places)
    sizes = [c.count(c.rows), c.count((*c.groups, *c.features)), *c.shape(c.places)]
    return w.permute(w.reshaped(made, sizes, c.shape(letters)), [letters.index(q) for q in c.out])


def onnx_transposed(w: OnnxWriter, c: ConvolvedProduct, kernel: Value) -> str:
    """ConvTranspose: a convolution of spaced elements with the reversed kernel."""
    x = w.permute(w.get(c.source), [*[c.axes[c.lead.index(q)] for q in (*c.rows, *c.channels)], *c.axes[2:]])
    letters = (*c.channels, *c.features, *c.kernel)
    y = w.permute(w.get(kernel), [c.other_letters.index(q) for q in letters])
    before, after = cut_off(c)
    made = onnx_computed(
        w, "ConvTranspose", [x, y], c.source.dtype, kernel_shape=c.shape(c.kernel), strides=c.gaps,
        dilations=c.dilations, pads=(*before, *[max(n, 0) for n in after]), output_padding=[max(-n, 0) for n in after],
    )  # fmt: skip
    letters = (*c.rows, *c.features, *c.places)
    return w.permute(made, [letters.index(q) for q in c.out])


def is_by_patches(c: ConvolvedProduct) -> bool:
    """True for the gradient of a kernel that is better a product with windows: there is room for them, and their
    products with the gradients of single images take no more of it."""
    size = c.count((*c.channels, *c.rows, *c.places, *c.kernel))
    plain = c.is_plain and c.is_whole and c.of_kernel and {*c.gaps} == {1} and min(c.exact_after) >= 0
    return plain and size <= PATCHES and c.count(c.features) <= c.count(c.kernel)


def onnx_gradient_by_patches(w: OnnxWriter, c: ConvolvedProduct) -> str:
    """The gradient of a kernel: windows of each image as a matrix, times the gradient of the convolution's result.

    contract(window(x), g, spec="nchwij,nohw->ocij"): the windows are a Conv of each channel alone with kernels of which
    each has one 1. A Conv of all, with images for channels, has few places, and takes ONNX Runtime twice as long.
    """
    (n,), (q,), (o,) = c.channels, c.rows, c.features
    places, count = c.shape(c.kernel), c.count(c.places)
    total = math.prod(places)
    inside = wider("Conv", c.source.dtype)
    source, other = (w.get(v) if v.dtype == inside else w.cast(w.get(v), inside) for v in (c.source, c.other))
    x = w.permute(source, [*[c.axes[c.lead.index(letter)] for letter in (n, q)], *c.axes[2:]])
    alone = count == 1 and places == c.spatial and {*c.dilations} == {1}
    windows = x if alone else onnx_patches(w, c, x)
    windows = w.reshape(windows, [c.sizes[n], c.sizes[q] * count, total])
    letters = (n, o, *c.kernel)
    g = w.permute(other, [c.other_letters.index(each) for each in letters])
    g = w.op("Transpose", w.reshape(g, [c.sizes[n], c.sizes[o], total]), perm=[0, 2, 1])
    made = w.op("ReduceSum", w.op("MatMul", windows, g), w.ints([0]), keepdims=0)
    made = made if c.source.dtype == inside else w.cast(made, c.source.dtype)
    found = (q, *c.places, o)
    return w.permute(w.reshape(made, c.shape(found)), [found.index(each) for each in c.out])


def onnx_patches(w: OnnxWriter, c: ConvolvedProduct, x: str) -> str:
    """The windows of each image, [..., offset in a window, window]: a Conv by kernels with one 1 each."""
    (q,), inside = c.rows, c.shape(c.places)
    count = math.prod(inside)
    ones = w.constant(np.eye(count, dtype=np.float32).reshape(count, 1, *inside))
    kernels = w.op("Tile", ones, w.ints([c.sizes[q], *[1] * (1 + len(inside))]))
    return w.op("Conv", x, kernels, kernel_shape=inside, group=c.sizes[q], strides=c.dilations, dilations=c.strides,
                pads=(*c.before, *c.exact_after))  # fmt: skip


def onnx_windows(w: OnnxWriter, node: Node, xs: Sequence[str]) -> str:
    """Windows axis by axis, gathered at `place * stride + offset * dilation`, where no product reads them."""
    x, p, out = xs[0], node.params, node.outputs[0].shape
    k, ndim = len(p["size"]), node.types[0].ndim
    for i, (m, s, d) in enumerate(zip(p["size"], p["stride"], p["dilation"], strict=True)):
        axis = ndim - k + i
        at = np.add.outer(np.arange(out[axis]) * s, np.arange(m) * d)
        made = w.op("Gather", x, w.constant(at.astype(np.int64)), axis=axis)
        x = w.permute(made, [*range(axis + 1), *range(axis + 2, ndim + i + 1), axis + 1])
    return x
