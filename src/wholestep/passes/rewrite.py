"""What passes share: walk a graph in order, replace nodes, and hand back a graph of the same inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.ir.build import trim
from wholestep.ir.graph import OPS, Graph, Node, Value, subgraphs

Replace = Callable[[Node], Value | tuple[Value, ...] | None]
"""What stands in a node's place: values made earlier or by `make`, or None to leave it."""

Uses = dict[Value, int]
"""How often each value of a graph is read, its outputs included."""


def make(like: Node, name: str, *inputs: Value, **params: Any) -> Value:
    """The value of a new node, which blames the line of the node it stands in for."""
    op = OPS[name]
    made = Node(op, inputs, params, like.where)
    value = Value(op.type(*[v.type for v in inputs], **params), made, None)
    made.outputs = (value,)
    return value


def same(node: Node, *inputs: Value) -> Value:
    """The value of the same operation on other inputs; its type may be another."""
    return make(node, node.op.name, *inputs, **node.params)


def made_by(v: Value, name: str) -> Node | None:
    """The node that makes this value, where it is one of that primitive."""
    return v.node if v.node is not None and v.node.op.name == name else None


def count_uses(graph: Graph) -> Uses:
    """How often each value is read."""
    uses: Uses = {}
    for node in graph.nodes:
        for v in node.inputs:
            uses[v] = uses.get(v, 0) + 1
    for v in graph.outputs:
        uses[v] = uses.get(v, 0) + 1
    return uses


class Rewriter:
    """One walk over a graph; what a rule makes is placed where it is first needed, after the rules have seen it too."""

    __slots__ = ("env", "nodes", "placed", "replace", "uses")

    def __init__(self, graph: Graph, replace: Replace, uses: Uses | None) -> None:
        self.env: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        self.placed = {v for node in graph.nodes for v in node.outputs}.union(graph.inputs)
        self.replace = replace
        self.uses = uses

    def place(self, node: Node, found: tuple[Value, ...] | None = None) -> None:
        """Enter a node whose inputs may have been replaced or made, or what stands in its place: `found`, once known.

        What a rule has just made is placed before what reads it, by a list of what waits: its depth has no bound.
        """
        waiting = [(node, found)]
        while waiting:
            node, found = waiting[-1]
            missing = self.missing(node.inputs if found is None else found)
            if missing is not None:
                waiting.append((missing, None))
                continue
            waiting.pop()
            if found is not None:
                self.stand_in(node, found)
            elif (made := self.entered(node)) is not None:
                waiting.append((node, made))

    def missing(self, values: tuple[Value, ...]) -> Node | None:
        """The first node that makes one of these values and is not placed yet."""
        env, placed = self.env, self.placed
        for v in values:
            if v not in placed or v in env:
                v = env.get(v, v)
                if v not in placed:
                    return v.node
        return None

    def entered(self, node: Node) -> tuple[Value, ...] | None:
        """Enter a node whose inputs are placed, as it is or not: then the values that stand for its own."""
        env = self.env
        inputs = tuple([env.get(v, v) for v in node.inputs])
        new = node if inputs == node.inputs else copied(node, inputs, node.params)
        found = self.replace(new)
        if found is None:
            self.nodes.append(new)
            self.placed.update(new.outputs)
            found = new.outputs
        if found is node.outputs:
            return None
        return found if isinstance(found, tuple) else (found,)

    def stand_in(self, node: Node, found: tuple[Value, ...]) -> None:
        """Let these values, which are placed, stand for those of a node from here on."""
        for old, v in zip(node.outputs, found, strict=True):
            value = self.env[old] = self.env.get(v, v)
            if self.uses is not None:
                self.uses[value] = self.uses.get(value, 0) + self.uses.get(old, 0)


def rewrite(graph: Graph, replace: Replace, uses: Uses | None = None) -> Graph:
    """The graph with each node replaced as `replace` says; it sees inputs that are already rewritten.

    `uses`, where given, is kept up to date: a value takes over the uses of those it stands in for.
    """
    walk = Rewriter(graph, replace, uses)
    env, keep = walk.env, walk.nodes.append
    for node in graph.nodes:
        if env and not env.keys().isdisjoint(node.inputs):
            walk.place(node)
            continue
        found = replace(node)
        if found is None:
            keep(node)
        else:
            walk.place(node, found if isinstance(found, tuple) else (found,))
    if not env:
        return graph
    outputs = tuple([env.get(v, v) for v in graph.outputs])
    return Graph(graph.inputs, trim(walk.nodes, outputs), outputs, graph.name, graph.input_names)


def repeated(change: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """The graph after as many changes as there are: what one walk leaves unused lets the next do more."""
    while True:
        made = change(graph)
        if made is graph:
            return graph
        graph = made


def copied(node: Node, inputs: tuple[Value, ...], params: dict[str, Any]) -> Node:
    """The same operation on other inputs; its outputs are new values."""
    made = Node(node.op, inputs, params, node.where)
    outputs = node.outputs
    if len(outputs) == 1:  # nearly all: a list less to make
        made.outputs = (Value(outputs[0].type, made, None),)
    else:
        made.outputs = tuple([Value(v.type, made, None) for v in outputs])
    return made


def inside(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with `change` applied to the graphs among its nodes' parameters; stated rules keep theirs."""

    def replace(node: Node) -> tuple[Value, ...] | None:
        if not node.op.nested:
            return None
        params = {k: _changed(v, change) for k, v in node.params.items()}
        kept = all(a is b for a, b in zip(subgraphs(node), subgraphs(Node(node.op, (), params, None)), strict=True))
        return None if kept else copied(node, node.inputs, params).outputs

    return rewrite(graph, replace)


def _changed(value: Any, change: Callable[[Graph], Graph]) -> Any:
    if isinstance(value, Graph):
        return change(value)
    if isinstance(value, tuple) and value and all(isinstance(item, Graph) for item in value):
        return tuple([_changed(item, change) for item in value])
    return value
