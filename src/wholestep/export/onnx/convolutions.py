"""Products with sliding windows as Conv: the forward pass, and both gradients, whose kernel lies along other axes.

contract(window(x, size=(3, 3)), w, spec="nchwij,ocij->nohw")                   Conv(x, w)
contract(window(x, size=(3, 3)), g, spec="nchwij,nohw->ocij")                   Conv of x by g, axes n and c exchanged
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.export.onnx.arithmetic import onnx_computed
from wholestep.export.onnx.kernels import wider
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.ir.graph import Node, Value
from wholestep.primitives.contraction import parts


class WindowRoles(NamedTuple):
    """The letters of a product with windows by what they are in a convolution."""

    window: Node
    lead: tuple[str, ...]
    """Axes before the windowed ones, in their order."""
    rows: tuple[str, ...]
    """Those of them that are in the result alone."""
    channels: tuple[str, ...]
    """Those of them that are summed."""
    kernel: tuple[str, ...]
    """Summed axes along which the kernel lies: inside windows, or from window to window."""
    places: tuple[str, ...]
    """The other axes of windows, which are in the result."""
    features: tuple[str, ...]
    """Axes of the other operand that are in the result."""
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


def behind_permutations(v: Value) -> tuple[Value, tuple[int, ...]]:
    """The value that others are permutations of, and for each axis of the last one its axis there."""
    axes = tuple(range(v.ndim))
    while v.node is not None and v.node.op.name == "permute":
        order = v.node.params["axes"]
        axes, v = tuple([order[a] for a in axes]), v.node.inputs[0]
    return v, axes


def window_roles(v: Value, own: str, other: str, out: str) -> WindowRoles | None:
    """The roles of the letters where a value is windows and the product is a convolution; None elsewhere."""
    source, axes = behind_permutations(v)
    if source.node is None or source.node.op.name != "window":
        return None
    p = source.node.params
    k = len(p["size"])
    letters = [own[axes.index(j)] for j in range(source.ndim)]
    lead, outside, inside = letters[: -2 * k], letters[-2 * k : -k], letters[-k:]
    for kernel, places, (strides, dilations) in (
        (inside, outside, (p["stride"], p["dilation"])),
        (outside, inside, (p["dilation"], p["stride"])),
    ):
        summed = all(c in other and c not in out for c in kernel)
        if summed and all(c in out and c not in other for c in places):
            rows = tuple([c for c in lead if c in out and c not in other])
            channels = tuple([c for c in lead if c in other and c not in out])
            features = tuple([c for c in other if c not in (*kernel, *channels)])
            if len(rows) + len(channels) == len(lead) and all(c in out for c in features):
                found = tuple(lead), rows, channels, tuple(kernel), tuple(places), features
                return WindowRoles(source.node, *found, tuple(strides), tuple(dilations))
    return None


def onnx_convolved(w: OnnxWriter, node: Node) -> str | None:
    """The result of a product as a convolution; None where it is none, or has no kernel."""
    a, b, out = parts(node.params["spec"])
    if wider("Conv", node.types[0].dtype) is None:
        return None
    for i, (own, other) in enumerate(((a, b), (b, a))):
        roles = window_roles(node.inputs[i], own, other, out)
        if roles is not None and len(roles.kernel) <= 3:
            sizes = dict(zip(a + b, node.types[0].shape + node.types[1].shape, strict=True))
            known = [sizes[c] for c in (*roles.channels, *roles.kernel, *roles.places)]
            if all(isinstance(n, int) and n > 0 for n in known):
                return convolution(w, node, roles, other, i, sizes, out)
    return None


def convolution(
    w: OnnxWriter, node: Node, roles: WindowRoles, other: str, i: int, sizes: dict[str, int], out: str
) -> str:
    """Conv of what windows were taken from with the other operand, whose axes are brought into Conv's order."""
    source = roles.window.inputs[0]
    k, spatial = len(roles.kernel), source.shape[len(roles.lead) :]
    n, c, o = (math.prod([sizes[letter] for letter in part]) for part in (roles.rows, roles.channels, roles.features))
    order = [roles.lead.index(letter) for letter in (*roles.rows, *roles.channels)]
    x = w.permute(w.get(source), [*order, *range(len(order), len(order) + k)])
    x = w.reshape(x, [n, c, *spatial])
    y = w.permute(
        w.get(node.inputs[1 - i]), [other.index(q) for q in (*roles.features, *roles.channels, *roles.kernel)]
    )
    kernel = [sizes[q] for q in roles.kernel]
    y = w.reshape(y, [o, c, *kernel])
    made = onnx_computed(
        w, "Conv", [x, y], node.types[0].dtype,
        strides=roles.strides, dilations=roles.dilations, kernel_shape=kernel,
    )  # fmt: skip
    wanted = [sizes[q] for q in roles.places]
    rows = zip(spatial, kernel, roles.strides, roles.dilations, strict=True)
    if [(m - ((q - 1) * d + 1)) // s + 1 for m, q, s, d in rows] != wanted:
        made = w.op("Slice", made, w.ints([0] * k), w.ints(wanted), w.ints(range(2, 2 + k)))
    letters = (*roles.rows, *roles.features, *roles.places)
    return w.permute(w.reshape(made, [sizes[q] for q in letters]), [letters.index(q) for q in out])


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
