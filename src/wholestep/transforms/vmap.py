"""Batching: put a batch on axis 0 of some inputs, and of every value that depends on them.

y = x @ w          -->   y = contract(x, w, 'nij,jk->nik')      for a batch of x alone
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.ir.build import blame, build
from wholestep.ir.graph import Graph, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import expand


class Batching:
    """One `vmap` at work: the size of its axis and the name that `psum` may call it by."""

    def __init__(self, n: Any, axis_name: str | None = None) -> None:
        self.n = n
        self.axis_name = axis_name

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.n, self.axis_name)

    def inline(self, graph: Graph, values: Sequence[Value], on: Sequence[bool]) -> tuple[list[Value], list[bool]]:
        """Emit the batched graph into the current builder; returns outputs and which of them carry the batch."""
        env: dict[Value, Value] = dict(zip(graph.inputs, values, strict=True))
        batched = {v for v, o in zip(graph.inputs, on, strict=True) if o}
        for node in graph.nodes:
            before = blame(node.where)
            try:
                outs, marks = self.step(node, [env[v] for v in node.inputs], [v in batched for v in node.inputs])
            finally:
                blame(before)
            for v, out, mark in zip(node.outputs, outs, marks, strict=True):
                env[v] = out
                if mark:
                    batched.add(v)
        return [env[v] for v in graph.outputs], [v in batched for v in graph.outputs]

    def step(self, node: Any, xs: list[Value], on: list[bool]) -> tuple[Sequence[Value], Sequence[bool]]:
        """One node, batched where any of its inputs is."""
        op = node.op
        if op.nested:
            found: tuple[Sequence[Value], Sequence[bool]] = op.batch(self, xs, on, **node.params)
            return found
        if op.collective and node.params["axis_name"] == self.axis_name:
            return (op.resolve(self.n, xs, on, **node.params),), (True,)
        if True not in on:
            outs = op(*xs, **node.params)
            return (outs if op.multiple else (outs,)), [False] * len(node.outputs)
        outs = op.batch(self.n, xs, on, **node.params)
        return (outs if op.multiple else (outs,)), [True] * len(node.outputs)

    def graph(
        self, graph: Graph, on: Sequence[bool], out_on: Sequence[bool] | None = None
    ) -> tuple[Graph, tuple[bool, ...]]:
        """The batched graph and which outputs carry the batch; with `out_on` those outputs carry it in any case."""
        key = ("vmap", self.key, tuple(on), None if out_on is None else tuple(out_on))
        found: tuple[Graph, tuple[bool, ...]] = graph.derived(key, lambda: self._graph(graph, tuple(on), out_on))
        return found

    def _graph(
        self, graph: Graph, on: tuple[bool, ...], out_on: Sequence[bool] | None
    ) -> tuple[Graph, tuple[bool, ...]]:
        marks: list[bool] = []

        def wide(*values: Value) -> list[Value]:
            outs, found = self.inline(graph, values, on)
            for i, wanted in enumerate(out_on or ()):
                if wanted and not found[i]:
                    outs[i], found[i] = expand(outs[i], self.n, False), True
            marks.extend(found)
            return outs

        types = [self.widened(t) if o else t for t, o in zip(graph.in_types, on, strict=True)]
        made, captured = build(wide, types, name=f"vmap_{graph.name}")
        assert not captured
        return made, tuple(marks)

    def widened(self, t: Type) -> Type:
        return array_type((self.n, *t.shape), t.dtype)
