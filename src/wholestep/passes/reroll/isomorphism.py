"""Isomorphism of operations: equal but for the values that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.text import text_and_objects
from wholestep.passes.cse import param_key, value_number

Pack = tuple[Value, ...]
"""The isomorphic values of successive iterations, one for each."""


class Isomorphism:
    """Class numbers of operations, equal where only operands differ, and one representative of equal values."""

    def __init__(self, graph: Graph) -> None:
        self.numbers: dict[Any, int] = {}
        self.known: dict[Node, int] = {}
        self.texts: dict[Graph, Any] = {}
        self.often = Counter([shallow_key(node) for node in graph.nodes if node.op.nested])
        self.same: dict[Value, Value] = {}
        first: dict[Any, Node] = {}
        for node in graph.nodes:
            inputs = tuple([self.same.get(v, v) for v in node.inputs])
            twin = first.setdefault(value_number(Node(node.op, inputs, node.params, None)), node)
            self.same.update(zip(node.outputs, twin.outputs, strict=True) if twin is not node else ())

    def of(self, node: Node) -> int:
        """The class number of an operation."""
        found = self.known.get(node)
        if found is None:
            key = (node.op.name, self.params(node), node.types, tuple([v.type for v in node.outputs]))
            found = self.known[node] = self.numbers.setdefault(key, len(self.numbers))
        return found

    def placed(self, node: Node) -> int:
        """The class number of an operation at its line of the user's code."""
        return self.numbers.setdefault((self.of(node), node.where), len(self.numbers))

    def params(self, node: Node) -> tuple[Any, ...]:
        """The parameters of an operation as a comparable key; nested graphs by their text."""
        if not node.op.nested:
            return tuple([param_key(p) for p in node.params.values()])
        if self.often[shallow_key(node)] == 1:
            return (node,)
        inner = tuple([self.text(g) for g in subgraphs(node)])
        plain = [p for p in node.params.values() if not isinstance(p, Graph) and not holds_graphs(p)]
        return (inner, *[param_key(p) for p in plain])

    def text(self, graph: Graph) -> Any:
        found = self.texts.get(graph)
        if found is None:
            text, objects = text_and_objects(Graph(graph.inputs, graph.nodes, graph.outputs))
            found = self.texts[graph] = (text, tuple([param_key(x) for x in objects.values()]))
        return found

    def representative(self, v: Value) -> Value:
        """The representative of all values that hold the same constant."""
        return self.same.get(v, v) if is_constant(v) else v

    def pack_of(self, values: Sequence[Value]) -> Pack:
        """Values of successive iterations as a pack, of one representative where all are equal."""
        first = self.same.get(values[0], values[0])
        if all(self.same.get(v, v) is first for v in values):
            return (first,) * len(values)
        return tuple([self.representative(v) for v in values])


def shallow_key(node: Node) -> Any:
    """The key of an operation with nested graphs that does not look into these."""
    return (node.op.name, node.types, tuple([v.type for v in node.outputs]))


def holds_graphs(param: Any) -> bool:
    """Test whether a parameter is a tuple of graphs."""
    return isinstance(param, tuple) and any(isinstance(item, Graph) for item in param)


def is_constant(v: Value) -> bool:
    """Test whether a value is made from nothing."""
    return v.node is not None and not v.node.inputs
