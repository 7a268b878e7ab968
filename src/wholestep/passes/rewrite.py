"""What passes share: walk a graph in order, replace nodes, and hand back a graph of the same inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.ir.build import trim
from wholestep.ir.graph import Graph, Node, Value, subgraphs

Replace = Callable[[Node], Value | tuple[Value, ...] | Node | None]
"""What stands in a node's place: values made earlier, another node, or None to leave it."""


def rewrite(graph: Graph, replace: Replace) -> Graph:
    """The graph with each node replaced as `replace` says; it sees inputs that are already rewritten."""
    env: dict[Value, Value] = {}
    nodes: list[Node] = []
    for original in graph.nodes:
        inputs = tuple([env.get(v, v) for v in original.inputs])
        node = original if inputs == original.inputs else copied(original, inputs, original.params)
        found = replace(node)
        if isinstance(found, Value):
            found = (found,)
        if not isinstance(found, tuple):
            node = node if found is None else found
            nodes.append(node)
            found = node.outputs
        if found is not original.outputs:
            env.update(zip(original.outputs, found, strict=True))
    if not env and len(nodes) == len(graph.nodes):
        return graph
    outputs = tuple([env.get(v, v) for v in graph.outputs])
    return Graph(graph.inputs, trim(nodes, outputs), outputs, graph.name, graph.input_names)


def copied(node: Node, inputs: tuple[Value, ...], params: dict[str, Any]) -> Node:
    """The same operation on other inputs; its outputs are new values."""
    made = Node(node.op, inputs, params, node.where)
    made.outputs = tuple([Value(v.type, made, None) for v in node.outputs])
    return made


def inside(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with `change` applied to the graphs among its nodes' parameters; stated rules keep theirs."""

    def replace(node: Node) -> Node | None:
        if not node.op.nested:
            return None
        params = {k: _changed(v, change) for k, v in node.params.items()}
        same = all(a is b for a, b in zip(subgraphs(node), subgraphs(Node(node.op, (), params, None)), strict=True))
        return None if same else copied(node, node.inputs, params)

    return rewrite(graph, replace)


def _changed(value: Any, change: Callable[[Graph], Graph]) -> Any:
    if isinstance(value, Graph):
        return value.derived(("pass", change), lambda: change(value))
    if isinstance(value, tuple) and value and all(isinstance(item, Graph) for item in value):
        return tuple([_changed(item, change) for item in value])
    return value
