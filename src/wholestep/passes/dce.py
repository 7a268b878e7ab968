"""Dead code elimination."""

from __future__ import annotations

from wholestep.ir.build import trim
from wholestep.ir.graph import Graph


def dce(graph: Graph) -> Graph:
    """Drop the nodes that no output needs.

    a = sin(x); b = cos(x); return b
    -->
    b = cos(x); return b
    """
    nodes = trim(graph.nodes, graph.outputs)
    if len(nodes) == len(graph.nodes):
        return graph
    return Graph(graph.inputs, nodes, graph.outputs, graph.name, graph.input_names)
