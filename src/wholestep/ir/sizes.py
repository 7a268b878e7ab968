"""A program with symbolic sizes: which names its shapes have, and the same program with numbers in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wholestep.dims import Dim, Size, names, substitute
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type


def named_sizes(graph: Graph) -> tuple[str, ...]:
    """The names in the shapes of a program's inputs, in order."""
    found = {name: None for t in graph.in_types for n in t.shape for name in sorted(names(n))}
    return tuple(found)


def size_places(types: Sequence[Type]) -> dict[str, tuple[int, int]]:
    """For each named size that an axis has by itself, the last type and the axis that has it."""
    found = {n: (i, k) for i, t in enumerate(types) for k, n in enumerate(t.shape)}
    known = {name for n in found for name in names(n)}
    return {name: found[Dim(name)] for name in sorted(known) if Dim(name) in found}


def all_names(graph: Graph) -> frozenset[str]:
    """Every name in the shapes of a program and of those inside it."""
    return frozenset().union(*[names(n) for part in graph.family() for t in part.types() for n in t.shape])


def type_at(t: Type, values: Mapping[str, Size]) -> Type:
    """A type with numbers for its names."""
    return array_type(tuple([substitute(n, values) for n in t.shape]), t.dtype)


def graph_at(graph: Graph, values: Mapping[str, Size]) -> Graph:
    """The program for these sizes: numbers, or other sizes, in the place of their names.

    >>> import wholestep as ws
    >>> graph = ws.trace(lambda x: x.mean())(ws.ShapeDtype((ws.Dim("B"), 2), "float32"))
    >>> print(graph_at(graph, {"B": 4}))
    def graph(x: f32[4, 2]):
        sum_1: f32 = sum(x, axes=(0, 1))
        full_1: f32 = full(value=8, shape=(), dtype=f32)
        div_1: f32 = div(sum_1, full_1)
        return div_1
    <BLANKLINE>
    """
    return Numbering(values).graph(graph)


class Numbering:
    """Graphs written anew with sizes in the place of names; a graph that occurs twice is written once."""

    def __init__(self, values: Mapping[str, Size]) -> None:
        self.values = values
        self.made: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        found = self.made.get(graph)
        if found is None:
            env = {v: Value(type_at(v.type, self.values), None, None) for v in graph.inputs}
            nodes = tuple([self.node(node, env) for node in graph.nodes])
            outputs = tuple([env[v] for v in graph.outputs])
            found = Graph(tuple([env[v] for v in graph.inputs]), nodes, outputs, graph.name, graph.input_names)
            self.made[graph] = found
        return found

    def node(self, node: Node, env: dict[Value, Value]) -> Node:
        params = {name: self.param(value) for name, value in node.params.items()}
        made = Node(node.op, tuple([env[v] for v in node.inputs]), params, node.where)
        made.outputs = tuple([Value(type_at(v.type, self.values), made, None) for v in node.outputs])
        env.update(zip(node.outputs, made.outputs, strict=True))
        return made

    def param(self, value: Any) -> Any:
        if isinstance(value, Dim):
            return substitute(value, self.values)
        if type(value) is tuple:
            return tuple([self.param(item) for item in value])
        if isinstance(value, Type):
            return type_at(value, self.values)
        return self.graph(value) if isinstance(value, Graph) else value
