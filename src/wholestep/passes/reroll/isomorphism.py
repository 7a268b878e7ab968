"""Isomorphism of operations: equal but for the values that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.text import text_and_objects
from wholestep.passes.cse import computation, ordered_operands, param_key

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
        self.same = representatives(graph)

    def of(self, node: Node) -> int:
        """The class number of an operation."""
        found = self.known.get(node)
        if found is None:
            # Parameters and the types of operands say what the types of results are.
            key = (node.op.name, self.params(node), *[v.type for v in node.inputs])
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


def representatives(graph: Graph) -> dict[Value, Value]:
    """For each value that is computed twice, the one that is computed first."""
    same: dict[Value, Value] = {}
    first: dict[Any, Node] = {}
    numbers: dict[Any, int] = {}
    known: dict[tuple[int, int], int] = {}
    """The number of each computation, by the identities of the operation and of its parameters, which copies share."""
    again = same.keys()
    for node in graph.nodes:
        which = (id(node.op), id(node.params))
        number = known.get(which)
        if number is None:
            number = known[which] = numbers.setdefault(computation(node), len(numbers))
        inputs = node.inputs
        if not again.isdisjoint(inputs):
            inputs = tuple([same.get(v, v) for v in inputs])
        twin = first.setdefault((number, ordered_operands(node, inputs)), node)
        if twin is not node:
            same.update(zip(node.outputs, twin.outputs, strict=True))
    return same


def shallow_key(node: Node) -> Any:
    """The key of an operation with nested graphs that does not look into these."""
    return (node.op.name, node.types, tuple([v.type for v in node.outputs]))


def holds_graphs(param: Any) -> bool:
    """Test whether a parameter is a tuple of graphs."""
    return isinstance(param, tuple) and any(isinstance(item, Graph) for item in param)


def is_constant(v: Value) -> bool:
    """Test whether a value is made from nothing."""
    return v.node is not None and not v.node.inputs
