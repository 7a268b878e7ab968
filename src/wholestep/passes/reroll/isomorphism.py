"""Isomorphism of operations: equal but for the values that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from wholestep.ir.graph import Graph, NDArray, Node, Value, subgraphs
from wholestep.ir.text import text_and_objects
from wholestep.passes.cse import computation, ordered_operands, param_key
from wholestep.primitives.contraction import Contract

TYPE = attrgetter("type")
Pack = tuple[Value, ...]
"""The isomorphic values of successive iterations, one for each."""


class Isomorphism:
    """Class numbers of operations, equal where only operands differ, and one representative of equal values."""

    def __init__(self, graph: Graph) -> None:
        self.numbers: dict[Any, int] = {}
        self.known: dict[Node, int] = {}
        self.texts: dict[Graph, Any] = {}
        self.often = Counter([shallow_key(node) for node in graph.nodes if node.op.nested])
        self.lines: dict[int, tuple[Any, int]] = {}
        """A number for each code object, by its identity, since hashing it would read all of its contents."""
        self.applied: dict[tuple[int, int], tuple[int, int]] = {}
        """The numbers of an operation with its parameters: of its computation, and of its spelling; by the identities
        of both, which copies of a node share, and 0 for no parameters."""
        self.same = self.representatives(graph)

    def representatives(self, graph: Graph) -> dict[Value, Value]:
        """For each value that is computed twice, the one that is computed first; also enters the classes of plain
        nodes in `known`."""
        same: dict[Value, Value] = {}
        again, first, applied = same.keys(), dict[Any, Node](), self.applied
        known, number, numbers = self.known, self.numbers.setdefault, self.numbers
        for node in graph.nodes:
            op, params, inputs = node.op, node.params, node.inputs
            which = (id(op), id(params) if params else 0)
            found = applied.get(which)
            if found is None:
                found = applied[which] = self.applications(node)
            if not op.nested:
                # The operation, its parameters and the types of operands determine the types of results.
                known[node] = number((found[1], *map(TYPE, inputs)), len(numbers))
            if not again.isdisjoint(inputs):
                inputs = tuple([same.get(v, v) for v in inputs])
            twin = first.setdefault((found[0], ordered_operands(node, inputs)), node)
            if twin is not node:
                same.update(zip(node.outputs, twin.outputs, strict=True))
        return same

    def applications(self, node: Node) -> tuple[int, int]:
        """The number of the computation of an operation with its parameters, and that of its spelling."""
        computes = self.numbers.setdefault(("computes", computation(node)), len(self.numbers))
        if not isinstance(node.op, Contract):
            return computes, computes
        written = ("written", *[param_key(p) for p in node.params.values()])  # the letters of a spec may differ
        return computes, self.numbers.setdefault(written, len(self.numbers))

    def of(self, node: Node) -> int:
        """The class number of an operation of the graph."""
        found = self.known.get(node)
        if found is None:
            key = (self.nested(node), *[v.type for v in node.inputs])
            found = self.known[node] = self.numbers.setdefault(key, len(self.numbers))
        return found

    def placed(self, nodes: Sequence[Node]) -> NDArray:
        """Numbers of operations, equal where both the class and the line of the user's code are."""
        number, numbers, places = self.numbers.setdefault, self.numbers, dict[int, int]()
        at = []
        for node in nodes:
            where = node.where
            place = places.get(id(where))
            if place is None:
                line = None if where is None else (self.code(where[0]), where[1])
                place = places[id(where)] = number(("place", line), len(numbers))
            at.append(place)
        classes = [self.known.get(node) or self.of(node) for node in nodes]
        return np.array(classes, np.int64) * len(numbers) + np.array(at, np.int64)

    def code(self, code: Any) -> int:
        """The number of a code object, the same for equal ones."""
        found = self.lines.get(id(code))
        if found is None:
            found = self.lines[id(code)] = (code, self.numbers.setdefault(code, len(self.numbers)))
        return found[1]

    def nested(self, node: Node) -> Any:
        """An operation with nested graphs as a comparable key, the graphs by their text."""
        if self.often[shallow_key(node)] == 1:
            return (node,)
        inner = tuple([self.text(g) for g in subgraphs(node)])
        plain = [p for p in node.params.values() if not isinstance(p, Graph) and not holds_graphs(p)]
        return (node.op.name, inner, *[param_key(p) for p in plain], *[v.type for v in node.outputs])

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
    """The key of an operation with nested graphs that ignores their contents."""
    return (node.op.name, node.types, tuple([v.type for v in node.outputs]))


def holds_graphs(param: Any) -> bool:
    """Test whether a parameter is a tuple of graphs."""
    return isinstance(param, tuple) and any(isinstance(item, Graph) for item in param)


def is_constant(v: Value) -> bool:
    """Test whether a value is computed without operands."""
    return v.node is not None and not v.node.inputs
