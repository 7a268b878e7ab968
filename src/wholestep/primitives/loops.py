"""scan: one step of program applied along an axis, carrying state; differentiated without unrolling."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import ShapeError
from wholestep.ir.analysis import cut, dependents, hollow, narrowed, part, reach, reordered, used
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import Maybe, expand, instantiate, zeros
from wholestep.primitives.min_cut import fewest
from wholestep.primitives.movement import permute
from wholestep.primitives.structure import Nested, filled, present, spread_marks

NOTHING = ("full", "iota", "broadcast")
"""Operations whose results need no place, since they are made of nothing, or of less."""


class Split(NamedTuple):
    """A step's reverse program cut in two: a forward scan that stacks residuals, a backward scan that reads them."""

    forward: Graph
    """(constants, carry, x) -> (carry, y, residuals)"""
    backward: Graph
    """(early, xs, kept, cotangents) -> cotangents"""
    early: Graph
    """constants -> values that are the same at every step"""
    x_places: list[int]
    """The indices of the xs that the backward scan reads again."""
    kept: list[int]
    """The indices of the forward scan's results that the backward scan reads."""
    stored: int
    """The number of values that the backward scan reads at each step: those xs and results of the forward scan."""


class Scan(Nested):
    """`for x in xs: carry, y = graph(constants, carry, x)`; inputs and outputs in that order, ys stacked.

    `length` is the number of steps, `sizes` counts constants and carries, `reverse` runs from the last x to the first.
    """

    def type(self, *types: Type, graph: Graph, sizes: tuple[int, int], length: Any, reverse: bool) -> tuple[Type, ...]:
        constants, carries = sizes
        carry = types[constants : constants + carries]
        for t in types[constants + carries :]:
            if t.ndim == 0 or t.shape[0] != length:
                raise ShapeError(f"scan: {t} has not {length} elements along its first axis")
        if graph.out_types[:carries] != carry:
            raise ShapeError(f"scan: the step turns a carry of {carry} into {graph.out_types[:carries]}")
        return (*carry, *[array_type((length, *t.shape), t.dtype) for t in graph.out_types[carries:]])

    def ref(
        self, *arrays: Any, run: Any, graph: Graph, sizes: tuple[int, int], length: int, reverse: bool
    ) -> Sequence[Any]:
        constants, carries = sizes
        fixed, carry, xs = arrays[:constants], list(arrays[constants : constants + carries]), arrays[sum(sizes) :]
        ys = [np.empty((length, *t.shape), t.dtype) for t in graph.out_types[carries:]]
        for i in reversed(range(length)) if reverse else range(length):
            out = run(graph, (*fixed, *carry, *[x[i] for x in xs]))
            carry = out[:carries]
            for y, row in zip(ys, out[carries:], strict=True):
                y[i] = row
        return [*carry, *ys]

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        graph, (c, k) = node.params["graph"], node.params["sizes"]
        active = spread_marks(graph, c, k, [dx is not None for dx in dxs], reach)
        on_carry = active[c : c + k]
        ys = len(graph.outputs) - k
        made, on = rules.jvp(graph, active, [*on_carry, *[False] * ys])
        dcs, dcarries = sum(active[:c]), sum(on_carry)
        n = len(active)
        order = [*range(c), *range(n, n + dcs), *range(c, c + k), *range(n + dcs, n + dcs + dcarries)]
        order += [*range(c + k, n), *range(n + dcs + dcarries, n + sum(active))]
        outs = len(graph.outputs)
        out_order = [*range(k), *range(outs, outs + dcarries), *range(k, outs)]
        out_order += range(outs + dcarries, outs + sum(on))
        tangents = [instantiate(v, dx) for v, dx, a in zip(node.inputs, dxs, active, strict=True) if a]
        values = [*node.inputs, *tangents]
        changed = {"graph": reordered(made, order, out_order), "sizes": (c + dcs, k + dcarries)}
        out = self(*[values[i] for i in order], **{**node.params, **changed})
        return filled(on, [*out[k : k + dcarries], *out[k + dcarries + ys :]])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        graph, (c, k) = node.params["graph"], node.params["sizes"]
        length, reverse = node.params["length"], node.params["reverse"]
        active = spread_marks(graph, c, k, wrt, reach)
        given = [*active[c : c + k], *[g is not None for g in gys[k:]]]
        key = ("split", tuple(active), tuple(given), c, k)
        halves: Split = graph.derived(key, lambda: split_pullback(graph, rules, active, given, (c, k)))
        kept = self.keep(node, halves)
        early = inline(halves.early, node.inputs[:c])
        xs = [node.inputs[c + k + i] for i in halves.x_places]
        passed = zip(node.outputs[:k], gys[:k], active[c : c + k], strict=True)
        gcarry = [instantiate(v, g) for v, g, a in passed if a]
        gconstants = [zeros(v.type) for v, a in zip(node.inputs[:c], active[:c], strict=True) if a]
        n, m = len(gcarry), len(gconstants)
        outs = self(
            *[*early, *gcarry, *gconstants, *xs, *kept, *present(gys[k:])],
            graph=graph.derived(("backward", key), lambda: backward_step(halves, len(early), n, m)),
            sizes=(len(early), n + m),
            length=length,
            reverse=not reverse,
        )
        found = filled(active, [*outs[n : n + m], *outs[:n], *outs[n + m :]])
        return [g if w else None for g, w in zip(found, wrt, strict=True)]

    def keep(self, node: Node, halves: Split) -> Sequence[Value]:
        """The values that the backward scan reads, from a forward scan that also returns residuals.

        A scan whose results have no data yet is changed in place. Over placeholders a scan never runs: there, and where
        data exist, another scan computes the missing values, without the carries that they do not depend on.
        """
        params = {**node.params, "graph": halves.forward}
        plain = len(node.outputs)
        builder = node.inputs[0].builder
        assert builder is not None
        runs = not (builder.hollow and hollow(node.inputs))
        made = dict(enumerate(node.outputs)) if runs else {}
        missing = [i for i in halves.kept if i not in made]
        if missing and runs and builder.recording and all(v.data is None for v in node.outputs):
            types = self.type(*node.types, **params)
            node.params = params
            node.outputs = (*node.outputs, *[Value(t, node, builder) for t in types[plain:]])
            return [node.outputs[i] for i in halves.kept]
        if missing:
            wanted = [i in missing for i in range(len(halves.forward.outputs))]
            small, places, _, sizes = leanest(halves.forward, node.params["sizes"], wanted)
            outs: Any = self(*[node.inputs[i] for i in places], **{**params, "graph": small, "sizes": sizes})
            made.update(zip(sorted(missing), outs[sizes[1] :], strict=True))
        return [made[i] for i in halves.kept]

    def lean(self, node: Node, wanted: Sequence[bool]) -> Node:
        params = node.params
        small, places, marks, sizes = leanest(params["graph"], params["sizes"], wanted)
        return narrowed(node, [node.inputs[i] for i in places], {**params, "graph": small, "sizes": sizes}, marks)

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool], **params: Any) -> Any:
        graph, (c, k) = params["graph"], params["sizes"]
        marks = spread_marks(graph, c, k, on, lambda g, mask: batching.graph(g, mask)[1])
        made, out_marks = batching.graph(graph, marks, [*marks[c : c + k], *[False] * (len(graph.outputs) - k)])
        operands = list(xs[:c])
        operands += [
            expand(x, batching.n, o) if m else x
            for x, o, m in zip(xs[c : c + k], on[c : c + k], marks[c : c + k], strict=True)
        ]
        operands += [
            permute(x, axes=(1, 0, *range(2, x.ndim))) if o else x
            for x, o in zip(xs[c + k :], on[c + k :], strict=True)
        ]
        outs = self(*operands, **{**params, "graph": made})
        ys = [
            permute(y, axes=(1, 0, *range(2, y.ndim))) if m else y for y, m in zip(outs[k:], out_marks[k:], strict=True)
        ]
        return [*outs[:k], *ys], out_marks


def leanest(
    graph: Graph, sizes: tuple[int, int], wanted: Sequence[bool]
) -> tuple[Graph, list[int], list[bool], tuple[int, int]]:
    """The step that makes the wanted outputs and no carry that they do not need.

    Returns the places of the inputs that are left, marks of the outputs that are left, and the new sizes.
    """
    c, k = sizes
    marks = list(wanted)
    while True:
        made = cut(graph, marks)
        needs = used(made)
        new = [m or (i < k and needs[c + i]) for i, m in enumerate(marks)]
        if new == marks:
            break
        marks = new
    places = [i for i, need in enumerate(needs) if need or (c <= i < c + k and marks[i - c])]
    small = reordered(made, places, range(len(made.outputs)))
    return small, places, marks, (len([i for i in places if i < c]), sum(marks[:k]))


def split_pullback(
    graph: Graph, rules: Any, active: Sequence[bool], given: Sequence[bool], sizes: tuple[int, int]
) -> Split:
    """Cut the step's pullback where cotangents enter: values before the cut are kept by the forward scan.

    Of those that cheap operations make of each other only the fewest bytes are kept. A value that depends on constants
    alone is made once, outside; an x is read again and not stored twice.
    """
    return split_late(rules.vjp(graph, active, given, primals=True), len(active), len(graph.outputs), sizes)


def split_late(full: Graph, n: int, outs: int, sizes: tuple[int, int]) -> Split:
    """Cut the joint step of two loops at the inputs behind the first n, which only the second loop has.

    Its first `outs` outputs are those of the first loop, whose inputs `sizes` counts.
    """
    c, k = sizes
    primal, cotangents, gxs = full.inputs[:n], full.inputs[n:], full.outputs[outs:]
    late = dependents(full, cotangents)
    moving = dependents(full, primal[c:])
    needed: dict[Value, None] = {}
    for node in full.nodes:
        if not late.isdisjoint(node.outputs):
            needed.update({v: None for v in node.inputs if v not in late})
    needed.update({v: None for v in gxs if v not in late})
    places = {v: i for i, v in enumerate(primal[c + k :])}
    ys = full.outputs[k:outs]  # stacked outputs, which exist already
    besides = fewest(full, needed, moving, {*places, *ys})
    stacked = {v: k + i for i, v in reversed(list(enumerate([*ys, *besides])))}
    early, found = made_again(needed, moving, {*stacked, *places})
    read, kept = [v for v in found if v in places], [v for v in found if v not in places]
    return Split(
        forward=part(full, primal, [*full.outputs[:outs], *besides]),
        backward=part(full, [*early, *read, *kept, *cotangents], gxs),
        early=part(full, primal[:c], early),
        x_places=[places[v] for v in read],
        kept=[stacked[v] for v in kept],
        stored=len(found),
    )


def made_again(
    needed: Iterable[Value], moving: Collection[Value], given: Collection[Value]
) -> tuple[list[Value], list[Value]]:
    """The values of which the needed ones are made again: those equal at every step, and those that are given."""
    waiting, early, found = list(dict.fromkeys(needed)), list[Value](), list[Value]()
    seen = set(waiting)
    for v in waiting:
        if v in given:
            found.append(v)
        elif v not in moving and (v.node is None or v.node.op.name not in NOTHING):
            early.append(v)
        else:
            assert v.node is not None
            fresh = [u for u in dict.fromkeys(v.node.inputs) if u not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
    return early, found


def backward_step(halves: Split, early: int, n: int, m: int) -> Graph:
    """(early, gcarry, gconstants so far, xs, kept, gys) -> (gcarry, gconstants, gxs): one step of the way back."""
    types = list(halves.backward.in_types)
    sizes = halves.stored
    made = halves.backward.out_types[:m]

    def step(*values: Value) -> list[Value]:
        fixed, gcarry, so_far, rest = (
            values[:early],
            values[early : early + n],
            values[early + n : early + n + m],
            values[early + n + m :],
        )
        outs = inline(halves.backward, [*fixed, *rest[:sizes], *gcarry, *rest[sizes:]])
        added = [a + g for a, g in zip(so_far, outs[:m], strict=True)]
        return [*outs[m : m + n], *added, *outs[m + n :]]

    stored = types[early : early + sizes]
    gcarry_types, gys = types[early + sizes : early + sizes + n], types[early + sizes + n :]
    graph, captured = build(step, [*types[:early], *gcarry_types, *made, *stored, *gys], name="backward")
    assert not captured
    return graph


scan = Scan()
