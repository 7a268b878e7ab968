"""Memory of values in libraries that return views: the values that surely own theirs, and the aliases of others."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.export.split_gradients import has_short_axes
from wholestep.ir.graph import Graph, Node, Value

SAME_ARRAY = frozenset(("cast", "real", "imag", "conj"))
"""Elementwise operations that may return their operand."""


def has_own_memory(node: Node) -> bool:
    """True for an operation whose result is an array of its own, and not a view of an operand."""
    if node.op.kind == "reduction" and "axes" in node.params:
        return bool(node.params["axes"]) and not has_short_axes(node.types[0], node.params["axes"])
    return node.op.kind in ("elementwise", "contraction") and node.op.name not in SAME_ARRAY


def lying_in(values: Sequence[Value]) -> set[Value]:
    """The values whose memory some values may share, and these themselves."""
    left, found = list(values), set[Value]()
    while left:
        v = left.pop()
        if v not in found and v.node is not None and not has_own_memory(v.node):
            left += v.node.inputs
        found.add(v)
    return found


def values_apart(graph: Graph, printed: Sequence[Node]) -> set[Value]:
    """The results of a graph's operations whose memory no other value shares."""
    seen = {v for node in printed if not has_own_memory(node) for v in node.inputs}
    return {v for node in printed if has_own_memory(node) for v in node.outputs} - seen - {*graph.outputs}
