"""Sums of padded arrays, which derivatives of slices make, as concatenations."""

from __future__ import annotations

from typing import Any

from wholestep.dims import surely_above
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import at_roots, defining_node, new_value, rewrite
from wholestep.passes.rules.concats import pad_axis, parts_along


def pads_to_concat(graph: Graph) -> Graph:
    """Concatenate two padded arrays that do not overlap instead of adding them.

        a = pad(x, before=(0,), after=(2,)); b = pad(y, before=(3,), after=(0,)); c = add(a, b)
        -->
        c = concat(x, y, axis=0)

    Equal but for the sign of zero: adding 0.0 turns -0.0 into 0.0, and concatenation keeps it.
    """
    return rewrite(graph, at_roots({"add": concat_of_pads}))


def concat_of_pads(node: Node) -> Value | None:
    """A sum of two pads whose contents are disjoint along one axis and aligned along the others, as one pad of their
    concatenation."""
    a, b = [defining_node(v, "pad") for v in node.inputs]
    if a is None or b is None or any((*a.params["interior"], *b.params["interior"])):
        return None
    apart = [i for i in range(node.outputs[0].type.ndim) if pad_bounds(a, i) != pad_bounds(b, i)]
    if len(apart) != 1:
        return None
    (axis,) = apart
    orders = [(p, q) for p, q in ((a, b), (b, a)) if surely_above(gap_between(p, q, axis), -1)]
    if not orders:
        return None
    (first, second), gap = orders[0], gap_between(*orders[0], axis)
    left = first.inputs[0]
    left = pad_axis(node, left, axis, (0, gap)) if gap != 0 else left
    parts = [part for v in (left, second.inputs[0]) for part in parts_along(v, axis)]
    whole = new_value(node, "concat", *parts, axis=axis)
    before = tuple(first.params["before"])
    after = second.params["after"]
    if not any((*before, *after)):
        return whole
    return new_value(node, "pad", whole, before=before, after=after, interior=(0,) * len(before))


def gap_between(first: Node, second: Node, axis: int) -> Any:
    """The number of positions between the contents of two pads, below 0 where they overlap."""
    return pad_bounds(second, axis)[0] - pad_bounds(first, axis)[1]


def pad_bounds(pad: Node, axis: int) -> tuple[Any, Any]:
    """The first and one past the last position of a pad's content along an axis."""
    start = pad.params["before"][axis]
    return start, start + pad.inputs[0].shape[axis]
