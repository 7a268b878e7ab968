"""Arrays made, moved, multiplied, reduced, read, written and sorted in ONNX's operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.export.onnx.convolutions import onnx_convolved
from wholestep.export.onnx.kernels import wider
from wholestep.export.onnx.products import onnx_product
from wholestep.export.onnx.tiles import onnx_pooled, tiles_of
from wholestep.export.onnx.writer import OnnxWriter, Word
from wholestep.export.scattered_places import places_differ
from wholestep.ir.graph import Node

LONG_SUM = 2048
"""The terms of a sum in float32 beyond which it is written in parts."""


def onnx_cast(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `cast`."""
    return w.cast(xs[0], node.params["dtype"])


def onnx_full(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `full`."""
    value, dtype = node.params["value"], node.params["dtype"]
    if isinstance(value, Dim):
        return w.reshape(w.cast(w.size(value), dtype), ())
    return w.constant(np.full((), value, dtype))


def onnx_full_pair(w: OnnxWriter, node: Node, xs: list[str]) -> list[str]:
    """Operation `full` of a complex number, as both of its parts."""
    number, dtype = complex(node.params["value"]), dtypes.real_of(node.params["dtype"])
    parts = [w.constant(np.full((), part, dtype)) for part in (number.real, number.imag)]
    return [w.op("Expand", part, w.ints(node.outputs[0].shape)) for part in parts]


def onnx_thinly_broadcast(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `thinly_broadcast`: axes of size 1 inserted between existing axes and behind them."""
    axes, ndim = node.params["axes"], len(node.params["shape"])
    sizes = dict(zip(axes, node.types[0].shape, strict=True))
    shape = [sizes.get(axis, 1) for axis in range(min(axes, default=ndim), ndim)]
    return w.reshaped(xs[0], node.types[0].shape, shape)


def onnx_constant(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `constant`."""
    return w.constant(node.params["value"])


def onnx_counted(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `counted`."""
    shape, axis = node.params["shape"], node.params["axis"]
    if 0 in shape:
        return w.constant(np.zeros(shape, node.params["dtype"]))
    line = w.counted(shape[axis], node.params["dtype"])
    return w.op("Expand", w.reshape(line, [-1 if i == axis else 1 for i in range(len(shape))]), w.ints(shape))


def onnx_reshape(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `reshape`."""
    return w.reshape(xs[0], node.params["shape"])


def onnx_permute(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `permute`."""
    return w.permute(xs[0], node.params["axes"])


def onnx_flip(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `flip`."""
    axes = node.params["axes"]
    ends = [w.ints([n] * len(axes)) for n in (-1, -(1 << 62))]
    return w.op("Slice", xs[0], *ends, w.ints(axes), w.ints([-1] * len(axes))) if axes else xs[0]


def onnx_cut(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `cut`."""
    p = node.params
    rows = zip(p["start"], p["stop"], p["step"], node.types[0].shape, strict=True)
    found = [(i, a, b, s) for i, (a, b, s, n) in enumerate(rows) if (a, b, s) != (0, n, 1)]
    if not found:
        return xs[0]
    axes, starts, stops, steps = zip(*found, strict=True)
    return w.op("Slice", xs[0], w.ints(starts), w.ints(stops), w.ints(axes), w.ints(steps))


def onnx_padded(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Zeros around, and between: a new axis, padded and merged again, whose tail is cut off."""
    x, sizes, dtype, p = xs[0], list(node.types[0].shape), node.types[0].dtype, node.params
    inside = wider("Pad", dtype)
    assert inside is not None
    x = x if inside == dtype else w.cast(x, inside)
    zero = w.constant(np.zeros((), inside))
    for i, more in enumerate(p["interior"]):
        if more and (isinstance(sizes[i], Dim) or sizes[i] > 1):
            x = w.reshape(x, [*sizes[: i + 1], 1, *sizes[i + 1 :]])
            pads = [0] * (2 * (len(sizes) + 1))
            pads[len(sizes) + 1 + i + 1] = more
            x = w.op("Pad", x, w.ints(pads), zero)
            sizes[i] *= more + 1
            x = w.op("Slice", w.reshape(x, sizes), w.ints([0]), w.ints([sizes[i] - more]), w.ints([i]))
            sizes[i] -= more
    around = [*p["before"], *p["after"]]
    if any([n != 0 for n in around]):
        x = w.op("Pad", x, w.ints(around), zero)
    return x if inside == dtype else w.cast(x, dtype)


def onnx_joined(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `joined`."""
    return w.op("Concat", *xs, axis=node.params["axis"])


def onnx_contract(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """A product summed over shared axes: a convolution of windows, else a product of matrices."""
    found = w.convolutions.get(node)
    return onnx_product(w, node) if found is None else onnx_convolved(w, node, found, *xs)


def onnx_reduced(kind: str) -> Word:
    """A reduction over axes, that to the largest elements of tiles as a pool."""

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> str:
        axes = node.params["axes"]
        tiles = tiles_of(node.types[0].shape, node.types[0].dtype, axes) if kind == "ReduceMax" else None
        if tiles is not None:
            return w.reshape(onnx_pooled(w, "MaxPool", w.reshape(xs[0], tiles.whole), tiles), node.outputs[0].shape)
        return onnx_reduce_axes(w, kind, xs[0], node.types[0].dtype, axes) if axes else xs[0]

    return word


def onnx_reduce_axes(w: OnnxWriter, kind: str, x: str, dtype: Any, axes: Sequence[int]) -> str:
    """A reduction in the dtype of a kernel."""
    inside = wider(kind, dtype)
    assert inside is not None
    given = x if inside == dtype else w.cast(x, inside)
    made = w.op(kind, given, w.ints(axes), keepdims=0)
    return made if inside == dtype else w.cast(made, dtype)


def onnx_sum(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `sum`; a long one of float32 by parts, since ONNX Runtime adds elements up one after another."""
    dtype, shape, axes = node.inputs[0].dtype, list(node.inputs[0].shape), sorted(node.params["axes"])
    inside = wider("ReduceSum", dtype)
    terms = math.prod([shape[axis] for axis in axes if not isinstance(shape[axis], Dim)])
    if inside != np.float32 or terms <= LONG_SUM:
        return onnx_reduce_axes(w, "ReduceSum", xs[0], dtype, axes) if axes else xs[0]
    x = xs[0] if inside == dtype else w.cast(xs[0], inside)
    for axis in reversed(axes):
        n = shape[axis]
        if not isinstance(n, Dim) and n > LONG_SUM:
            part = math.isqrt(n)
            rows = -(-n // part)
            ends = [0] * (len(shape) + axis) + [rows * part - n] + [0] * (len(shape) - axis - 1)
            x = w.op("Pad", x, w.ints(ends)) if rows * part > n else x
            x = w.reshape(x, [*shape[:axis], rows, part, *shape[axis + 1 :]])
            x = w.op("ReduceSum", x, w.ints([axis + 1]), keepdims=0)
        x = w.op("ReduceSum", x, w.ints([axis]), keepdims=0)
        shape.pop(axis)
    return x if inside == dtype else w.cast(x, dtype)


def onnx_truths(kind: str) -> Word:
    """any and all as a reduction of int32 numbers, which is defined for no elements."""

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> str:
        axes = node.params["axes"]
        if not axes:
            return xs[0]
        return w.cast(w.op(kind, w.cast(xs[0], np.int32), w.ints(axes), keepdims=0), bool)

    return word


def onnx_largest_place(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `largest_place`."""
    dtype = node.types[0].dtype
    inside = wider("ArgMax", dtype) if dtype.kind not in "iu" or dtype.itemsize < 4 else dtype
    if inside is None or dtype.name in ("int64", "uint32"):
        # There is no kernel for these: the place of the first that is as large as the largest, by TopK.
        return w.op("Squeeze", w.ops("TopK", [w.cast(xs[0], np.int64), w.ints([1])], 2, axis=node.params["axis"])[1],
                    w.ints([node.params["axis"]]))  # fmt: skip
    given = xs[0] if inside == dtype else w.cast(xs[0], inside)
    return w.op("ArgMax", given, axis=node.params["axis"], keepdims=0, select_last_index=0)


def onnx_running_sum(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `running_sum`."""
    dtype, p = node.types[0].dtype, node.params
    inside = wider("CumSum", dtype)
    assert inside is not None
    given = xs[0] if inside == dtype else w.cast(xs[0], inside)
    made = w.op("CumSum", given, w.constant(np.int64(p["axis"])), reverse=int(p["reverse"]))
    return made if inside == dtype else w.cast(made, dtype)


def onnx_index_columns(w: OnnxWriter, names: Sequence[str], types: Sequence[Any]) -> str:
    """Indices of several axes as the last axis of one array."""
    columns = [
        w.op("Unsqueeze", name if t.dtype == np.int64 else w.cast(name, np.int64), w.ints([t.ndim]))
        for name, t in zip(names, types, strict=True)
    ]
    return columns[0] if len(columns) == 1 else w.op("Concat", *columns, axis=types[0].ndim)


def onnx_front(axes: Sequence[int], ndim: int) -> list[int]:
    """The order of axes with some of them first."""
    return [*axes, *[i for i in range(ndim) if i not in axes]]


def onnx_gather(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `gather`."""
    axes, types = node.params["axes"], node.types
    if len(axes) > 1:
        return w.op(
            "GatherND", w.permute(xs[0], onnx_front(axes, types[0].ndim)), onnx_index_columns(w, xs[1:], types[1:])
        )
    index = xs[1] if types[1].dtype.name in ("int32", "int64") else w.cast(xs[1], np.int64)
    made, a, k = w.op("Gather", xs[0], index, axis=axes[0]), axes[0], types[1].ndim
    return w.permute(made, [*range(a, a + k), *range(a), *range(a + k, node.outputs[0].ndim)])


def onnx_scattered(how: str) -> Word:
    """Elements written, or added, at places."""

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> str:
        axes, types = node.params["axes"], node.types
        order, dtype = onnx_front(axes, types[0].ndim), types[0].dtype
        inside = wider("ScatterND", dtype)
        assert inside is not None
        x, u = (v if inside == dtype else w.cast(v, inside) for v in xs[:2])
        x, at = w.permute(x, order), onnx_index_columns(w, xs[2:], types[2:])
        if places_differ(node.inputs[2:]):
            made = w.op("ScatterND", x, at, u, reduction=how)
        else:
            made = onnx_scattered_in_order(w, node, x, at, u, how)
        made = w.permute(made, np.argsort(order).tolist())
        return made if inside == dtype else w.cast(made, dtype)

    return word


def onnx_scattered_in_order(w: OnnxWriter, node: Node, x: str, at: str, u: str, how: str) -> str:
    """Elements written, or added, by ScatterElements, which one thread computes: those of ScatterND write to one place
    at the same time, and lose numbers. The indexed axes of x are its first ones, and one axis here."""
    axes, (kind, _, index, *_) = node.params["axes"], node.types
    sizes = [kind.shape[axis] for axis in onnx_front(axes, kind.ndim)]
    rows, width = math.prod(index.shape), math.prod(sizes[len(axes) :])
    if len(axes) > 1:
        ends = w.constant(np.int64(0)), w.op("Squeeze", w.size(math.prod(sizes[: len(axes)]))), w.constant(np.int64(1))
        at = w.op("GatherND", w.reshape(w.op("Range", *ends), sizes[: len(axes)]), at)
    at = w.op("Expand", w.reshape(at, [rows, 1]), w.ints([rows, width]))
    flat = w.reshape(x, [math.prod(sizes[: len(axes)]), width])
    return w.reshape(w.op("ScatterElements", flat, at, w.reshape(u, [rows, width]), axis=0, reduction=how), sizes)


def onnx_ordered(largest: int) -> Word:
    """Elements in order and their places; of equal ones the first is first."""

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> Sequence[str]:
        axis, dtype = node.params["axis"], node.types[0].dtype
        inside = wider("TopK", dtype)
        assert inside is not None
        count = node.params["k"] if largest else node.types[0].shape[axis]
        given = xs[0] if inside == dtype else w.cast(xs[0], inside)
        made, where = w.ops("TopK", [given, w.ints([count])], 2, axis=axis, largest=largest, sorted=1)
        outs = [made if inside == dtype else w.cast(made, dtype), where]
        kinds = [v.dtype for v in node.outputs]
        return [outs[1]] if len(kinds) == 1 else outs

    return word
