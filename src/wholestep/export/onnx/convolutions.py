"""Products with sliding windows as Conv, and windows that no product reads as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.onnx.arithmetic import onnx_computed
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node


def onnx_convolved(w: OnnxWriter, node: Node, c: ConvolvedProduct) -> str:
    """Conv of what windows were taken from with the other operand, whose axes are brought into Conv's order."""
    k, spatial, lead = len(c.kernel), c.spatial, (*c.rows, *c.groups, *c.channels)
    x = w.reshape(w.permute(w.get(c.source), c.axes), [*c.shape(c.lead), *spatial])
    x = w.permute(x, [*[c.lead.index(q) for q in lead], *range(len(lead), len(lead) + k)])
    x = w.reshape(x, [c.count(c.rows), c.count((*c.groups, *c.channels)), *spatial])
    letters = (*c.groups, *c.features, *c.channels, *c.kernel)
    y = w.permute(w.get(c.other), [c.other_letters.index(q) for q in letters])
    y = w.reshape(y, [c.count((*c.groups, *c.features)), c.count(c.channels), *c.shape(c.kernel)])
    after = [max(n, 0) for n in c.exact_after]
    made = onnx_computed(
        w, "Conv", [x, y], node.types[0].dtype, kernel_shape=c.shape(c.kernel), group=c.count(c.groups),
        strides=c.strides, dilations=c.dilations, pads=(*c.before, *after),
    )  # fmt: skip
    if tuple(after) != c.exact_after:
        made = w.op("Slice", made, w.ints([0] * k), w.ints(c.shape(c.places)), w.ints(range(2, 2 + k)))
    letters = (*c.rows, *c.groups, *c.features, *c.places)
    return w.permute(w.reshape(made, c.shape(letters)), [letters.index(q) for q in c.out])


def onnx_windows(w: OnnxWriter, node: Node, xs: Sequence[str]) -> str:
    """Windows axis by axis, as a read at `place * stride + offset * dilation`, for what is no product of them."""
    x, p, out = xs[0], node.params, node.outputs[0].shape
    k, ndim = len(p["size"]), node.types[0].ndim
    for i, (m, s, d) in enumerate(zip(p["size"], p["stride"], p["dilation"], strict=True)):
        axis = ndim - k + i
        at = np.add.outer(np.arange(out[axis]) * s, np.arange(m) * d)
        made = w.op("Gather", x, w.constant(at.astype(np.int64)), axis=axis)
        x = w.permute(made, [*range(axis + 1), *range(axis + 2, ndim + i + 1), axis + 1])
    return x
