"""Smaller programs that fail in the same way: fewer outputs, then values given instead of made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wholestep.backends.reference import interpret
from wholestep.ir.build import trim
from wholestep.ir.graph import Graph, NDArray, Node, Value

Fails = Callable[[Graph, list[NDArray]], bool]


def shrunk(graph: Graph, args: Sequence[NDArray], fails: Fails) -> tuple[Graph, list[NDArray]]:
    """A graph that still fails, with as few outputs and nodes as leaving out and cutting find."""
    best, given = graph, list(args)
    for v in graph.outputs:
        rest = tuple([x for x in best.outputs if x is not v])
        less = pruned(Graph(best.inputs, best.nodes, rest, graph.name), given)
        if rest and fails(*less):
            best, given = less
    piece = max(len(best.nodes) // 2, 1)
    while piece:
        at = 0
        while at < len(best.nodes):
            smaller = cut(best, given, at, at + piece)
            if len(smaller[0].nodes) < len(best.nodes) and fails(*smaller):
                best, given = smaller
            else:
                at += piece
        piece //= 2
    return best, given


def cut(graph: Graph, args: Sequence[NDArray], start: int, stop: int) -> tuple[Graph, list[NDArray]]:
    """The graph with the results of these nodes as inputs."""
    gone = [v for node in graph.nodes[start:stop] for v in node.outputs]
    with np.errstate(all="ignore"):
        known = interpret(Graph(graph.inputs, graph.nodes, tuple(gone)), list(args))
    env = {v: Value(v.type, None, None) for v in gone}
    nodes = []
    for node in (*graph.nodes[:start], *graph.nodes[stop:]):
        made = Node(node.op, tuple([env.get(v, v) for v in node.inputs]), node.params, node.where)
        made.outputs = tuple([Value(v.type, made, None) for v in node.outputs])
        env.update(zip(node.outputs, made.outputs, strict=True))
        nodes.append(made)
    inputs = (*graph.inputs, *[env[v] for v in gone])
    outputs = tuple([env.get(v, v) for v in graph.outputs])
    return pruned(Graph(inputs, tuple(nodes), outputs, graph.name), [*args, *[np.array(x) for x in known]])


def pruned(graph: Graph, args: Sequence[NDArray]) -> tuple[Graph, list[NDArray]]:
    """Only the nodes and inputs that the outputs need."""
    nodes = trim(graph.nodes, graph.outputs)
    used = {v for node in nodes for v in node.inputs} | set(graph.outputs)
    kept = [(v, x) for v, x in zip(graph.inputs, args, strict=True) if v in used]
    return Graph(tuple([v for v, _ in kept]), nodes, graph.outputs, graph.name), [x for _, x in kept]
