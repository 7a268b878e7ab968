"""One-hot indexing: scatters and gathers at known positions as comparisons and slices, which fuse."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wholestep.dims import Size
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import at_roots, defining_node, new_value, rewrite
from wholestep.passes.rules.arithmetic import is_positive_zero
from wholestep.passes.rules.movement import permute_value, reshape_value
from wholestep.primitives.family import number_of

INTEGER = np.dtype(np.int64)


def one_hot_indexing(graph: Graph) -> Graph:
    """Replace a scatter at one label in each row by a comparison of positions with labels, and a select.

        rows = iota(shape=(4,)); s = scatter_add(full(0, shape=(4, 9)), u, rows, label, axes=(0, 1))
        -->
        known = gather(iota(shape=(9,)), label); s = select(iota(axis=1) == broadcast(known), broadcast(0 + u), 0)

    The gather counts negative labels from the end and refuses those out of range, as the scatter did. Exact: nothing
    is written twice, and `0 + u` turns -0.0 into 0.0 as `scatter_add` does; a `scatter` writes u itself.
    """
    rules = {"scatter_add": add_to_select, "scatter": set_to_select, "gather": gather_as_slice}
    return rewrite(graph, at_roots(rules))


def add_to_select(node: Node) -> Value | None:
    """An addition to zeros that updates no element twice, as a selection."""
    rows = single_label(node) if is_positive_zero(node.inputs[0]) else None
    if rows is None:
        return None
    u = node.inputs[1]
    zero = new_value(node, "full", value=0, shape=u.shape, dtype=u.dtype)
    return write_as_select(node, rows, new_value(node, "add", zero, u))


def set_to_select(node: Node) -> Value | None:
    """A scatter without a combiner into an array of one number, which writes no element twice, as a selection."""
    rows = single_label(node) if number_of(node.inputs[0]) is not None else None
    return None if rows is None else write_as_select(node, rows, node.inputs[1])


class LabelIndex(NamedTuple):
    """The indexed axis that holds the label, and the operand's axis for each axis of the other indices."""

    axis: int
    label: Value
    along: dict[int, int]


def single_label(node: Node) -> LabelIndex | None:
    """The label index where every other index is an iota along an axis of its own, so that no two writes collide; an
    index into an axis of size 1 is ignored."""
    x, _, *indices = node.inputs
    shape = indices[0].shape
    along: dict[int, int] = {}
    label: tuple[int, Value] | None = None
    for axis, index in zip(node.params["axes"], indices, strict=True):
        d = iota_axis(index)
        if d is not None and d not in along and shape[d] == x.shape[axis]:
            along[d] = axis
        elif x.shape[axis] == 1 and number_of(index) == 0:
            continue
        elif label is None:
            label = (axis, index)
        else:
            return None
    if label is None or any(n != 1 for d, n in enumerate(shape) if d not in along):
        return None
    return LabelIndex(*label, along)


def iota_axis(index: Value) -> int | None:
    """The axis along which an index array is an iota, broadcast along the others; None for other arrays."""
    repeated = defining_node(index, "broadcast")
    source = repeated.inputs[0] if repeated else index
    counter = defining_node(source, "iota")
    if counter is None:
        return None
    axis: int = counter.params["axis"]
    if not counts_places(source.dtype, counter.outputs[0].shape[axis]):
        return None  # it starts again from 0
    return repeated.params["axes"][axis] if repeated else axis


def counts_places(dtype: Any, size: Size) -> bool:
    """Test whether an integer dtype holds every position along an axis; a symbolic size may be any int64."""
    largest = int(np.iinfo(dtype).max)
    return size - 1 <= largest if isinstance(size, int) else largest >= np.iinfo(np.int64).max


def write_as_select(node: Node, rows: LabelIndex, written: Value) -> Value:
    """The scatter as a select at every position of the operand, between the written value and the operand."""
    x = node.inputs[0]
    count = x.shape[rows.axis]
    dtype = rows.label.dtype if counts_places(rows.label.dtype, count) else INTEGER
    line = new_value(node, "iota", shape=(count,), axis=0, dtype=dtype)
    known = new_value(node, "gather", line, rows.label, axes=(0,))
    here = new_value(node, "iota", shape=x.shape, axis=rows.axis, dtype=dtype)
    hit = new_value(node, "equal", here, broadcast_to_axes(node, known, rows.along))
    rest = [a for a in range(x.ndim) if a not in node.params["axes"]]
    places = {**rows.along, **dict(enumerate(rest, rows.label.ndim))}
    return new_value(node, "select", hit, broadcast_to_axes(node, written, places), x)


def broadcast_to_axes(node: Node, v: Value, places: dict[int, int]) -> Value:
    """v broadcast to the node's output, its axes at these places; axes of size 1 without a place are dropped."""
    shape = node.outputs[0].shape
    kept = [d for d in range(v.ndim) if d in places]
    v = reshape_value(node, v, tuple([v.shape[d] for d in kept]))
    order = sorted(range(len(kept)), key=lambda i: places[kept[i]])
    axes = tuple([places[kept[i]] for i in order])
    return new_value(node, "broadcast", permute_value(node, v, tuple(order)), shape=shape, axes=axes)


def gather_as_slice(node: Node) -> Value | None:
    """A gather at an iota as a slice, its axis moved to the front."""
    if len(node.inputs) != 2:
        return None
    x, index = node.inputs
    (axis,) = node.params["axes"]
    if index.ndim != 1 or iota_axis(index) is None or index.shape[0] > x.shape[axis]:
        return None
    stop = tuple([index.shape[0] if a == axis else n for a, n in enumerate(x.shape)])
    part = x if stop == x.shape else new_value(node, "slice", x, start=(0,) * x.ndim, stop=stop, step=(1,) * x.ndim)
    return permute_value(node, part, (axis, *[a for a in range(x.ndim) if a != axis]))
