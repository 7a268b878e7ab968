"""The graph verifier: each value is defined once, before its uses, with the type that its rule gives."""

from __future__ import annotations

from typing import Any

from wholestep.errors import GraphError
from wholestep.ir.graph import OPS, Graph, Node, Value, subgraphs


def verify(graph: Graph) -> None:
    """Check a graph and the graphs inside it; raises GraphError that shows the node and its neighbours."""
    known: set[Value] = set()
    for v in graph.inputs:
        if v in known:
            raise GraphError(f"verify: an input of {graph.name} appears twice")
        known.add(v)
    for at, node in enumerate(graph.nodes):
        problem = _problem(node, known)
        if problem:
            raise GraphError(f"verify: {problem}\n{_around(graph, at)}", where=node.where)
        known.update(node.outputs)
        for inner in subgraphs(node):
            verify(inner)
    for v in graph.outputs:
        if v not in known:
            raise GraphError(f"verify: {graph.name} returns a value of type {v.type} that it does not make")


def _problem(node: Node, known: set[Value]) -> str:
    op: Any = node.op
    registered: Any = OPS.get(op.name)
    if registered is not op:
        return f"{op.name} is not a primitive of the language"
    for v in node.inputs:
        if v not in known:
            return f"{op.name} uses a value of type {v.type} that is made later, or in another graph"
    if not known.isdisjoint(node.outputs):
        return f"{op.name} makes a value that exists already"
    types = op.type(*[v.type for v in node.inputs], **node.params)
    expected = tuple(types) if op.multiple else (types,)
    found = tuple([v.type for v in node.outputs])
    return "" if expected == found else f"{op.name} gives {expected} by its rule and {found} in the graph"


def _around(graph: Graph, at: int, width: int = 5) -> str:
    lines = [
        f"  {'->' if i == at else '  '} {node.op.name}({', '.join(str(v.type) for v in node.inputs)})"
        for i, node in enumerate(graph.nodes)
        if abs(i - at) <= width
    ]
    return "\n".join(lines)
