"""Operators of ONNX that read images between their elements: resize, sampling at a grid, regions, deformed windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.grids import CUBIC, cubic, near_weight, read_at, sampled
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axes_of, integers, known, within_limits


def resize(node: OnnxNode, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """An image in another size: each axis by a matrix of weights, or by its nearest elements."""
    if node.opset < 11:
        roi, scales = None, roi if scales is None else scales
    axes = axes_of(node, None, x.ndim) or tuple(range(x.ndim))
    factors = None if scales is None or not scales.size else [float(s) for s in known(scales, "the scales").ravel()]
    wanted = None if sizes is None or not sizes.size else integers(sizes, "the sizes")
    if factors is None and wanted is None:
        raise ModelError("there are neither scales nor sizes")
    if factors is None:
        assert wanted is not None
        factors, lengths = by_policy(node, [x.shape[a] for a in axes], wanted)
    else:
        lengths = [math.floor(np.float32(x.shape[a] * s)) for a, s in zip(axes, factors, strict=True)]
    region = None if roi is None or not roi.size else known(roi, "the region").astype(np.float64).ravel()
    within_limits([max(n, 1) for n in lengths])
    made = x
    for i, (axis, factor, length) in enumerate(zip(axes, factors, lengths, strict=True)):
        ends = (0.0, 1.0) if region is None else (region[i], region[i + len(axes)])
        if node.get("coordinate_transformation_mode", "") == "tf_crop_and_resize" and wanted is None:
            length = math.floor(x.shape[axis] * (ends[1] - ends[0]) * factor)
        if (factor, length) != (1.0, x.shape[axis]) or ends != (0.0, 1.0):
            made = resize_axis(node, made, axis, factor, length, ends)
    return made


def by_policy(node: OnnxNode, have: list[int], wanted: list[int]) -> tuple[list[float], list[int]]:
    """The factors that lead to given sizes, and the sizes; with one factor for all where the aspect is kept."""
    factors = [m / n for m, n in zip(wanted, have, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return factors, wanted
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(have), [math.floor(one * n + 0.5) for n in have]


def resize_axis(node: OnnxNode, x: Any, axis: int, factor: float, length: int, ends: tuple[float, float]) -> Any:
    """One axis of an image in another size."""
    n, mode = x.shape[axis], node.get("mode", "nearest")
    at = places(node, n, factor, length, ends)
    if mode == "nearest":
        made = wnp.take(x, np.clip(nearest(nearest_mode(node, factor), at), 0, n - 1), axis=axis)
    else:
        weights = weight_matrix(node, n, factor, at, mode)
        wide = x if dtypes.is_float(x.dtype) else x.astype(np.float32)
        made = wnp.moveaxis(wnp.tensordot(wide, weights.T.astype(wide.dtype), axes=([axis], [0])), -1, axis)
        made = made.astype(x.dtype, copy=False)
    if node.get("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return made
    outside = ((at < 0) | (at > n - 1)).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return wnp.where(outside, node.get("extrapolation_value", 0.0), made).astype(x.dtype, copy=False)


def places(node: OnnxNode, n: int, factor: float, length: int, ends: tuple[float, float]) -> Any:
    """The coordinates, in an axis of n elements, of the elements of the new axis."""
    i, mode = np.arange(length, dtype=np.float64), node.get("coordinate_transformation_mode", "half_pixel")
    if node.opset < 11:
        mode = "asymmetric"
    if mode == "half_pixel":
        return (i + 0.5) / factor - 0.5
    if mode == "half_pixel_symmetric":
        adjustment = length / (factor * n)
        return n / 2 * (1 - adjustment) + (i + 0.5) / factor - 0.5
    if mode == "pytorch_half_pixel":
        return (i + 0.5) / factor - 0.5 if length > 1 else np.zeros(length)
    if mode == "align_corners":  # the length that a factor asks for need not be whole
        return i * (n - 1) / (factor * n - 1) if factor * n > 1 else np.zeros(length)
    if mode == "asymmetric":
        return i / factor
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / factor
    if mode == "tf_crop_and_resize":
        start, stop = ends
        if length > 1:
            return start * (n - 1) + i * (stop - start) * (n - 1) / (length - 1)
        return np.full(length, 0.5 * (start + stop) * (n - 1))
    raise ModelError(f"the coordinates are {mode!r}")


def nearest_mode(node: OnnxNode, factor: float) -> Any:
    """The way to the nearest element; before opset 11, which states none, that of ONNX Runtime."""
    if node.opset < 11:
        return "ceil" if factor < 1 else "floor"
    return node.get("nearest_mode", "round_prefer_floor")


def nearest(how: str, at: Any) -> Any:
    """Coordinates as whole numbers: 3 / float32(0.6) is 5, as it is in single precision."""
    at = at.astype(np.float32)
    if how == "round_prefer_floor":
        return np.ceil(at - 0.5).astype(np.int64)
    if how == "round_prefer_ceil":
        return np.floor(at + 0.5).astype(np.int64)
    if how not in ("floor", "ceil"):
        raise ModelError(f"the nearest element is {how!r}")
    return (np.floor if how == "floor" else np.ceil)(at).astype(np.int64)


def weight_matrix(node: OnnxNode, n: int, factor: float, at: Any, mode: str) -> Any:
    """The weight of each old element in each new one; elements beyond the ends repeat the ends, or are excluded."""
    stretch = max(1.0, 1 / factor) if node.get("antialias", 0) else 1.0
    reach = (2.0 if mode == "cubic" else 1.0) * stretch
    first = np.floor(at - reach).astype(np.int64)
    made = np.zeros((len(at), n))
    outside, rows = node.get("exclude_outside", 0), np.arange(len(at))
    for step in range(math.ceil(2 * reach) + 2):
        index = first + step
        distance = (at - index) / stretch
        weight = (
            cubic(distance, node.get("cubic_coeff_a", CUBIC))
            if mode == "cubic"
            else np.maximum(1 - np.abs(distance), 0)
        )
        if outside:
            weight = np.where((index >= 0) & (index < n), weight, 0)
        np.add.at(made, (rows, np.clip(index, 0, n - 1)), weight)
    if outside or node.get("antialias", 0):
        made = made / made.sum(axis=1, keepdims=True)
    return made


def upsample(node: OnnxNode, x: Any, scales: Any = None) -> Any:
    """The older resize, by factors."""
    given = np.array(node.need("scales"), np.float64) if scales is None else scales
    return resize(OnnxNode(node.op, 10, node.name, node.attributes), x, given)


def grid_sample(node: OnnxNode, x: Any, grid: Any) -> Any:
    """An image read at the places of a grid, whose corners are -1 and 1."""
    mode = node.get("mode", "linear")
    padding, corners = node.get("padding_mode", "zeros"), bool(node.get("align_corners", 0))
    return sampled(x, grid, {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), padding, corners)


def affine_grid(node: OnnxNode, theta: Any, size: Any) -> Any:
    """The places of a grid moved by a matrix for each sample."""
    lengths = integers(size, "the size")[2:]
    within_limits(lengths)
    corners = node.get("align_corners", 0)
    lines = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1 for n in lengths]
    places = reversed(np.meshgrid(*lines, indexing="ij"))
    mesh = np.stack([*places, np.ones(lengths)], -1).astype(theta.dtype)
    made = wnp.einsum("pk,nok->npo", mesh.reshape(-1, len(lengths) + 1), theta)
    return made.reshape(theta.shape[0], *lengths, len(lengths))


def bilinear_points(x: Any, batch: Any, y: Any, z: Any) -> list[Any]:
    """The parts of the four elements around places [...] in x [n, c, h, w], 0 beyond one outside: [..., c] each."""
    h, w = x.shape[2:]
    outside = (y < -1) | (y > h) | (z < -1) | (z > w)
    y, z = wnp.clip(y, 0, h - 1), wnp.clip(z, 0, w - 1)
    top, left = wnp.floor(y), wnp.floor(z)
    dy, dz = y - top, z - left
    top, left = top.astype(np.int64), left.astype(np.int64)
    below, right = wnp.minimum(top + 1, h - 1), wnp.minimum(left + 1, w - 1)
    rows = wnp.moveaxis(x, 1, -1)
    corners = (
        (top, left, (1 - dy) * (1 - dz)),
        (top, right, (1 - dy) * dz),
        (below, left, dy * (1 - dz)),
        (below, right, dy * dz),
    )
    return [wnp.where(outside, 0, weight)[..., None] * rows[batch, a, b] for a, b, weight in corners]


def roi_align(node: OnnxNode, x: Any, rois: Any, batches: Any) -> Any:
    """Regions as images of one size: the mean or the largest of points in each of their cells."""
    height, width = node.get("output_height", 1), node.get("output_width", 1)
    half = 0.5 if node.opset >= 16 and node.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    boxes = known(rois, "the regions").astype(np.float64) * node.get("spatial_scale", 1.0) - half
    made = []
    for box, batch in zip(boxes, integers(batches, "the samples"), strict=True):
        size = box[2:] - box[:2]
        if not half:
            size = np.maximum(size, 1.0)
        cell = size / (width, height)
        given = node.get("sampling_ratio", 0)
        counts = [given or max(math.ceil(s / m), 1) for s, m in zip(size, (width, height), strict=True)]
        lines = [
            (start + (np.arange(m * k) + 0.5) * step / k).astype(x.dtype)
            for start, m, k, step in zip(box[:2], (width, height), counts, cell, strict=True)
        ]
        y, z = np.meshgrid(lines[1], lines[0], indexing="ij")
        parts = [
            part.reshape(height, counts[1], width, counts[0], -1)
            for part in bilinear_points(x, np.full(y.shape, batch), y, z)
        ]
        if node.get("mode", "avg") == "max":
            largest = wnp.max(wnp.stack(parts), axis=(0, 2, 4))
            made.append(wnp.moveaxis(largest, -1, 0))
        else:
            made.append(wnp.moveaxis(wnp.mean(sum(parts), axis=(1, 3)), -1, 0))
    return wnp.stack(made) if made else wnp.zeros((0, x.shape[1], height, width), x.dtype)


def max_roi_pool(node: OnnxNode, x: Any, rois: Any) -> Any:
    """The largest element in each cell of regions."""
    height, width = node.need("pooled_shape")
    made = []
    for row in known(rois, "the regions"):
        left, top, right, bottom = (np.floor(row[1:] * node.get("spatial_scale", 1.0) + 0.5)).astype(int)
        image = x[int(row[0])]
        tall, broad = max(bottom - top + 1, 1), max(right - left + 1, 1)
        cells = []
        for i, j in np.ndindex(height, width):
            part = image[:, cell_of(top, tall, i, height, x.shape[2]), cell_of(left, broad, j, width, x.shape[3])]
            cells.append(wnp.max(part, axis=(1, 2)) if 0 not in part.shape else wnp.zeros(x.shape[1], x.dtype))
        made.append(wnp.stack(cells, axis=-1).reshape(x.shape[1], height, width))
    return wnp.stack(made)


def cell_of(start: int, size: int, i: int, count: int, limit: int) -> slice:
    """The i-th of `count` parts of a side, clipped to an image; parts may overlap."""
    ends = (start + math.floor(i * size / count), start + math.ceil((i + 1) * size / count))
    return slice(*[min(max(end, 0), limit) for end in ends])


def deform_conv(node: OnnxNode, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    """A convolution whose windows read between elements, moved by offsets."""
    if x.ndim != 4:
        raise ModelError(f"a deformed convolution of an array with {x.ndim} axes; images with two are covered")
    n, c, h, wide = x.shape
    kh, kw = w.shape[2:]
    stride, dilation, pads = node.each("strides", 1, 2), node.each("dilations", 1, 2), node.each("pads", 0, 4)
    groups, shared = node.get("group", 1), node.get("offset_group", 1)
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, shared, kh, kw, 2, oh, ow)
    y = np.arange(oh)[:, None] * stride[0] - pads[0] + (np.arange(kh) * dilation[0]).reshape(kh, 1, 1, 1)
    z = np.arange(ow)[None, :] * stride[1] - pads[1] + (np.arange(kw) * dilation[1]).reshape(1, kw, 1, 1)
    at = [moves[:, :, :, :, 0] + y.astype(x.dtype), moves[:, :, :, :, 1] + z.astype(x.dtype)]
    images = x.reshape(n * shared, c // shared, h, wide)
    flat = [place.reshape(n * shared, 1, -1) for place in at]
    found = read_between(images, flat)
    seen = found.reshape(n, shared, c // shared, kh, kw, oh, ow)
    if mask is not None:
        seen = seen * mask.reshape(n, shared, 1, kh, kw, oh, ow)
    parts = seen.reshape(n, groups, c // groups, kh, kw, oh, ow)
    kernels = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    made = wnp.einsum("ngcijyz,gocij->ngoyz", parts, kernels).reshape(n, w.shape[0], oh, ow)
    return made if bias is None else made + bias[:, None, None]


def read_between(x: Any, at: list[Any]) -> Any:
    """Images at places between elements, 0 outside, by the four elements around each."""
    lower = [wnp.floor(place) for place in at]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=2):
        weight: Any = 1.0
        for place, base, offset in zip(at, lower, corner, strict=True):
            weight = weight * near_weight(place - base, offset)
        index = [(base + offset).astype(np.int64) for base, offset in zip(lower, corner, strict=True)]
        total = total + wnp.expand_dims(weight, 1) * read_at(x, index, "zeros", False)
    return total


TABLE: Mapping[str, Handler] = {
    "Resize": resize,
    "Upsample": upsample,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
    "RoiAlign": roi_align,
    "MaxRoiPool": max_roi_pool,
    "DeformConv": deform_conv,
}
