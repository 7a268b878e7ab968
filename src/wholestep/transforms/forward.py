"""Forward mode: emit a tangent beside each value.

y = sin(x)   -->   y = sin(x); dy = cos(x) * dx
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.build import blame, build, inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import Maybe, instantiate
from wholestep.primitives.marks import identity
from wholestep.transforms.rules import TRANSFORMS


def push(nodes: Sequence[Node], tangents: dict[Value, Value]) -> None:
    """Walk forward over nodes, adding the tangent of each value that has one. A zero tangent is a missing key."""
    for node in nodes:
        dxs = [tangents.get(v) for v in node.inputs]
        if not any([dx is not None for dx in dxs]) or node.op.flat:
            continue
        before = blame(node.where)
        try:
            dys = node.op.jvp(node, dxs, TRANSFORMS) if node.op.nested else node.op.jvp(node, dxs)
        finally:
            blame(before)
        for v, dy in zip(node.outputs, dys, strict=True):
            if dy is not None and v.type.inexact:
                tangents[v] = dy


def jvp(graph: Graph, active: Sequence[bool], out_on: Sequence[bool] | None = None) -> tuple[Graph, tuple[bool, ...]]:
    """The graph (inputs, tangents of the active ones) -> (outputs, tangents of the outputs that have one).

    Also returns which outputs have one; those in `out_on` have one in any case, zero if need be. Made once.
    """
    key = ("jvp", tuple(active), None if out_on is None else tuple(out_on))
    found: tuple[Graph, tuple[bool, ...]] = graph.derived(key, lambda: _jvp(graph, key[1], key[2]))
    return found


def _jvp(graph: Graph, active: Any, out_on: Any) -> tuple[Graph, tuple[bool, ...]]:
    on: list[bool] = []

    def both(*values: Value) -> list[Value]:
        primals, rest = values[: len(active)], list(values[len(active) :])
        out, tangents = inline_jvp(graph, primals, [rest.pop(0) if a else None for a in active])
        for i, wanted in enumerate(out_on or ()):
            if wanted:
                tangents[i] = instantiate(out[i], tangents[i])
        on.extend(t is not None for t in tangents)
        return [*out, *[t for t in tangents if t is not None]]

    types = [*graph.in_types, *[t for t, a in zip(graph.in_types, active, strict=True) if a]]
    made, captured = build(both, types, name=f"jvp_{graph.name}")
    assert not captured
    return made, tuple(on)


def inline_jvp(graph: Graph, primals: Sequence[Value], dxs: Sequence[Maybe]) -> tuple[list[Value], list[Maybe]]:
    """Emit a graph and its tangents into the current builder."""
    copies, outputs = copied(graph, primals)
    tangents = {v: dx for v, dx in zip(copies.inputs, dxs, strict=True) if dx is not None}
    push(copies.nodes, tangents)
    return outputs, [tangents.get(v) for v in outputs]


class Copy(NamedTuple):
    """A graph's nodes as they stand in the current builder: its inputs under fresh names, and the nodes in order."""

    inputs: list[Value]
    nodes: list[Node]


def copied(graph: Graph, values: Sequence[Value]) -> tuple[Copy, list[Value]]:
    """Emit a graph's nodes and keep hold of them.

    Inputs get fresh names, since the same value may be given twice and differentiated once.
    """
    from_outside: list[Value] = [identity(v) for v in values]
    builder = from_outside[0].builder if from_outside else None
    start = len(builder.nodes) if builder is not None else 0
    outputs = inline(graph, from_outside)
    nodes = builder.nodes[start:] if builder is not None else []
    return Copy(from_outside, nodes), outputs


TRANSFORMS.jvp = jvp
