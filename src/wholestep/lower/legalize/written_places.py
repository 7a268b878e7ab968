"""Written places: constant indices of scatters, which are sorted at compile time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wholestep.ir.graph import NDArray, Node, Value

HELD = 2**16
"""The most places whose runs a program holds, where fewer than a quarter of them are written."""


class PlaceRuns(NamedTuple):
    """The positions of places in their stable order, and the positions in it at which the run of each place starts."""

    order: NDArray
    starts: NDArray


def written_runs(node: Node) -> PlaceRuns | None:
    """The runs of a scatter's places; None where an index is not constant, or is out of range, which fails at run
    time."""
    x, axes = node.inputs[0], node.params["axes"]
    sizes = [x.shape[a] for a in axes]
    count, total = node.inputs[2].type.size, math.prod(sizes)
    if total > max(HELD, 4 * count):
        return None
    numbers = np.zeros(count, np.int64)
    for index, n in zip(node.inputs[2:], sizes, strict=True):
        value = held_array(index)
        if value is None or not (-n <= value.min() and value.max() < n):
            return None
        wide = value.reshape(-1).astype(np.int64)
        numbers = numbers * n + np.where(wide < 0, wide + n, wide)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(total + 1))
    return PlaceRuns(order, starts.astype(np.int32))


def held_array(v: Value) -> NDArray | None:
    """The array of a value that is a constant, a counter or one number, or is moved from one; None for others."""
    moves: list[Node] = []
    while v.node is not None and v.node.op.view:
        moves.append(v.node)
        v = v.node.inputs[0]
    if v.node is None or not (v.node.op.literal or v.node.op.generated) or v.node.inputs:
        return None
    found = np.broadcast_to(v.node.op.ref(**v.node.params), v.shape)
    for node in reversed(moves):
        found = node.op.ref(found, **node.params)
    return np.asarray(found)
