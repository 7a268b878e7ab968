"""Structure written at the level of graphs: bodies that close over outer values, as a frontend would write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.ir.analysis import reordered
from wholestep.ir.build import build, inline
from wholestep.ir.graph import OPS, Graph, Value
from wholestep.ir.types import Type, array_type

Step = Callable[..., Sequence[Value]]


def op(name: str, *xs: Value, **params: Any) -> Any:
    """One primitive by name."""
    return OPS[name](*xs, **params)


def cast(x: Value, dtype: Any) -> Value:
    return op("cast", x, dtype=np.dtype(dtype))


def total(x: Value) -> Value:
    return op("sum", x, axes=tuple(range(x.ndim)))


def dot(x: Value, w: Value) -> Value:
    return op("contract", x, w, spec="i,ij->j")


def literal(number: Any, shape: Sequence[int] = (), dtype: Any = np.float64) -> Value:
    return op("full", value=number, shape=tuple(shape), dtype=np.dtype(dtype))


def closed(function: Step, types: Sequence[Type], name: str) -> tuple[Graph, list[Value]]:
    """The graph of a function with its captured values as first inputs, and those values."""
    graph, captured = build(function, types, name=name)
    n, m = len(types), len(captured)
    return reordered(graph, [*range(n, n + m), *range(n)], range(len(graph.outputs))), captured


def scan(
    step: Step,
    carry: Sequence[Value],
    xs: Sequence[Value] = (),
    *,
    constants: Sequence[Value] = (),
    length: int | None = None,
    reverse: bool = False,
) -> list[Value]:
    """`for x in xs: carry, y = step(constants, carry, x)`."""
    count = xs[0].shape[0] if length is None else length
    rows = [array_type(x.shape[1:], x.dtype) for x in xs]
    graph, captured = closed(step, [*[v.type for v in (*constants, *carry)], *rows], "step")
    sizes = (len(captured) + len(constants), len(carry))
    return list(op("scan", *captured, *constants, *carry, *xs, graph=graph, sizes=sizes, length=count, reverse=reverse))


def cond(index: Value, branches: Sequence[Step], *operands: Value) -> list[Value]:
    """The branch that an integer names."""
    graphs = []
    for branch in branches:
        graph, captured = build(branch, [v.type for v in operands], name="branch")
        assert not captured, "give a branch what it uses as operands"
        graphs.append(graph)
    return list(op("cond", index, *operands, branches=tuple(graphs)))


def while_loop(predicate: Step, body: Step, carry: Sequence[Value]) -> list[Value]:
    """`while predicate(carry): carry = body(carry)`."""
    types = [v.type for v in carry]
    test, ps = closed(predicate, types, "test")
    made, bs = closed(body, types, "body")
    sizes = (len(ps), len(bs))
    return list(op("while_loop", *ps, *bs, *carry, predicate=test, body=made, constants=sizes))


def wrapped(name: str, function: Step, operands: Sequence[Value], **params: Any) -> list[Value]:
    """A function inside a checkpoint, a composite or a custom rule."""
    graph, captured = closed(function, [v.type for v in operands], "body")
    return list(op(name, *captured, *operands, graph=graph, **params))


def checkpoint(function: Step, *operands: Value, **params: Any) -> list[Value]:
    return wrapped("checkpoint", function, operands, **params)


class Pullback:
    """A stated pullback as graphs: forward gives outputs and residuals, backward takes residuals and cotangents."""

    def __init__(self, forward: Graph, backward: Graph, outputs: int) -> None:
        self.forward_graph, self.backward_graph, self.outputs = forward, backward, outputs

    def forward(self, xs: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        out = inline(self.forward_graph, xs)
        return out[: self.outputs], out[self.outputs :]

    def backward(self, residuals: Sequence[Value], gys: Sequence[Value]) -> list[Value]:
        return inline(self.backward_graph, [*residuals, *gys])

    def pullback(self, xs: Sequence[Value], ys: Sequence[Value], gys: Sequence[Value]) -> list[Value]:
        return self.backward(self.forward(xs)[1], gys)

    def batched(self, batching: Any, on: Sequence[bool]) -> Pullback:
        everywhere = [True] * len(self.forward_graph.outputs)
        forward, _ = batching.graph(self.forward_graph, on, everywhere)
        wide, _ = batching.graph(self.backward_graph, [True] * len(self.backward_graph.inputs), [True] * len(on))

        def backward(*values: Value) -> list[Value]:
            found = inline(wide, values)
            return [g if o else op("sum", g, axes=(0,)) for g, o in zip(found, on, strict=True)]

        return Pullback(forward, build(backward, wide.in_types, name="backward")[0], self.outputs)


class Tangent:
    """A stated tangent as a graph of (xs, dxs)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def stated(self) -> Graph:
        return self.graph

    def tangent(self, xs: Sequence[Value], dxs: Sequence[Value]) -> list[Value]:
        return inline(self.graph, [*xs, *dxs])

    def batched(self, batching: Any, on: Sequence[bool]) -> Tangent:
        everywhere = [True] * len(self.graph.outputs)
        made, _ = batching.graph(self.graph, [*on, *on], everywhere)
        n = len(on)

        def tangent(*values: Value) -> list[Value]:
            return inline(made, values)

        return Tangent(build(tangent, [*made.in_types[:n], *made.in_types[n:]], name="tangent")[0])


class Batch:
    """A stated batch: that of a graph, by every primitive's own rule."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[list[Value], Sequence[bool]]:
        made, marks = batching.graph(self.graph, on)
        return inline(made, xs), marks


def stated_batch(function: Step, operands: Sequence[Value]) -> Batch:
    """A batching rule from a function that computes the same as the primitive's own rule."""
    return Batch(build(function, [v.type for v in operands], name="batch")[0])


def stated_pullback(forward: Step, backward: Step, operands: Sequence[Value], outputs: int) -> Pullback:
    """A rule from functions: forward(*xs) -> (*ys, *residuals), backward(*residuals, *gys) -> gxs."""
    first, _ = build(forward, [v.type for v in operands], name="forward")
    kept = first.out_types[outputs:]
    second, _ = build(backward, [*kept, *first.out_types[:outputs]], name="backward")
    return Pullback(first, second, outputs)


def stated_tangent(tangent: Step, operands: Sequence[Value]) -> Tangent:
    """A rule from a function tangent(*xs, *dxs) -> dys."""
    types = [v.type for v in operands]
    return Tangent(build(tangent, [*types, *types], name="tangent")[0])
