"""Laws that every graph satisfies: types, derivatives in both modes, batching and text, each against its definition.

    from wholestep.testing import laws
    laws.check(graph, [x, y], rng)      # raises LawError that shows the graph

The laws apply to the results of transforms as well: the tangent law on `vjp(graph)` checks second derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.backends.reference import interpret
from wholestep.errors import DerivativeError, WholestepError
from wholestep.ir.build import build, lean
from wholestep.ir.graph import OPS, Graph, NDArray
from wholestep.ir.text import parse, text_and_objects
from wholestep.ir.verify import verify
from wholestep.testing.arrays import (
    DOUBLE,
    Function,
    coarsest_eps,
    differences,
    directions,
    gap,
    inner,
    largest_magnitude,
    random_direction,
)
from wholestep.transforms.forward import jvp
from wholestep.transforms.reverse import backward, transpose, vjp
from wholestep.transforms.vmap import Batching

Mask = tuple[bool, ...]


ADJOINT = 4096
"""The tolerance of the adjoint in rounding errors of the sum of absolute products: 9e-13 in float64."""
TANGENT = 1e-7
"""The tolerance of a tangent against central differences, relative to the largest element."""
LOOP = 32
"""The tolerance of a batch against its rows, in rounding errors of the largest element."""


class LawError(WholestepError, AssertionError):
    """The error for a graph that breaks a law."""

    def __init__(self, law: str, problem: str, *graphs: Graph) -> None:
        shown = "\n".join(str(g) for g in graphs)
        super().__init__(f"{law}: {problem}\n{shown}")


def masks(flags: Sequence[bool], limit: int = 15) -> list[Mask]:
    """Every non-empty subset of the flagged places; if there are too many, singles, all but one, and the whole."""
    places = [i for i, f in enumerate(flags) if f]
    subsets: Iterator[tuple[int, ...]]
    if 2 ** len(places) - 1 <= limit:
        subsets = itertools.chain.from_iterable(itertools.combinations(places, k + 1) for k in range(len(places)))
    else:
        gaps = [tuple(j for j in places if j != i) for i in places]
        subsets = iter([*[(i,) for i in places], *gaps, tuple(places)][-limit:])
    return [tuple(i in chosen for i in range(len(flags))) for chosen in subsets]


def differentiable(graph: Graph) -> Mask:
    """A mask of the inputs that may have a tangent: inexact ones that raise no DerivativeError."""

    def accepted(i: int) -> bool:
        try:
            jvp(graph, tuple(j == i for j in range(len(graph.inputs))))
        except DerivativeError:
            return False
        return True

    return tuple(t.inexact and accepted(i) for i, t in enumerate(graph.in_types))


def types(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
    """The type rules predict the shapes and dtypes that the reference gives; returns the outputs."""
    verify(graph)
    outs = [np.asarray(y) for y in interpret(graph, args)]
    for y, t in zip(outs, graph.out_types, strict=True):
        if y.shape != t.shape or y.dtype != t.dtype:
            raise LawError("types", f"predicted {t}, found {y.dtype}{list(y.shape)}", graph)
    return outs


def tangents(graph: Graph, args: Sequence[NDArray], active: Mask, dxs: Sequence[NDArray]) -> list[NDArray]:
    """The tangents of all inexact outputs, zeros included."""
    on = tuple(t.inexact for t in graph.out_types)
    made, _ = jvp(graph, active, on)
    verify(made)
    return interpret(made, [*args, *dxs])[len(graph.outputs) :]


def tangent(
    graph: Graph, args: Sequence[NDArray], rng: np.random.Generator, true: Function | None = None, rtol: float = TANGENT
) -> None:
    """The tangent is the directional derivative: by central differences, or by `true`, a function of directions.

    Only graphs in double precision are checked; in others rounding errors dominate the differences.
    """
    active = differentiable(graph)
    if not any(active) or coarsest_eps(graph) > DOUBLE:
        return
    places = [i for i, t in enumerate(graph.out_types) if t.inexact]
    dxs = directions(rng, graph.in_types, active)
    found = tangents(graph, args, active, dxs)
    outs = interpret(graph, args)
    if true is None:
        slopes = differences(lambda args: interpret(graph, args), args, active, dxs)
        expected, floor = [slopes[i] for i in places], 1e-10
    else:
        expected, floor = true(dxs), 1e-12
    for dy, slope, i in zip(found, expected, places, strict=True):
        bound = rtol * largest_magnitude([slope]) + floor * max(largest_magnitude([outs[i]]), 1.0)
        if not gap(dy, slope) <= bound:
            raise LawError("tangent", f"output {i} is off by {gap(dy, slope):.3g}, bound {bound:.3g}", graph)


def adjoint(graph: Graph, args: Sequence[NDArray], rng: np.random.Generator) -> None:
    """Re<gy, J dx> = Re<J* gy, dx>, for all inputs and outputs together and for each alone."""
    active = differentiable(graph)
    given = tuple(t.inexact for t in graph.out_types)
    if not any(active) or not any(given):
        return
    wholes = [(active, given)]
    wholes += [(m, given) for m in masks(active, 3) if m != active]
    wholes += [(active, m) for m in masks(given, 3) if m != given]
    for wrt, outs in wholes:
        dxs, gys = directions(rng, graph.in_types, wrt), directions(rng, graph.out_types, outs)
        dys = tangents(graph, args, wrt, dxs)
        inexact = [i for i, g in enumerate(given) if g]
        dys = [dy for dy, i in zip(dys, inexact, strict=True) if outs[i]]
        made = vjp(graph, wrt, outs)
        verify(made)
        gxs = interpret(made, [*args, *gys])
        _same_types(graph, gxs, wrt)
        (left, size), (right, other) = inner(gys, dys), inner(gxs, dxs)
        bound = _bound(coarsest_eps(graph), max(size, other), largest_magnitude(args))
        if np.isfinite(size) and np.isfinite(other) and not abs(left - right) <= bound:
            raise LawError("adjoint", f"<gy, J dx> = {left!r}, <J* gy, dx> = {right!r} for {wrt}, {outs}", graph)
        if np.isfinite(size) != np.isfinite(other):
            raise LawError("adjoint", f"only one mode is finite: {size}, {other}", graph)


def transposed(graph: Graph, args: Sequence[NDArray], rng: np.random.Generator) -> None:
    """The tangent as a linear program of its directions, transposed, is the pullback."""
    active, given = differentiable(graph), tuple(t.inexact for t in graph.out_types)
    if not any(active) or not any(given):
        return
    made, _ = jvp(graph, active, given)
    dys = made.outputs[len(graph.outputs) :]
    linear = Graph(made.inputs, lean(made.nodes, dys), dys, f"linear_{graph.name}")
    turned = transpose(linear, [i >= len(args) for i in range(len(made.inputs))])
    verify(turned)
    gys = directions(rng, graph.out_types, given)
    for found, expected in zip(
        interpret(turned, [*args, *gys]), interpret(vjp(graph, active, given), [*args, *gys]), strict=True
    ):
        bound = 256 * coarsest_eps(graph) * largest_magnitude([expected])
        if not gap(found, expected) <= bound:
            raise LawError("transposed", f"off by {gap(found, expected):.3g}, bound {bound:.3g}", linear, turned)


def _bound(eps: float, size: float, args: float) -> float:
    """The tolerance: 9e-13 of the products in float64, 64 rounding errors in others; and cancellation inside a rule."""
    return (ADJOINT if eps <= DOUBLE else 64) * eps * size + 64 * eps * max(args, 1.0)


def _same_types(graph: Graph, gxs: Sequence[NDArray], wrt: Mask) -> None:
    wanted = [t for t, w in zip(graph.in_types, wrt, strict=True) if w]
    for g, t in zip(gxs, wanted, strict=True):
        if g.shape != t.shape or g.dtype != t.dtype:
            raise LawError("adjoint", f"the cotangent of {t} is {g.dtype}{list(g.shape)}", graph)


def integers(graph: Graph) -> None:
    """Check that integer and boolean inputs get no cotangent, even where one is requested."""
    marked = [i for i, t in enumerate(graph.in_types) if not t.inexact]
    if not marked or not any(t.inexact for t in graph.out_types):
        return

    def pull(*values: Any) -> list[Any]:
        own = [OPS["identity"](v) for v in values[: len(graph.inputs)]]
        inner = _emitted(graph, own)
        seeds = [(y, g) for y, g in zip(inner[1], values[len(own) :], strict=True) if y.type.inexact]
        found = backward(inner[0], seeds, own)
        if any(found[i] is not None for i in marked):
            raise LawError("integers", "an integer input gets a cotangent", graph)
        return []

    build(pull, [*graph.in_types, *graph.out_types])


def _emitted(graph: Graph, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """A graph's nodes emitted one by one through their primitives, and its outputs."""
    env = dict(zip(graph.inputs, values, strict=True))
    nodes = []
    for node in graph.nodes:
        outs = node.op(*[env[v] for v in node.inputs], **node.params)
        outs = outs if node.op.multiple else (outs,)
        env.update(zip(node.outputs, outs, strict=True))
        nodes.extend([outs[0].node] if outs else [])
    return nodes, [env[v] for v in graph.outputs]


def varied(x: NDArray, row: int) -> NDArray:
    """Another valid value near x: floats shrink a little towards zero, integers and booleans are rolled."""
    if row == 0:
        return x
    if x.dtype.kind in "biu":
        return np.roll(x.reshape(-1), row).reshape(x.shape)
    return np.asarray(x * np.asarray(1 - row / 16, x.dtype), x.dtype)


def batch(graph: Graph, args: Sequence[NDArray], n: int = 2, limit: int = 15) -> None:
    """vmap is a loop: for every choice of batched inputs, each row of the outputs is the graph of that row."""
    rows = [[varied(x, i) for x in args] for i in range(n)]
    plain: dict[Any, list[NDArray]] = {}
    for on in masks([True] * len(args), limit):
        made, marks = Batching(n).graph(graph, on)
        stacked = [
            np.stack([r[i] for r in rows]) if o and n else np.zeros((0, *x.shape), x.dtype) if o else x
            for i, (x, o) in enumerate(zip(args, on, strict=True))
        ]
        outs = types(made, stacked)
        for j in range(n):
            key = (j, on) if j else 0
            if key not in plain:
                plain[key] = interpret(
                    graph, [rows[j][i] if o else x for i, (x, o) in enumerate(zip(args, on, strict=True))]
                )
            for i, (y, mark, expected) in enumerate(zip(outs, marks, plain[key], strict=True)):
                bound = LOOP * coarsest_eps(graph) * largest_magnitude([expected])
                if not gap(y[j] if mark else y, expected) <= bound:
                    raise LawError("batch", f"output {i}, row {j} differs from the loop for {on}", graph, made)


def text(graph: Graph) -> None:
    """A graph's text parses back to a graph with the same text."""
    verify(graph)
    printed, objects = text_and_objects(graph)
    again, _ = text_and_objects(parse(printed, objects))
    if again != printed:
        raise LawError("text", f"reads back as\n{again}\ninstead of", graph)


def cost(graph: Graph) -> None:
    """Check that the cost of every node is an integer, and not negative."""
    for node in graph.nodes:
        found = node.op.cost(node)
        if type(found.flops) is not int or found.flops < 0 or found.bytes < 0:
            raise LawError("cost", f"{node.op.name} costs {found}", graph)


def derived(graph: Graph, reverse: bool = True) -> Iterator[Graph]:
    """The first derivatives of a graph as graphs: one with outputs and tangents, one with cotangents."""
    active, given = differentiable(graph), tuple(t.inexact for t in graph.out_types)
    if any(active):
        yield jvp(graph, active, given)[0]
        if reverse and any(given):
            yield vjp(graph, active, given)


def arguments(graph: Graph, args: Sequence[NDArray], made: Graph, rng: np.random.Generator) -> list[NDArray]:
    """Arguments for a derivative: those of the graph, and directions for the rest."""
    return [*args, *[random_direction(rng, t) for t in made.in_types[len(args) :]]]


def check(
    graph: Graph,
    args: Sequence[NDArray],
    rng: np.random.Generator,
    *,
    smooth: bool = True,
    reverse: bool = True,
    second: bool = True,
    batched: bool = True,
) -> None:
    """Check every law on a graph and, with `second`, on its derivatives and its batched form."""
    args = [np.asarray(x) for x in args]
    types(graph, args)
    text(graph)
    cost(graph)
    if smooth:
        tangent(graph, args, rng)
    if reverse:
        adjoint(graph, args, rng)
        transposed(graph, args, rng)
    if batched:
        batch(graph, args)
    if not second:
        return
    for made in derived(graph, reverse):
        values = arguments(graph, args, made, rng)
        check(made, values, rng, smooth=smooth, reverse=reverse, second=False, batched=batched)
    if batched and args:
        on = tuple(True for _ in args)
        made, _ = Batching(2).graph(graph, on)
        stacked = [np.stack([varied(x, 0), varied(x, 1)]) for x in args]
        check(made, stacked, rng, smooth=smooth, reverse=reverse, second=False, batched=False)
