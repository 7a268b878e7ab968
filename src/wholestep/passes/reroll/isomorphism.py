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
        self.keys: dict[int, tuple[dict[str, Any], int]] = {}
        """The number of each table of parameters, by its identity: nodes that are copies of one share it."""
        self.lines: dict[int, tuple[Any, int]] = {}
        """A number for each code object, by its identity: it would be hashed by all of its contents."""
        same = self.same = dict[Value, Value]()
        first: dict[Any, Node] = {}
        for node in graph.nodes:
            like = node
            if not same.keys().isdisjoint(node.inputs):
                like = Node(node.op, tuple([same.get(v, v) for v in node.inputs]), node.params, None)
            twin = first.setdefault(value_number(like), node)
            if twin is not node:
                same.update(zip(node.outputs, twin.outputs, strict=True))

    def of(self, node: Node) -> int:
        """The class number of an operation."""
        found = self.known.get(node)
        if found is None:
            operands, results = tuple([v.type for v in node.inputs]), tuple([v.type for v in node.outputs])
            key = (node.op.name, self.params(node), operands, results)
            found = self.known[node] = self.numbers.setdefault(key, len(self.numbers))
        return found

    def placed(self, node: Node) -> int:
        """The class number of an operation at its line of the user's code."""
        where = node.where
        place = None if where is None else (self.code(where[0]), where[1])
        return self.numbers.setdefault((self.of(node), place), len(self.numbers))

    def code(self, code: Any) -> int:
        """The number of a code object, the same for equal ones."""
        found = self.lines.get(id(code))
        if found is None:
            found = self.lines[id(code)] = (code, self.numbers.setdefault(code, len(self.numbers)))
        return found[1]

    def params(self, node: Node) -> Any:
        """The parameters of an operation as a comparable key, a number; nested graphs by their text."""
        if not node.op.nested:
            known = self.keys.get(id(node.params))
            if known is None:
                key = ("params", *[param_key(p) for p in node.params.values()])
                known = self.keys[id(node.params)] = (node.params, self.numbers.setdefault(key, len(self.numbers)))
            return known[1]
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
        same = self.same
        first = same.get(values[0], values[0])
        if same.get(values[-1], values[-1]) is first and all([same.get(v, v) is first for v in values]):
            return (first,) * len(values)
        return tuple([v if v not in same else self.representative(v) for v in values])


def shallow_key(node: Node) -> Any:
    """The key of an operation with nested graphs that does not look into these."""
    return (node.op.name, node.types, tuple([v.type for v in node.outputs]))


def holds_graphs(param: Any) -> bool:
    """Test whether a parameter is a tuple of graphs."""
    return isinstance(param, tuple) and any(isinstance(item, Graph) for item in param)


def is_constant(v: Value) -> bool:
    """Test whether a value is made from nothing."""
    return v.node is not None and not v.node.inputs
