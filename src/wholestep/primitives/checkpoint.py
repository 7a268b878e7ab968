"""checkpoint: a part of a program that keeps few residuals for its backward pass, and recomputes the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep.ir.analysis import cut, dependents, hollow, narrowed, part, slimmed
from wholestep.ir.build import blame, build, inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import Maybe
from wholestep.primitives.structure import Body, filled, present

Policy = str | tuple[str, ...] | Callable[..., bool] | None
"""The values kept beside the inputs: nothing, "contractions", "everything", the values that a program names with these
labels, or the results of which `policy(operation, type, params)` says so."""


class Halves(NamedTuple):
    """A body's reverse program cut in two: a forward half that gives residuals and a backward half that reads them."""

    forward: Graph
    """inputs -> (outputs, kept)"""
    backward: Graph
    """(inputs, kept, cotangents) -> cotangents"""


class CheckpointPrimitive(Body):
    """A region whose inner values are recomputed in the backward pass instead of being kept."""

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        made, on = rules.jvp(node.params["graph"], [dx is not None for dx in dxs])
        outs = self(*node.inputs, *present(dxs), **{**node.params, "graph": made})
        return filled(on, outs[len(node.outputs) :])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        graph, given = node.params["graph"], [g is not None for g in gys]
        kept: Sequence[Value] = ()
        if "policy" not in node.params:
            made = rules.vjp(graph, wrt, given)
        else:
            key = ("halves", node.params["policy"], tuple(wrt), tuple(given))
            halves: Halves = graph.derived(key, lambda: halved(graph, rules, wrt, given, node.params["policy"]))
            kept, made = self.keep(node, halves.forward), halves.backward
        (made,), inputs = slimmed([made], [*node.inputs, *kept, *present(gys)])
        return filled(wrt, self(*inputs, **{**node.params, "graph": made}))

    def keep(self, node: Node, forward: Graph) -> Sequence[Value]:
        """The values that the forward pass keeps: this node makes it where nothing has run yet, else another one."""
        plain = len(node.outputs)
        if len(forward.outputs) == plain:
            return ()
        params = {**node.params, "graph": forward}
        builder = node.outputs[0].builder
        fresh = builder.recording and all(v.data is None for v in node.outputs)
        if fresh and not (builder.hollow and hollow(node.inputs)):
            node.params = params
            node.outputs = (*node.outputs, *[Value(v.type, node, builder) for v in forward.outputs[plain:]])
            return node.outputs[plain:]
        wanted = [i >= plain for i in range(len(forward.outputs))]
        (small,), inputs = slimmed([cut(forward, wanted)], node.inputs)
        outs: Sequence[Value] = self(*inputs, **{**params, "graph": small})
        return outs

    def lean(self, node: Node, wanted: Sequence[bool]) -> Node:
        (made,), inputs = slimmed([cut(node.params["graph"], wanted)], node.inputs)
        return narrowed(node, inputs, {**node.params, "graph": made}, wanted)

    def batch(
        self, batching: Any, xs: Sequence[Value], on: Sequence[bool], *, graph: Graph, **policy: Any
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        made, marks = batching.graph(graph, on)
        outs: Sequence[Value] = self(*xs, graph=made, **policy)
        return outs, marks


def halved(graph: Graph, rules: Any, wrt: Sequence[bool], given: Sequence[bool], policy: Policy) -> Halves:
    """Cut a body's pullback at the values that a policy keeps; the backward half recomputes the values between them.

    A value that depends on no input is never kept.
    """
    full: Graph = rules.vjp(opened(graph), wrt, given, primals=True)
    primal, cotangents = full.inputs[: len(wrt)], full.inputs[len(wrt) :]
    outs, gxs = full.outputs[: len(given)], full.outputs[len(given) :]
    late = dependents(full, cotangents)
    moving = dependents(full, primal)
    chosen = {v for node in full.nodes if late.isdisjoint(node.outputs) for v in kept_of(node, policy)} & moving
    chosen -= set(primal)
    needed = dict.fromkeys(gxs)
    kept: dict[Value, None] = {}
    for node in reversed(full.nodes):
        wanted = [v for v in node.outputs if v in needed]
        kept.update(dict.fromkeys(v for v in wanted if v in chosen))
        if any(v not in chosen for v in wanted):
            needed.update(dict.fromkeys(node.inputs))
    order = [v for node in full.nodes for v in node.outputs if v in kept]
    behind = part(full, [*primal, *order, *cotangents], gxs)
    # Rebuilt: kept values are inputs now, and rules that look at an operand's node must not find the old one.
    backward, _ = build(lambda *values: inline(behind, values), behind.in_types, name=full.name)
    return Halves(part(full, primal, [*outs, *order]), backward)


def kept_of(node: Node, policy: Policy) -> Sequence[Value]:
    """The values at a node that a policy keeps: all of its results, none, or the operand of a listed label."""
    name = node.op.name
    if isinstance(policy, tuple):
        return node.inputs if name == "capture" and node.params["label"] in policy else ()
    if callable(policy):
        return node.outputs if all(policy(name, v.type, node.params) for v in node.outputs) else ()
    return node.outputs if policy == "everything" or name == "contract" else ()


def opened(graph: Graph) -> Graph:
    """The graph with composites that have no pullback of their own inlined."""

    def plain(node: Node) -> bool:
        return node.op.name == "composite" and node.params["rule"] is None

    def written(*values: Value) -> list[Value]:
        env = dict(zip(graph.inputs, values, strict=True))
        for node in graph.nodes:
            before = blame(node.where)
            inputs = [env[v] for v in node.inputs]
            if plain(node):
                outs: Sequence[Value] = inline(opened(node.params["graph"]), inputs)
            else:
                made = node.op(*inputs, **node.params)
                outs = made if node.op.multiple else (made,)
            blame(before)
            env.update(zip(node.outputs, outs, strict=True))
        return [env[v] for v in graph.outputs]

    if not any(map(plain, graph.nodes)):
        return graph
    return build(written, graph.in_types, name=graph.name)[0]


checkpoint = CheckpointPrimitive("checkpoint")
