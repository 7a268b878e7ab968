"""What two operations have in common that do the same to other values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.text import text_and_objects
from wholestep.passes.cse import key_of, key_of_param

Members = tuple[Value, ...]
"""The values that stand in the same place of successive layers."""


class Signatures:
    """Numbers for operations, equal where only the operands differ, and one value for all that are made alike."""

    def __init__(self, graph: Graph) -> None:
        self.numbers: dict[Any, int] = {}
        self.known: dict[Node, int] = {}
        self.texts: dict[Graph, Any] = {}
        self.often = Counter([nested_key(node) for node in graph.nodes if node.op.nested])
        self.same: dict[Value, Value] = {}
        first: dict[Any, Node] = {}
        for node in graph.nodes:
            inputs = tuple([self.same.get(v, v) for v in node.inputs])
            twin = first.setdefault(key_of(Node(node.op, inputs, node.params, None)), node)
            self.same.update(zip(node.outputs, twin.outputs, strict=True) if twin is not node else ())

    def of(self, node: Node) -> int:
        """The number of an operation."""
        found = self.known.get(node)
        if found is None:
            key = (node.op.name, self.params(node), node.types, tuple([v.type for v in node.outputs]))
            found = self.known[node] = self.numbers.setdefault(key, len(self.numbers))
        return found

    def placed(self, node: Node) -> int:
        """The number of an operation on its line."""
        return self.numbers.setdefault((self.of(node), node.where), len(self.numbers))

    def params(self, node: Node) -> tuple[Any, ...]:
        """The parameters of an operation as something that can be compared; nested graphs by what they say."""
        if not node.op.nested:
            return tuple([key_of_param(p) for p in node.params.values()])
        if self.often[nested_key(node)] == 1:
            return (node,)
        inner = tuple([self.text(g) for g in subgraphs(node)])
        plain = [p for p in node.params.values() if not isinstance(p, Graph) and not graphs_in(p)]
        return (inner, *[key_of_param(p) for p in plain])

    def text(self, graph: Graph) -> Any:
        found = self.texts.get(graph)
        if found is None:
            text, objects = text_and_objects(Graph(graph.inputs, graph.nodes, graph.outputs))
            found = self.texts[graph] = (text, tuple([key_of_param(x) for x in objects.values()]))
        return found

    def one(self, v: Value) -> Value:
        """The value that stands for all which hold the same constant."""
        return self.same.get(v, v) if constant(v) else v

    def ones(self, values: Sequence[Value]) -> Members:
        """Corresponding values, as one and the same where they are equal by what makes them."""
        first = self.same.get(values[0], values[0])
        if all(self.same.get(v, v) is first for v in values):
            return (first,) * len(values)
        return tuple([self.one(v) for v in values])


def nested_key(node: Node) -> Any:
    """What operations with graphs have in common, before one looks into these."""
    return (node.op.name, node.types, tuple([v.type for v in node.outputs]))


def graphs_in(param: Any) -> bool:
    """Whether a parameter is a tuple of graphs."""
    return isinstance(param, tuple) and any(isinstance(item, Graph) for item in param)


def constant(v: Value) -> bool:
    """Whether a value is made from nothing."""
    return v.node is not None and not v.node.inputs
