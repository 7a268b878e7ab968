"""Graph rewriting: a walk that emits a graph again, and one that applies a rule to each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from wholestep.ir.build import trim
from wholestep.ir.graph import OPS, Graph, Node, Value, subgraphs

Replace = Callable[[Node], Value | tuple[Value, ...] | None]
"""A rule: node -> the values that replace its outputs, from earlier or from `new_value`, or None to keep it."""

Rules = dict[str, Replace | None]
"""The rule of each primitive, by name."""

Uses = dict[Value, int]
"""The number of uses of each value of a graph, its outputs included."""


def new_value(like: Node, name: str, *inputs: Value, **params: Any) -> Value:
    """The value of a new node at the user's line of the node that it replaces."""
    op = OPS[name]
    made = Node(op, inputs, params, like.where)
    value = Value(op.type(*[v.type for v in inputs], **params), made, None)
    made.outputs = (value,)
    return value


def on_inputs(node: Node, *inputs: Value) -> Value:
    """The value of the same operation on other inputs; its type may be another."""
    return new_value(node, node.op.name, *inputs, **node.params)


def defining_node(v: Value, *names: str) -> Node | None:
    """The node that defines a value, if its primitive is one of these; else None."""
    return v.node if v.node is not None and v.node.op.name in names else None


def count_uses(graph: Graph) -> Uses:
    """The number of uses of each value."""
    uses: Uses = {}
    for node in graph.nodes:
        for v in node.inputs:
            uses[v] = uses.get(v, 0) + 1
    for v in graph.outputs:
        uses[v] = uses.get(v, 0) + 1
    return uses


def at_roots(rules: Mapping[str, Replace], others: Replace | None = None) -> Rules:
    """These rules for nodes of the primitives of these names, and another one for all others."""
    return defaultdict(lambda: others, rules)


class GraphRewriter:
    """A graph emitted again, node by node; `env` maps values to their replacements, and `graph` is the result."""

    def __init__(self, graph: Graph) -> None:
        self.source = self.graph = graph
        self.nodes: list[Node] = []
        self.env: dict[Value, Value] = {}

    def add(
        self, op: Any, inputs: Sequence[Value], params: dict[str, Any], like: Node | None = None
    ) -> tuple[Value, ...]:
        """The results of a new node, at the user's line of the node that it replaces."""
        node = Node(op, tuple(inputs), params, like.where if like is not None else None)
        types = op.type(*node.types, **params)
        node.outputs = tuple([Value(t, node, None) for t in (types if op.multiple else (types,))])
        self.nodes.append(node)
        return node.outputs

    def keep(self, node: Node, inputs: Sequence[Value] | None = None, params: dict[str, Any] | None = None) -> None:
        """Enter a node with the replacements of its operands, or with the given inputs or parameters."""
        own = tuple([self.env.get(v, v) for v in node.inputs] if inputs is None else inputs)
        if own == node.inputs and (params is None or params is node.params):
            self.nodes.append(node)
        else:
            self.nodes.append(copy_node(node, own, node.params if params is None else params))
            self.env.update(zip(node.outputs, self.nodes[-1].outputs, strict=True))

    def finish(self, outputs: Sequence[Value] | None = None) -> Graph:
        """The graph of the nodes that these outputs need; by default the replacements of the source's outputs."""
        if self.env:
            made = tuple([self.env.get(v, v) for v in self.source.outputs] if outputs is None else outputs)
            kept = trim(self.nodes, made)
            self.graph = Graph(self.source.inputs, kept, made, self.source.name, self.source.input_names)
        return self.graph


class PatternRewriter(GraphRewriter):
    """A walk that applies a rule to each node, and to the nodes that the rule makes, which are placed at first use."""

    def __init__(self, graph: Graph, rules: Rules, uses: Uses | None) -> None:
        super().__init__(graph)
        self.rules = rules
        self.uses = uses

    @cached_property
    def placed(self) -> set[Value]:
        """The values that are placed so far, computed at the first use, since most walks change nothing."""
        return {v for node in self.source.nodes for v in node.outputs}.union(self.source.inputs)

    def place(self, node: Node, found: tuple[Value, ...] | None = None) -> None:
        """Place a node, or the values `found` that replace it, after the new nodes that these depend on.

        A worklist takes the place of recursion, since the depth of new nodes has no bound.
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
                self.substitute(node, found)
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
        """Apply the rule to a node whose inputs are placed; the values that replace it, or None where it is kept."""
        env = self.env
        inputs = tuple([env.get(v, v) for v in node.inputs])
        new = node if inputs == node.inputs else copy_node(node, inputs, node.params)
        rule = self.rules[new.op.name]
        found = None if rule is None else rule(new)
        if found is None:
            self.nodes.append(new)
            self.placed.update(new.outputs)
            found = new.outputs
        if found is node.outputs:
            return None
        return found if isinstance(found, tuple) else (found,)

    def substitute(self, node: Node, found: tuple[Value, ...]) -> None:
        """Replace the outputs of a node by these values, which are placed, in later nodes."""
        for old, v in zip(node.outputs, found, strict=True):
            value = self.env[old] = self.env.get(v, v)
            if self.uses is not None:
                self.uses[value] = self.uses.get(value, 0) + self.uses.get(old, 0)


def rewrite(graph: Graph, replace: Replace | Rules, uses: Uses | None = None) -> Graph:
    """The graph with each node replaced by the rule of its primitive, or by the single rule; a rule's node has inputs
    that are already rewritten.

    `uses`, where given, is updated: a value takes over the uses of the values that it replaces.
    """
    rules = replace if isinstance(replace, dict) else at_roots({}, replace)
    walk = PatternRewriter(graph, rules, uses)
    env, keep = walk.env, walk.nodes.append
    for node in graph.nodes:
        if env and not env.keys().isdisjoint(node.inputs):
            walk.place(node)
            continue
        rule = rules[node.op.name]
        if rule is None or (found := rule(node)) is None:
            keep(node)
        else:
            walk.place(node, found if isinstance(found, tuple) else (found,))
    return walk.finish()


def to_fixpoint(graph: Graph, rules: Callable[[Uses], Rules]) -> Graph:
    """The graph rewritten until nothing changes: a value that one walk leaves with fewer uses may be rewritten by the
    next."""
    while True:
        uses = count_uses(graph)
        made = rewrite(graph, rules(uses), uses)
        if made is graph:
            return graph
        graph = made


def copy_node(node: Node, inputs: tuple[Value, ...], params: dict[str, Any]) -> Node:
    """The same operation on other inputs; its outputs are new values."""
    made = Node(node.op, inputs, params, node.where)
    outputs = node.outputs
    if len(outputs) == 1:  # nearly all: a list less to make
        made.outputs = (Value(outputs[0].type, made, None),)
    else:
        made.outputs = tuple([Value(v.type, made, None) for v in outputs])
    return made


def copy_nodes(nodes: Iterable[Node], env: dict[Value, Value]) -> list[Node]:
    """Copies of nodes on the values that `env` has for their operands; the results of the copies enter `env`."""
    found = []
    for node in nodes:
        found.append(copy_node(node, tuple([env[v] for v in node.inputs]), node.params))
        env.update(zip(node.outputs, found[-1].outputs, strict=True))
    return found


def on_values(graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """The results of a graph on some values, by nodes that no graph has yet."""
    env = dict(zip(graph.inputs, inputs, strict=True))
    copy_nodes(graph.nodes, env)
    return [env[v] for v in graph.outputs]


def map_nested_graphs(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with `change` applied to the graphs among its nodes' parameters; derivative rules keep theirs."""
    changed: dict[int, dict[str, Any]] = {}
    """The new parameters by the identity of the old ones, which copies of a node on other inputs share."""
    for node in graph.nodes:
        if node.op.nested and (params := map_params(node, change)) is not node.params:
            changed[id(node.params)] = params
    if not changed:
        return graph

    def replace(node: Node) -> tuple[Value, ...] | None:
        params = changed.get(id(node.params))
        return None if params is None else copy_node(node, node.inputs, params).outputs

    return rewrite(graph, replace)


def map_params(node: Node, change: Callable[[Graph], Graph]) -> dict[str, Any]:
    """A node's parameters with `change` applied to the graphs among them; its own where none of them changes."""
    if not node.op.nested:
        return node.params
    params = {k: _map_param(v, change) for k, v in node.params.items()}
    kept = all(a is b for a, b in zip(subgraphs(node), subgraphs(Node(node.op, (), params, None)), strict=True))
    return node.params if kept else params


def _map_param(value: Any, change: Callable[[Graph], Graph]) -> Any:
    if isinstance(value, Graph):
        return change(value)
    if isinstance(value, tuple) and value and all(isinstance(item, Graph) for item in value):
        return tuple([_map_param(item, change) for item in value])
    return value
