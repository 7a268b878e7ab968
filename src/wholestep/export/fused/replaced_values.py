"""Graphs in which values stand for others."""

from __future__ import annotations

from collections.abc import Mapping

from wholestep.ir.build import trim
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import copy_node


def with_values(graph: Graph, instead: Mapping[Value, Value]) -> Graph:
    """The graph with values replaced by others, whose nodes are inserted before their first use."""
    env, nodes, done = {v: v for v in graph.inputs}, list[Node](), set[Node]()
    ends = [instead[v].node for v in graph.outputs if v in instead]
    for last in (*graph.nodes, *[node for node in ends if node is not None]):
        waiting = [last]
        while waiting:
            node = waiting[-1]
            inputs = [instead.get(v, v) for v in node.inputs]
            missing = next((v.node for v in inputs if v not in env), None)
            if missing is not None:
                waiting.append(missing)
                continue
            waiting.pop()
            if node not in done:
                done.add(node)
                own = tuple([env[v] for v in inputs])
                nodes.append(node if own == node.inputs else copy_node(node, own, node.params))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
    outputs = tuple([env[instead.get(v, v)] for v in graph.outputs])
    return Graph(graph.inputs, trim(nodes, outputs), outputs, graph.name, graph.input_names)
