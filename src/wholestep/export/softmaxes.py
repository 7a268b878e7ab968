"""Softmaxes along the last axis whose intermediates have no other users, which libraries have as one operation.

m = broadcast(max(x)); e = exp(sub(x, m)); w = div(e, broadcast(sum(e)))
"""

from __future__ import annotations

from typing import NamedTuple

from wholestep.export.fused.formulas import is_plain
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.attention_pattern.softmaxes import softmax_operand


class WholeSoftmax(NamedTuple):
    """The operand, and the operations that become unused when the weights are one operation."""

    x: Value
    inner: frozenset[Node]

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return (self.x,)


def softmaxes_in(graph: Graph) -> dict[Node, WholeSoftmax]:
    """The quotients of a graph that are softmaxes in float32 or float64; a row of -inf is NaN."""
    readers: dict[Value, set[Node | None]] = {v: {None} for v in graph.outputs}
    for node in graph.nodes:
        for v in node.inputs:
            readers.setdefault(v, set()).add(node)
    found = {}
    for node in graph.nodes:
        between: list[Node] = []
        x = softmax_operand(node.outputs[0], between) if node.op.name in ("div", "mul") else None
        if x is not None and is_plain(x, node.outputs[0]):
            inner = {each for each in between if each is not node}
            read = [reader for each in inner for v in each.outputs for reader in readers[v]]
            if all([reader in inner or reader is node for reader in read]):
                found[node] = WholeSoftmax(x, frozenset(inner))
    return found
