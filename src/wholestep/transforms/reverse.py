"""Reverse mode: walk back over a program, each node turning the cotangent of its outputs into those of its inputs.

y = sin(x); z = y * w   -->   gy = gz * w; gx = gy * cos(x)
"""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.ir.build import blame, build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.attention_pattern.replace import with_blocked_attention
from wholestep.primitives.family import Maybe, instantiate
from wholestep.transforms.forward import copied
from wholestep.transforms.rules import TRANSFORMS


def reached(nodes: Sequence[Node], wanted: Sequence[Value]) -> set[Value]:
    """The values that the wanted ones reach."""
    active = {v for v in wanted if v.type.inexact}
    for node in nodes:
        if not node.op.flat and not active.isdisjoint(node.inputs):
            for v in node.outputs:
                if v.type.inexact:
                    active.add(v)
    return active


def backward(
    nodes: Sequence[Node],
    seeds: Sequence[tuple[Value, Maybe]],
    wanted: Sequence[Value],
    held: Sequence[Value] = (),
) -> list[Maybe]:
    """Cotangents of `wanted`, given those of some outputs; None is zero.

    The walk enters only nodes through which some wanted value reaches a seed, and stops at the wanted values. Those and
    `held` are used by others besides the nodes.
    """
    active = reached(nodes, wanted)
    used = {*wanted, *held, *[v for v, _ in seeds]}
    seen = with_blocked_attention(nodes, used, active)
    if seen is not nodes:
        nodes, active = seen, reached(seen, wanted)
    cotangents: dict[Value, Value] = {}
    for v, g in seeds:
        if g is not None:
            known = cotangents.get(v)
            cotangents[v] = g if known is None else known + g
    kept = set(wanted)
    for node in reversed(nodes):
        outputs = node.outputs
        gys = [cotangents.get(v) if v in kept else cotangents.pop(v, None) for v in outputs]
        if not any([g is not None for g in gys]) or node.op.flat:
            continue
        inputs = node.inputs
        wrt = [v in active for v in inputs]
        if True not in wrt:
            continue
        before = blame(node.where)
        try:
            rules = TRANSFORMS if node.op.nested else backward
            gxs = node.op.pullback(node, gys, wrt, rules)
        finally:
            blame(before)
        for v, g, w in zip(inputs, gxs, wrt, strict=True):
            if g is not None and w:
                known = cotangents.get(v)
                cotangents[v] = g if known is None else known + g
    return [cotangents.get(v) for v in wanted]


def vjp(graph: Graph, wrt: Sequence[bool], given: Sequence[bool], primals: bool = False) -> Graph:
    """The graph (inputs, cotangents of the given outputs) -> cotangents of the inputs in `wrt`, zeros included.

    With `primals` the graph's own outputs come first. Made once for each graph and mask.
    """
    key = ("vjp", tuple(wrt), tuple(given), primals)
    found: Graph = graph.derived(key, lambda: _vjp(graph, key[1], key[2], primals))
    return found


def _vjp(graph: Graph, wrt: tuple[bool, ...], given: tuple[bool, ...], primals: bool) -> Graph:
    def pull(*values: Value) -> list[Value]:
        inputs, rest = values[: len(wrt)], list(values[len(wrt) :])
        outputs, gxs = inline_vjp(graph, inputs, wrt, [rest.pop(0) if g else None for g in given])
        return [*outputs, *gxs] if primals else gxs

    types = [*graph.in_types, *[t for t, g in zip(graph.out_types, given, strict=True) if g]]
    made, captured = build(pull, types, name=f"vjp_{graph.name}")
    assert not captured
    return made


def inline_vjp(
    graph: Graph, primals: Sequence[Value], wrt: Sequence[bool], gys: Sequence[Maybe]
) -> tuple[list[Value], list[Value]]:
    """Emit a graph and its pullback into the current builder; returns outputs and cotangents."""
    copies, outputs = copied(graph, primals)
    wanted = [v for v, w in zip(copies.inputs, wrt, strict=True) if w]
    found = backward(copies.nodes, list(zip(outputs, gys, strict=True)), wanted)
    return outputs, [instantiate(v, g) for v, g in zip(wanted, found, strict=True)]


def transpose(graph: Graph, linear: Sequence[bool]) -> Graph:
    """The transpose of a graph in its linear inputs: (other inputs, output cotangents) -> their cotangents."""

    def pull(*values: Value) -> list[Value]:
        known, gys = list(values[: linear.count(False)]), values[linear.count(False) :]
        builder = values[0].builder
        assert builder is not None
        primals = [
            builder.placeholder(t) if lin else known.pop(0) for t, lin in zip(graph.in_types, linear, strict=True)
        ]
        return inline_vjp(graph, primals, linear, gys)[1]

    types = [*[t for t, lin in zip(graph.in_types, linear, strict=True) if not lin], *graph.out_types]
    made, captured = build(pull, types, name=f"transpose_{graph.name}")
    assert not captured
    return made


TRANSFORMS.vjp = vjp
TRANSFORMS.backward = backward
