"""Building programs: `emit` adds a typed node to the current builder; builders nest and capture."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wholestep.errors import EscapedError, UnsupportedError, Where, here, line_of
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type

Evaluate = Callable[[Any, tuple[Value, ...], dict[str, Any]], Any]
"""Computes a node now: `(op, inputs, params) -> data`; handed in, because meaning lives above the language."""


class GraphBuilder:
    """A program being written.

    With `evaluate`, every node whose inputs are known is computed as it is emitted (values attached to the trace).
    `recording=False` computes without keeping nodes: the last walk of an eager gradient needs no further derivative.
    """

    __slots__ = (
        "assigned",
        "captures",
        "closed",
        "constants",
        "consulted",
        "evaluate",
        "held",
        "hollow",
        "inputs",
        "nodes",
        "parent",
        "reason",
        "recording",
        "remembered",
        "said",
    )

    def __init__(self, evaluate: Evaluate | None = None, reason: str = "jit") -> None:
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.captures: dict[Value, Value] = {}
        self.constants: dict[int, Any] = {}
        self.held: dict[int, tuple[Any, Any, Where]] = {}
        """The user's arrays taken for constants, here and in nested builders: each with its last copy and its line."""
        self.consulted: set[int] = set()
        """The ids of the kept arrays whose values the program's structure depends on, such as masks used as indices."""
        self.hollow: set[Value] = set()
        self.evaluate = evaluate
        self.recording = True
        self.closed = False
        self.parent: GraphBuilder | None = None
        self.reason = reason
        self.remembered: dict[Any, Any] = {}
        """The results in this trace of functions of the user's that remember them."""
        self.said: list[Any] = []
        """The arguments of `ws.print` that are not yet results of the program."""
        self.assigned: list[Any] = []
        """The assigned fields of models, whose values are not yet results of the program."""

    def input(self, type: Type, data: Any = None) -> Value:
        value = Value(type, None, self, data)
        self.inputs.append(value)
        return value

    def placeholder(self, type: Type) -> Value:
        """A value that is never computed: an input of a linear region that is written to be transposed."""
        value = Value(type, None, self)
        self.hollow.add(value)
        return value

    def capture(self, value: Value) -> Value:
        """This builder's own name for a value of an enclosing one."""
        found = self.captures.get(value)
        if found is not None:
            return found
        owner = value.builder
        if owner is None or owner.closed or self.parent is None:
            raise escaped(value)
        outer = value if owner is self.parent else self.parent.capture(value)
        if outer in self.captures:
            inner = self.captures[value] = self.captures[outer]
            return inner
        inner = Value(value.type, None, self, outer.data if self.evaluate is not None else None)
        self.captures[value] = inner
        if outer is not value:
            self.captures[outer] = inner
        return inner


class _Stack(threading.local):
    def __init__(self) -> None:
        self.builders: list[GraphBuilder] = []
        self.where: Where = None


_stack = _Stack()


def current() -> GraphBuilder | None:
    """The builder that `emit` writes to, or None outside every trace."""
    builders = _stack.builders
    return builders[-1] if builders else None


def escaped(value: Value | None) -> EscapedError:
    """The error for a value that is used after its trace has ended; it says where the value was made."""
    filename, line = line_of(value.node.where) if value is not None and value.node is not None else ("", 0)
    made = f", made at {os.path.basename(filename)}:{line}," if filename else ""
    kind = "it" if value is None else f"this {value.type}"
    return EscapedError(
        f"escaped traced array: {kind}{made} belongs to a trace that has ended",
        hint="return it from the traced function (has_aux=True), or mark it with ws.capture; "
        "lists, globals and attributes keep no values of a trace",
    )


def owned(value: Value) -> Value:
    """The current builder's own name for a value of an enclosing one, so that a copy of it is an array of the inner
    trace, which may be written there; any other value as it is."""
    builder = current()
    return value if builder is None or value.builder in (None, builder) else builder.capture(value)


class building:
    """Make `builder` the current one; it is closed on the way out and its values may not be used again."""

    __slots__ = ("builder", "where")

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder

    def __enter__(self) -> GraphBuilder:
        builder, builders = self.builder, _stack.builders
        builder.parent = builders[-1] if builders else None
        builders.append(builder)
        self.where, _stack.where = _stack.where, None
        return builder

    def __exit__(self, *_: object) -> None:
        _stack.builders.pop()
        _stack.where = self.where
        self.builder.closed = True


def blame(where: Where) -> Where:
    """Let nodes emitted from now on inherit this line instead of looking for the user's; returns the previous one."""
    before, _stack.where = _stack.where, where
    return before


@contextmanager
def blaming_one_line() -> Iterator[None]:
    """Nodes emitted inside have the user's line that leads here, looked for once: no code of the user's runs inside."""
    before = blame(_stack.where or here())
    try:
        yield
    finally:
        blame(before)


def emit(op: Any, inputs: tuple[Value, ...], params: dict[str, Any]) -> Any:
    """Add one node and return its value, or the tuple of its values where the primitive has several."""
    return emit_typed(op, inputs, params, op.type(*[v.type for v in inputs], **params))


def emit_typed(op: Any, inputs: tuple[Value, ...], params: dict[str, Any], types: Any) -> Any:
    """`emit` where the caller knows the types of the outputs."""
    builders = _stack.builders
    if not builders:
        raise escaped(inputs[0] if inputs else None)
    builder = builders[-1]
    for value in inputs:
        if value.builder is not builder:
            inputs = tuple(v if v.builder is builder else builder.capture(v) for v in inputs)
            break
    recording = builder.recording
    if op.multiple or op.collective:
        return append(builder, Node(op, inputs, params, _stack.where or here(4)), types)
    value = Value(types, None, builder)
    if recording:  # `append`, inlined: most nodes of most traces are made here
        node = value.node = Node(op, inputs, params, _stack.where or here(4))  # the caller of this is internal, too
        node.outputs = (value,)
        builder.nodes.append(node)
    evaluate = builder.evaluate
    if evaluate is not None:
        for v in inputs:
            if v.data is None:
                return value
        value.data = evaluate(op, inputs, params)
    return value


def append(builder: GraphBuilder, node: Node, types: Any) -> Any:
    """Add a node whose types are already known."""
    evaluate = builder.evaluate
    if node.op.collective and builder.parent is not None:
        evaluate = None  # the sum over a batch exists once the batch does
    recording = builder.recording
    if recording:
        builder.nodes.append(node)
    if node.op.multiple:
        outputs = tuple([Value(t, node if recording else None, builder) for t in types])
        node.outputs = outputs
        if evaluate is not None and all([v.data is not None for v in node.inputs]):
            for value, data in zip(outputs, evaluate(node.op, node.inputs, node.params), strict=True):
                value.data = data
        return outputs
    value = Value(types, node if recording else None, builder)
    node.outputs = (value,)
    if evaluate is not None:
        for v in node.inputs:
            if v.data is None:
                return value
        value.data = evaluate(node.op, node.inputs, node.params)
    return value


def trim(nodes: Sequence[Node], outputs: Sequence[Value]) -> tuple[Node, ...]:
    """The nodes that the outputs need, in order."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return tuple(reversed(kept))


def lean(nodes: Sequence[Node], outputs: Sequence[Value]) -> tuple[Node, ...]:
    """The needed nodes of a finished graph, whose nested graphs also drop outputs that are not needed.

    A tangent's loop then carries no value beside it, and can be transposed by itself.
    """
    needed = set(outputs)
    need, kept = needed.update, []
    for node in reversed(nodes):
        made = node.outputs
        if len(made) == 1:  # nearly all
            if made[0] not in needed:
                continue
        elif needed.isdisjoint(made):
            continue
        if node.op.nested and not needed.issuperset(made):
            node = node.op.lean(node, [v in needed for v in made])
        kept.append(node)
        need(node.inputs)
    return tuple(reversed(kept))


def build(
    function: Callable[..., Sequence[Value]],
    types: Sequence[Type],
    *,
    name: str = "graph",
    names: Sequence[str] = (),
    evaluate: Evaluate | None = None,
    reason: str = "jit",
    named: bool = False,
) -> tuple[Graph, list[Value]]:
    """Trace `function` on abstract values of these types; with `named` the values that have names stay in the graph.

    Returns the graph and the values it captured from outside; the captured ones are its last inputs.
    """
    builder = GraphBuilder(evaluate, reason)
    with building(builder):
        inputs = [builder.input(t) for t in types]
        outputs = [v if v.builder is builder else builder.capture(v) for v in function(*inputs)]
        if builder.said:
            raise UnsupportedError(
                f"print: values inside of {reason} do not leave it",
                where=builder.said[0].where,
                hint="return the value and print it outside; inside ws.scan, ws.fori_loop and ws.vmap it is printed",
            )
    return close(builder, outputs, name, names, named)


def close(
    builder: GraphBuilder, outputs: Sequence[Value], name: str = "graph", names: Sequence[str] = (), named: bool = False
) -> tuple[Graph, list[Value]]:
    """The finished graph of a builder, and its captured values; with `named` it keeps the values that have names."""
    kept = [node.outputs[0] for node in builder.nodes if node.op.named] if named else []
    nodes, results = without_aliases(lean(builder.nodes, [*outputs, *kept]), outputs)
    used = {v for node in nodes for v in node.inputs}.union(results)
    captured: dict[Value, Value] = {}
    for outer, inner in builder.captures.items():
        if outer.builder is builder.parent and inner in used:
            captured[inner] = outer
    inputs = (*builder.inputs, *captured)
    return Graph(inputs, nodes, results, name, tuple(names)), list(captured.values())


def without_aliases(nodes: Sequence[Node], outputs: Sequence[Value]) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
    """Drop the nodes that only give a value another name; a finished graph has no need of them."""
    if not any([node.op.alias for node in nodes]):  # most have none
        return tuple(nodes), tuple(outputs)
    same: dict[Value, Value] = {}
    names, kept = same.keys(), []
    for node in nodes:
        if not names.isdisjoint(node.inputs):
            node.inputs = tuple([same.get(v, v) for v in node.inputs])
        if node.op.alias:
            same[node.outputs[0]] = node.inputs[0]
        else:
            kept.append(node)
    return tuple(kept), tuple([same.get(v, v) for v in outputs])


def inline(graph: Graph, values: Sequence[Value]) -> list[Value]:
    """Emit a graph's nodes into the current builder, its inputs replaced by `values`; types need no second look."""
    builder = _stack.builders[-1]
    own = [v if v.builder is builder else builder.capture(v) for v in values]
    env: dict[Value, Value] = dict(zip(graph.inputs, own, strict=True))
    copy_stretch(graph.nodes, env)
    return [env[v] for v in graph.outputs]


def copy_stretch(nodes: Sequence[Node], env: dict[Value, Value]) -> dict[Value, Value]:
    """Emit nodes again into the current builder; `env` maps operands to their replacements, others stay.

    Types are not inferred again. Returns `env`, with the results of the copies for those of the nodes.
    """
    builder = _stack.builders[-1]
    override = _stack.where
    plain = builder.recording and builder.evaluate is None
    known, keep = env.get, builder.nodes.append
    for node in nodes:
        op, outputs = node.op, node.outputs
        copy = Node(op, tuple([known(v, v) for v in node.inputs]), node.params, override or node.where)
        if op.multiple:
            append(builder, copy, [v.type for v in outputs])
            env.update(zip(outputs, copy.outputs, strict=True))
        elif plain:  # `append`, inlined
            keep(copy)
            value = env[outputs[0]] = Value(outputs[0].type, copy, builder)
            copy.outputs = (value,)
        else:
            env[outputs[0]] = append(builder, copy, outputs[0].type)
    return env
