"""Scatters and gathers whose places are known in advance become comparisons and slices, which fuse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.algebra import full_like, is_zero
from wholestep.passes.places import permuted, reshaped
from wholestep.passes.rewrite import made_by, make, rewrite

INTEGER = np.dtype(np.int64)


def indicators(graph: Graph) -> Graph:
    """Write where a place is equal to a label instead of adding at the label, if each row has one label.

        rows = iota(shape=(4,)); s = scatter_add(full(0, shape=(4, 9)), u, rows, label, axes=(0, 1))
        -->
        known = gather(iota(shape=(9,)), label); s = select(iota(axis=1) == broadcast(known), broadcast(0 + u), 0)

    The gather counts negative labels from the end and refuses those out of range, as the scatter did. Exact: nothing
    is added twice, and `0 + u` turns -0.0 into 0.0 as the scatter does.
    """
    return rewrite(graph, replaced)


def replaced(node: Node) -> Value | None:
    """What a scatter or a gather at known places is the same as."""
    if node.op.name == "scatter_add" and is_zero(node.inputs[0]):
        rows = one_label(node)
        return None if rows is None else indicator(node, rows)
    if node.op.name == "gather" and len(node.inputs) == 2:
        return counted_gather(node)
    return None


class Rows(NamedTuple):
    """Which indexed axis the label is on, and for each axis of the indices the operand's axis that it runs along."""

    axis: int
    label: Value
    along: dict[int, int]


def one_label(node: Node) -> Rows | None:
    """The label where every other index counts along an axis of its own, so that no two writes meet."""
    x, _, *indices = node.inputs
    shape = indices[0].shape
    along: dict[int, int] = {}
    label: tuple[int, Value] | None = None
    for axis, index in zip(node.params["axes"], indices, strict=True):
        d = counts_along(index)
        if d is not None and d not in along and shape[d] == x.shape[axis]:
            along[d] = axis
        elif label is None:
            label = (axis, index)
        else:
            return None
    if label is None or any(n != 1 for d, n in enumerate(shape) if d not in along):
        return None
    return Rows(*label, along)


def counts_along(index: Value) -> int | None:
    """The axis along which an index array counts 0, 1, 2, …, repeated along the others."""
    repeated = made_by(index, "broadcast")
    source = repeated.inputs[0] if repeated else index
    counter = made_by(source, "iota")
    if counter is None:
        return None
    axis: int = counter.params["axis"]
    if counter.outputs[0].shape[axis] - 1 > np.iinfo(source.dtype).max:
        return None  # it starts again from 0
    return repeated.params["axes"][axis] if repeated else axis


def indicator(node: Node, rows: Rows) -> Value:
    """The writes as a choice at every place of the operand."""
    x, u = node.inputs[:2]
    count = x.shape[rows.axis]
    dtype = rows.label.dtype if count - 1 <= np.iinfo(rows.label.dtype).max else INTEGER
    line = make(node, "iota", shape=(count,), axis=0, dtype=dtype)
    known = make(node, "gather", line, rows.label, axes=(0,))
    here = make(node, "iota", shape=x.shape, axis=rows.axis, dtype=dtype)
    hit = make(node, "equal", here, to_places(node, known, rows.along))
    rest = [a for a in range(x.ndim) if a not in node.params["axes"]]
    places = {**rows.along, **dict(enumerate(rest, rows.label.ndim))}
    zero = make(node, "full", value=0, shape=u.shape, dtype=u.dtype)
    added = make(node, "add", zero, u)
    return make(node, "select", hit, to_places(node, added, places), full_like(node, 0))


def to_places(node: Node, v: Value, places: dict[int, int]) -> Value:
    """v with its axes at these axes of the node's output, its axes of size 1 that have no place dropped."""
    shape = node.outputs[0].shape
    kept = [d for d in range(v.ndim) if d in places]
    v = reshaped(node, v, tuple([v.shape[d] for d in kept]))
    order = sorted(range(len(kept)), key=lambda i: places[kept[i]])
    axes = tuple([places[kept[i]] for i in order])
    return make(node, "broadcast", permuted(node, v, tuple(order)), shape=shape, axes=axes)


def counted_gather(node: Node) -> Value | None:
    """A gather at 0, 1, 2, … is a slice, its axis moved to the front."""
    x, index = node.inputs
    (axis,) = node.params["axes"]
    if index.ndim != 1 or counts_along(index) is None or index.shape[0] > x.shape[axis]:
        return None
    stop = tuple([index.shape[0] if a == axis else n for a, n in enumerate(x.shape)])
    part = x if stop == x.shape else make(node, "slice", x, start=(0,) * x.ndim, stop=stop, step=(1,) * x.ndim)
    return permuted(node, part, (axis, *[a for a in range(x.ndim) if a != axis]))
