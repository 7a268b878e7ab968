"""Operators of ONNX that move elements by a shape: reshape, transpose, slice, pad, split, and constants of a shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import (
    Handler,
    OnnxNode,
    axes_of,
    axis_within,
    integer,
    integers,
    known,
    number,
    within_limits,
)


def shape_of(node: OnnxNode, x: Any) -> Any:
    """The sizes of the axes from start to end."""
    sizes = x.shape[node.get("start", 0) : node.get("end", None)]
    return np.array(sizes, np.int64)


def size_of(node: OnnxNode, x: Any) -> Any:
    """The number of elements."""
    return np.array(math.prod(x.shape), np.int64)


def constant(node: OnnxNode) -> Any:
    """The value in the attributes."""
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        for found in (node.get(name), node.get(name + "s")):
            if found is not None:
                return np.array(found, dtype)
    return node.need("value")


def constant_of_shape(node: OnnxNode, sizes: Any) -> Any:
    """One number in a shape."""
    value = node.get("value", np.zeros(1, np.float32))
    return np.full(within_limits(integers(sizes, "the shape")), value.reshape(-1)[0], value.dtype)


def counted(node: OnnxNode, start: Any, stop: Any, step: Any) -> Any:
    """Numbers from start to before stop."""
    begin, end, by = (known(x, "the range").reshape(()) for x in (start, stop, step))
    if not by or not np.isfinite([begin, end, by]).all():
        raise ModelError(f"a range from {begin} to {end} by {by}")
    count = max(math.ceil((end.item() - begin.item()) / by.item()), 0)
    return (np.arange(*within_limits([count])) * by + begin).astype(begin.dtype)


def eye_like(node: OnnxNode, x: Any) -> Any:
    """Ones on a diagonal, in the shape of a matrix."""
    rows, columns = within_limits(x.shape)
    return np.eye(rows, columns, k=node.get("k", 0), dtype=node.dtype("dtype", x.dtype))


def reshape(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    """The same elements in another shape; 0 keeps a size, -1 is inferred from the number of elements."""
    wanted = integers(sizes, "the shape") if sizes is not None else node.ints("shape") or []
    if not node.get("allowzero", 0):
        if any(not n and i >= x.ndim for i, n in enumerate(wanted)):
            raise ModelError(f"the shape {wanted} keeps an axis that {x.shape} has not")
        wanted = [n if n else x.shape[i] for i, n in enumerate(wanted)]
    return x.reshape(wanted)


def flatten(node: OnnxNode, x: Any) -> Any:
    """A matrix: the axes before `axis`, and the axes from it on."""
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def transpose(node: OnnxNode, x: Any) -> Any:
    """The axes in another order, reversed by default."""
    return wnp.transpose(x, node.ints("perm"))


def squeeze(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    """An array without axes of size 1."""
    return wnp.squeeze(x, axes_of(node, axes, x.ndim))


def unsqueeze(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    """An array with new axes of size 1."""
    count = len(node.ints("axes") or []) if axes is None else math.prod(axes.shape)
    found = axes_of(node, axes, x.ndim + count)
    return wnp.expand_dims(x, found) if found else x


def concat(node: OnnxNode, *xs: Any) -> Any:
    """Arrays behind each other along an axis."""
    return wnp.concatenate(xs, axis=node.need("axis"))


def split_along(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    """Parts of an axis, of given sizes or as equal as can be."""
    axis = axis_within(node.get("axis", 0), x.ndim)
    found = node.ints("split") if sizes is None else integers(sizes, "the sizes")
    if found is None:
        count = node.get("num_outputs", len(node.outputs))
        each = -(-x.shape[axis] // count)
        found = [max(min(each, x.shape[axis] - i * each), 0) for i in range(count)]
    if sum(found) != x.shape[axis]:
        raise ModelError(f"parts {found} of an axis of {x.shape[axis]}")
    return tuple(wnp.split(x, [int(n) for n in np.cumsum(found)[:-1]], axis=axis))


def slice_axes(node: OnnxNode, x: Any, *bounds: Any) -> Any:
    """Elements of axes from start to end by steps, as Python slices them."""
    given = zip(("starts", "ends", "axes", "steps"), [*bounds, None, None, None, None][:4], strict=True)
    first, last, along, by = [node.ints(name) if v is None else integers(v, name) for name, v in given]
    if first is None or last is None:
        raise ModelError("starts or ends are missing")
    along, by = along or [*range(len(first))], by or [1] * len(first)
    if not len(first) == len(last) == len(along) == len(by):
        raise ModelError("starts, ends, axes and steps differ in length")
    index: list[Any] = [slice(None)] * x.ndim
    for start, stop, axis, step in zip(first, last, along, by, strict=True):
        place = axis_within(axis, x.ndim)
        index[place] = slice(start, None if step < 0 and stop < -x.shape[place] else stop, step)
    return x[tuple(index)]


def pad(node: OnnxNode, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    """Elements around an array; negative pads cut off."""
    given = node.ints("pads", []) if pads is None else integers(pads, "the pads")
    assert given is not None
    along = [*range(x.ndim)] if axes is None else [axis_within(axis, x.ndim) for axis in integers(axes, "axes")]
    if len(given) != 2 * len(along):
        raise ModelError(f"{len(given)} pads for {len(along)} axes")
    width = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        width[axis] = (given[i], given[i + len(along)])
    if any(n < 0 for pair in width for n in pair):
        cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(width, x.shape, strict=True)]
        x, width = x[tuple(cut)], [(max(a, 0), max(b, 0)) for a, b in width]
    within_limits([n + a + b for (a, b), n in zip(width, x.shape, strict=True)])
    mode = node.get("mode", "constant")
    if mode == "constant":
        fill = node.get("value", 0) if value is None else wnp.asarray(value).reshape(())
        return wnp.pad(x, width, constant_values=fill)
    return wnp.pad(x, width, mode=mode)


def expand(node: OnnxNode, x: Any, sizes: Any) -> Any:
    """An array broadcast with a shape."""
    return wnp.broadcast_to(x, within_limits(np.broadcast_shapes(x.shape, tuple(integers(sizes, "the shape")))))


def tile(node: OnnxNode, x: Any, repeats: Any) -> Any:
    """An array repeated along its axes."""
    each = integers(repeats, "the repeats")
    within_limits([n * max(k, 1) for n, k in zip(x.shape, each, strict=True)])
    return wnp.tile(x, each)


def triangle(node: OnnxNode, x: Any, k: Any = None) -> Any:
    """The upper or the lower triangle of matrices."""
    diagonal = 0 if k is None else integer(k, "the diagonal")
    return (wnp.triu if node.get("upper", 1) else wnp.tril)(x, diagonal)


def depth_to_space(node: OnnxNode, x: Any) -> Any:
    """Channels as blocks of an image."""
    b = node.need("blocksize")
    n, c, h, w = x.shape
    if node.get("mode", "DCR") == "DCR":
        moved = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(node: OnnxNode, x: Any) -> Any:
    """Blocks of an image as channels."""
    b = node.need("blocksize")
    n, c, h, w = x.shape
    moved = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return moved.transpose(order).reshape(n, c * b * b, h // b, w // b)


def center_crop_pad(node: OnnxNode, x: Any, sizes: Any) -> Any:
    """The middle of axes that are too long, and zeros around those that are too short."""
    wanted = within_limits(integers(sizes, "the shape"))
    axes = axes_of(node, None, x.ndim) or tuple(range(x.ndim))
    for size, axis in zip(wanted, axes, strict=True):
        have = x.shape[axis]
        at = abs(have - size) // 2
        if have > size:
            x = x[(*[slice(None)] * axis, slice(at, at + size))]
        elif have < size:
            x = wnp.pad(x, [(at, size - have - at) if i == axis else (0, 0) for i in range(x.ndim)])
    return x


def windows_of(form: Any) -> Handler:
    """A window of cosines, over a period or symmetric, from its coefficients."""

    def window(node: OnnxNode, size: Any) -> Any:
        count = integer(size, "the size")
        period = count if node.get("periodic", 1) else count - 1
        angle = 2 * np.pi * np.arange(*within_limits([count])) / max(period, 1)
        made = sum(c * np.cos(k * angle) for k, c in enumerate(form))
        return np.asarray(made).astype(node.dtype("output_datatype", np.float32))

    return window


def mel_weights(node: OnnxNode, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """Triangles on the mel scale over the frequencies of a spectrum."""
    count, spectrum = integer(bins, "num_mel_bins"), integer(length, "dft_length") // 2 + 1
    edges = [2595 * math.log10(1 + number(x, "an edge") / 700) for x in (low, high)]
    mels = np.arange(count + 2) * ((edges[1] - edges[0]) / (count + 2)) + edges[0]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    places = np.floor((integer(length, "dft_length") + 1) * hertz / integer(rate, "sample_rate")).astype(np.int64)
    made = np.zeros(within_limits([spectrum, count]))
    for i in range(count):
        lower, center, upper = places[i : i + 3]
        if center == lower:
            made[center, i] = 1
        else:
            made[lower : center + 1, i] = (np.arange(lower, center + 1) - lower) / (center - lower)
        made[center:upper, i] = (upper - np.arange(center, upper)) / max(upper - center, 1)
    return made.astype(node.dtype("output_datatype", np.float32))


TABLE: Mapping[str, Handler] = {
    "Shape": shape_of,
    "Size": size_of,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Range": counted,
    "EyeLike": eye_like,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Split": split_along,
    "Slice": slice_axes,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "Trilu": triangle,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "CenterCropPad": center_crop_pad,
    "HannWindow": windows_of((0.5, -0.5)),
    "HammingWindow": windows_of((25 / 46, -21 / 46)),
    "BlackmanWindow": windows_of((0.42, -0.5, 0.08)),
    "MelWeightMatrix": mel_weights,
}
