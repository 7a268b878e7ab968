"""Rewriting: a graph written anew, node by node, with `env` for what stands in the place of a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.ir.build import trim
from wholestep.ir.graph import Graph, Node, Value


class Rewriting:
    """Nodes are added in order; `graph` is the result once it is finished."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.graph = graph
        self.nodes: list[Node] = []
        self.env: dict[Value, Value] = {}

    def add(
        self, op: Any, inputs: Sequence[Value], params: dict[str, Any], like: Node | None = None
    ) -> tuple[Value, ...]:
        """A new node, at the line of the one that it stands for."""
        node = Node(op, tuple(inputs), params, like.where if like is not None else None)
        types = op.type(*node.types, **params)
        node.outputs = tuple([Value(t, node, None) for t in (types if op.multiple else (types,))])
        self.nodes.append(node)
        return node.outputs

    def keep(self, node: Node, inputs: Sequence[Value]) -> None:
        """A node as it is, on what its operands have become."""
        if tuple(inputs) == node.inputs:
            self.nodes.append(node)
        else:
            self.env.update(zip(node.outputs, self.add(node.op, inputs, node.params, node), strict=True))

    def finish(self, outputs: Sequence[Value]) -> None:
        """The graph that has these outputs."""
        if self.env:
            kept = trim(self.nodes, tuple(outputs))
            self.graph = Graph(self.source.inputs, kept, tuple(outputs), self.source.name, self.source.input_names)
