"""Operators of ONNX that read and write at positions: gather, scatter, one-hot, sorting, and data-dependent shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import (
    Handler,
    OnnxNode,
    axis_within,
    integer,
    known,
    within_limits,
)
from wholestep.nn.ordering import top_k

REDUCTIONS: Mapping[str, Any] = {"add": wnp.add, "mul": wnp.multiply, "max": wnp.maximum, "min": wnp.minimum}


def along(ndim: int, axis: int, n: int) -> Any:
    """The numbers 0 to n - 1 along `axis` of `ndim` axes."""
    return np.arange(n).reshape([-1 if i == axis else 1 for i in range(ndim)])


def counted_back(index: Any, n: int) -> Any:
    """Positions, negative ones counted from the end."""
    return wnp.where(index < 0, index + n, index)


def gather(node: OnnxNode, x: Any, index: Any) -> Any:
    """Elements at positions of one axis."""
    axis = axis_within(node.get("axis", 0), x.ndim)
    return wnp.take(x, index, axis=axis)


def gather_elements(node: OnnxNode, x: Any, index: Any) -> Any:
    """Elements at positions of one axis, for each place of the index."""
    axis = axis_within(node.get("axis", 0), x.ndim)
    # of this library also where x is a table of the model, since a plain one cannot be indexed by traced positions
    return wnp.array(x)[tuple(places_along(counted_back(index, x.shape[axis]), axis))]


def places_along(index: Any, axis: int) -> list[Any]:
    """An index for each axis: `index` along `axis`, and each element's own position along the others."""
    return [index if i == axis else along(index.ndim, i, n) for i, n in enumerate(index.shape)]


def gather_nd(node: OnnxNode, x: Any, index: Any) -> Any:
    """Slices of x at indices of the axes after the batch axes that x and `index` share."""
    shared, count = node.get("batch_dims", 0), index.shape[-1]
    lead = [along(index.ndim - 1, i, n) for i, n in enumerate(index.shape[:shared])]
    return wnp.array(x)[(*lead, *[index[..., i] for i in range(count)])]


def scattered(x: Any, at: Any, updates: Any, how: str) -> Any:
    """A copy of x with elements at places replaced by updates or combined with them."""
    made = wnp.array(x)
    if how == "none":
        made[at] = updates
    elif how in REDUCTIONS:
        REDUCTIONS[how].at(made, at, updates)
    else:
        raise ModelError(f"the reduction is {how!r}")
    return made


def scatter_nd(node: OnnxNode, x: Any, index: Any, updates: Any) -> Any:
    """A copy with parts at positions of the first axes written."""
    at = tuple([index[..., i] for i in range(index.shape[-1])])
    return scattered(x, at, updates, node.get("reduction", "none"))


def scatter_elements(node: OnnxNode, x: Any, index: Any, updates: Any) -> Any:
    """A copy with elements at positions of one axis written."""
    axis = axis_within(node.get("axis", 0), x.ndim)
    at = tuple(places_along(counted_back(index, x.shape[axis]), axis))
    return scattered(x, at, updates, node.get("reduction", "none"))


def tensor_scatter(node: OnnxNode, cache: Any, update: Any, starts: Any = None) -> Any:
    """A cache with an update written along its sequence from a position of each sample on."""
    axis = axis_within(node.get("axis", -2), cache.ndim)
    begin = np.zeros(cache.shape[0], np.int64) if starts is None else starts
    place = begin.reshape(-1, *[1] * (cache.ndim - 1)) + along(cache.ndim, axis, update.shape[axis])
    if node.get("mode", "linear") == "circular":
        place = place % cache.shape[axis]
    at = [place if i == axis else along(cache.ndim, i, n) for i, n in enumerate(update.shape)]
    return scattered(cache, tuple(at), update, "none")


def one_hot(node: OnnxNode, index: Any, depth: Any, values: Any) -> Any:
    """A new axis with one value at a position and another elsewhere."""
    count = int(known(depth, "the depth").reshape(-1)[0])
    axis = axis_within(node.get("axis", -1), index.ndim + 1)
    within_limits([*index.shape, count])
    index = index.astype(np.int64)
    hot = wnp.expand_dims(counted_back(index, count), axis) == along(index.ndim + 1, axis, count)
    return wnp.where(hot, values[1], values[0])


def extremes(node: OnnxNode, x: Any, k: Any = None) -> Any:
    """The k largest or smallest elements in order, and where they are; of equal ones the first."""
    count = node.need("k") if k is None else integer(k, "k")
    axis = axis_within(node.get("axis", -1), x.ndim)
    if not 0 <= count <= x.shape[axis]:
        raise ModelError(f"{count} elements of an axis of {x.shape[axis]}")
    return top_k(x, count, axis, largest=bool(node.get("largest", 1)))


def compress(node: OnnxNode, x: Any, condition: Any) -> Any:
    """The slices of an axis, or of all elements, where a known condition holds."""
    where = np.flatnonzero(known(condition, "the condition"))
    return wnp.take(x.reshape(-1), where) if node.get("axis") is None else wnp.take(x, where, axis=node.get("axis"))


def nonzero(node: OnnxNode, x: Any) -> Any:
    """The positions of the elements other than 0 of an array of known numbers."""
    return np.array(np.nonzero(known(x, "what is counted")), np.int64)


def unique(node: OnnxNode, x: Any) -> Any:
    """Unique known elements or slices, sorted or as they come, with positions, inverse and counts."""
    axis = node.get("axis")
    given = known(x, "what is compared")
    found, first, inverse, counts = np.unique(
        given, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not node.get("sorted", 1):
        order = np.argsort(first)
        found, first, counts = np.take(found, order, axis=axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return (found, *[part.reshape(-1).astype(np.int64) for part in (first, inverse, counts)])


def reverse_sequence(node: OnnxNode, x: Any, lengths: Any) -> Any:
    """The first elements of each sequence in reverse order."""
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    places = along(x.ndim, time, x.shape[time])
    each = lengths.reshape([-1 if i == batch else 1 for i in range(x.ndim)])
    order = wnp.where(places < each, each - 1 - places, places)
    return wnp.take_along_axis(x, wnp.broadcast_to(order, x.shape), time)


def non_max_suppression(
    node: OnnxNode, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None
) -> Any:
    """Boxes of each batch and class, best first, that overlap none better by more than a share; all of it known."""
    corners, worth = known(boxes, "the boxes").astype(np.float64), known(scores, "the scores")
    count = 0 if most is None else int(known(most, "the count").reshape(-1)[0])
    share = 0.0 if overlap is None else float(known(overlap, "the threshold").reshape(-1)[0])
    floor = None if least is None else float(known(least, "the threshold").reshape(-1)[0])
    if node.get("center_point_box", 0):
        half = corners[..., 2:] / 2
        corners = np.concatenate([corners[..., :2] - half, corners[..., :2] + half], -1)
    low, high = np.minimum(corners[..., :2], corners[..., 2:]), np.maximum(corners[..., :2], corners[..., 2:])
    found = [
        (batch, kind, i)
        for batch, kind in np.ndindex(*worth.shape[:2])
        for i in suppressed(low[batch], high[batch], worth[batch, kind], count, share, floor)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


def suppressed(low: Any, high: Any, worth: Any, count: int, share: float, floor: float | None) -> list[int]:
    """The boxes that are kept, of one batch and class."""
    kept: list[int] = []
    for i in np.argsort(-worth, kind="stable"):
        if len(kept) >= count or (floor is not None and not worth[i] > floor):
            break
        inside = np.maximum(np.minimum(high[i], high[kept]) - np.maximum(low[i], low[kept]), 0).prod(-1)
        union = (high[i] - low[i]).prod(-1) + (high[kept] - low[kept]).prod(-1) - inside
        if not (inside > share * union).any():
            kept.append(int(i))
    return kept


TABLE: Mapping[str, Handler] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "TensorScatter": tensor_scatter,
    "OneHot": one_hot,
    "TopK": extremes,
    "Compress": compress,
    "NonZero": nonzero,
    "Unique": unique,
    "ReverseSequence": reverse_sequence,
    "NonMaxSuppression": non_max_suppression,
}
