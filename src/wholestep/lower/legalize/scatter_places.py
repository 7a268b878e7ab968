"""Scatter places: the test that they are distinct, and the order of updates on a target with parallel work items."""

from __future__ import annotations

import math
from typing import Literal

from wholestep.ir.graph import Node
from wholestep.lower.target import LookLimits
from wholestep.passes.one_hot_indexing import iota_axis

ScatterWay = Literal["in order", "at once", "by element", "sorted"]
"""The order of a scatter's updates: place after place; all places at once, since they are distinct; each element reads
all places, or the run of its own among sorted ones."""


def counted_places(node: Node) -> dict[int, int]:
    """The axes of the indices along which places count along an axis of the operand, each with that axis."""
    found: dict[int, int] = {}
    for axis, index in zip(node.params["axes"], node.inputs[2:], strict=True):
        along = iota_axis(index)
        if along is not None:
            found.setdefault(along, axis)
    return found


def are_distinct(node: Node) -> bool:
    """Test whether no two places of a scatter are equal."""
    counted = counted_places(node)
    return all(n == 1 or d in counted for d, n in enumerate(node.inputs[2].shape))


def own_places(node: Node) -> dict[int, int]:
    """The axes of the indices along which an element reads one step alone, that of its own position along an axis."""
    x, indices = node.inputs[0], node.inputs[2]
    return {d: a for d, a in counted_places(node).items() if indices.shape[d] == x.shape[a]}


def scatter_way(node: Node, limits: LookLimits | None) -> ScatterWay:
    """The order of a scatter's updates on a target with these limits."""
    if limits is None:
        return "in order"
    if are_distinct(node):
        return "at once"
    x, indices = node.inputs[0], node.inputs[2]
    own = own_places(node)
    places = math.prod([n for d, n in enumerate(indices.shape) if d not in own])
    if not isinstance(places * x.type.size, int):
        return "in order"
    if limits.allow(places, x.type.size):
        return "by element"
    return "in order" if indices.type.size <= limits.few else "sorted"
