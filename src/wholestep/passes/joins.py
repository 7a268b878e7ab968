"""Parts that the derivative of a slice puts among zeros and adds are put beside each other instead."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.places import padded
from wholestep.passes.rewrite import made_by, make, rewrite


def joins(graph: Graph) -> Graph:
    """Join two padded arrays that do not overlap instead of adding them.

        a = pad(x, before=(0,), after=(2,)); b = pad(y, before=(3,), after=(0,)); c = add(a, b)
        -->
        c = concat(x, y, axis=0)

    Equal but for the sign of zero: adding 0.0 turns -0.0 into 0.0, and joining keeps it.
    """
    return rewrite(graph, lambda node: joined(node) if node.op.name == "add" else None)


def joined(node: Node) -> Value | None:
    """Two parts that lie apart along one axis and agree along the others, in one array."""
    a, b = [made_by(v, "pad") for v in node.inputs]
    if a is None or b is None or any((*a.params["interior"], *b.params["interior"])):
        return None
    apart = [i for i in range(node.outputs[0].type.ndim) if edges(a, i) != edges(b, i)]
    if len(apart) != 1:
        return None
    (axis,) = apart
    first, second = sorted((a, b), key=lambda p: edges(p, axis))
    end, start = edges(first, axis)[1], edges(second, axis)[0]
    if start < end:
        return None
    left = first.inputs[0]
    left = padded(node, left, axis, (0, start - end)) if start > end else left
    whole = make(node, "concat", left, second.inputs[0], axis=axis)
    before = tuple(first.params["before"])
    after = second.params["after"]
    if not any((*before, *after)):
        return whole
    return make(node, "pad", whole, before=before, after=after, interior=(0,) * len(before))


def edges(pad: Node, axis: int) -> tuple[Any, Any]:
    """Where the padded array begins and ends along an axis."""
    start = pad.params["before"][axis]
    return start, start + pad.inputs[0].shape[axis]
