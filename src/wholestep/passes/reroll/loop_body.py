"""Regions as scans: stacked operands, loop-carried values, loop-invariant values and stacked results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.analysis import in_order, reordered
from wholestep.ir.build import append, build, current
from wholestep.ir.graph import Node, Value
from wholestep.ir.types import array_type
from wholestep.passes.reroll.isomorphism import Pack, is_constant
from wholestep.passes.reroll.region import (
    OUTSIDE,
    LoopCarry,
    PreviousIteration,
    RerollRegion,
    SameIteration,
)
from wholestep.primitives.creation import constant
from wholestep.primitives.family import number_of
from wholestep.primitives.loops import scan
from wholestep.primitives.movement import broadcast


class LoopResult(NamedTuple):
    """The origin of a stacked result in the loop body: an output of an operation, or a loop-carried value."""

    node: int
    out: int
    carry: LoopCarry | None = None


class Recomputed(NamedTuple):
    """A pack that a loop recomputes: the operation and its output, and its operands in the reader's order."""

    node: Node
    out: int
    operands: list[Pack]


class LoopPlan:
    """The plan of a region's loop: its direction, carries, operands, recomputed values and results."""

    def __init__(self, region: RerollRegion) -> None:
        self.region = region
        self.nodes = [node for layer in region.layers for node in layer]
        """The operations that the loop replaces."""
        self.backward = False
        """True where iterations come in the reverse of the order in which packs are stacked."""
        self.carries = region.distinct_carries()
        self.carry_of = region.carries()
        self.delays = region.delayed_operands
        self.xs = region.stacked_operands
        self.recomputed: dict[Pack, Recomputed] = {}
        self.invariants: dict[Value, None] = {t[0]: None for t in region.outer if all(v is t[0] for v in t)}
        """The loop-invariant operands, those of recomputed values included."""
        self.produced: dict[Pack, LoopResult] = {}
        self.hoisted, left = loop_invariants(region)
        self.rematerialized: dict[Value, Node] = {
            v: layer[q] for layer in region.layers for q in left for v in layer[q].outputs
        }
        """Loop-invariant values that are rematerialized wherever they are read."""
        self.origin: dict[Value, tuple[int, int]] = {}
        for q, out, t in region.results():
            self.produced.setdefault(t, LoopResult(q, out))
            self.origin.update(dict.fromkeys(t, (q, out)))
        for c in self.carries:
            self.produced.setdefault(region.carried(c), LoopResult(c.node, c.out, c))

    def stacking_order(self, t: Pack) -> Pack:
        """A pack in the order in which it is stacked."""
        return t[::-1] if self.backward else t

    def stacks_pack(self, t: Pack) -> bool:
        """Test whether the loop can return this pack as a stacked result."""
        return self.stacking_order(t) in self.produced

    def pack_of_value(self, v: Value) -> Pack:
        """The pack of a value that the loop makes."""
        return self.stacking_order(self.region.made(*self.origin[v]))

    def final_values(self) -> set[Value]:
        """The final values of the carries, and the values hoisted before the loop."""
        early = [v for q in self.hoisted for layer in self.region.layers for v in layer[q].outputs]
        return {self.region.made(c.node, c.out)[-1] for c in self.carries}.union(early)

    def operands(self) -> tuple[list[Pack], list[Value]]:
        """The packs and the single values that the loop reads."""
        inits = [*[c.init for c in self.carries], *[t[0] for t in self.delays]]
        return [self.stacking_order(t) for t in self.xs], [*self.invariants, *inits]

    def emit(self, writer: Any, packs: Sequence[Pack]) -> tuple[dict[Value, Value], list[tuple[Pack, Value]]]:
        """Emit the loop: its final values, and these packs stacked."""
        return LoopEmitter(self, writer).emit(packs)


def loop_invariants(region: RerollRegion) -> tuple[set[int], set[int]]:
    """The loop-invariant operations of a region: those hoisted before the loop, and those left in its body.

    Operations on constants alone fold in the body, and movement need not be stored.
    """
    fixed, early, late = set[int](), set[int](), set[int]()
    """The loop-invariant operations; those hoisted; and those that depend on more than constants."""
    for q, row in enumerate(region.sources):
        node = region.layers[0][q]
        same = [
            (isinstance(s, SameIteration) and s.node in fixed)
            or (s is OUTSIDE and len(set(region.operands(q, o))) == 1)
            for o, s in enumerate(row)
        ]
        if not all(same) or node.op.nested:
            continue
        fixed.add(q)
        if any(
            s.node in late if isinstance(s, SameIteration) else not is_constant(region.operands(q, o)[0])
            for o, s in enumerate(row)
        ):
            late.add(q)
            early.update([q] if node.op.kind != "movement" else ())
    return early, fixed - early


def hoisted_closure(region: RerollRegion, early: set[int]) -> set[int]:
    """The hoisted operations, and those that they depend on, which the body recomputes."""
    found, waiting = set(early), list(early)
    while waiting:
        new = {s.node for s in region.sources[waiting.pop()] if isinstance(s, SameIteration)} - found
        found |= new
        waiting += new
    return found


class LoopEmitter:
    """The emission of one loop."""

    def __init__(self, layer: LoopPlan, writer: Any) -> None:
        self.layer, self.region, self.writer = layer, layer.region, writer
        self.hoisted: dict[tuple[int, int], Value] = {}
        self.invariants: dict[Value, Value] = {}

    def emit(self, packs: Sequence[Pack]) -> tuple[dict[Value, Value], list[tuple[Pack, Value]]]:
        layer, region, writer = self.layer, self.region, self.writer
        self.prepare()
        inits = [writer.single(c.init) for c in layer.carries] + [writer.single(t[0]) for t in layer.delays]
        xs = [self.read(t) for t in layer.xs]
        made = [layer.produced[layer.stacking_order(t)] for t in packs]

        def body(*values: Value) -> list[Value]:
            return LoopBodyEmitter(self, values, len(inits)).outputs(made)

        graph, captured = build(body, [*[v.type for v in inits], *[array_type(x.shape[1:], x.dtype) for x in xs]])
        n, own = len(captured), len(inits) + len(xs)
        graph = reordered(graph, [*range(own, own + n), *range(own)], range(len(graph.outputs)))
        outs: Any = scan(
            *captured,
            *inits,
            *xs,
            graph=graph,
            sizes=(n, len(inits)),
            length=region.count,
            reverse=layer.backward,
        )
        finals = {region.made(c.node, c.out)[-1]: v for c, v in zip(layer.carries, outs, strict=False)}
        finals |= {v: early for at, early in self.hoisted.items() for v in region.made(*at)}
        return finals, list(zip(packs, outs[len(inits) :], strict=True))

    def prepare(self) -> None:
        """Emit the loop-invariant operands and the hoisted operations before the loop."""
        for v in self.writer.roots(self.layer.invariants):
            self.invariants[v] = self.writer.single(v)
        made: dict[tuple[int, int], Value] = {}
        for q in sorted(hoisted_closure(self.region, self.layer.hoisted)):
            operands = [
                made[s.node, s.out]
                if isinstance(s, SameIteration)
                else self.writer.single(self.region.operands(q, o)[0])
                for o, s in enumerate(self.region.sources[q])
            ]
            made.update({(q, out): v for out, v in enumerate(emit_copy(self.region.layers[0][q], operands))})
        self.hoisted = {at: v for at, v in made.items() if at[0] in self.layer.hoisted}

    def read(self, t: Pack) -> Value:
        """A stacked operand of the loop; a pack of numbers is a vector, whose elements the body broadcasts."""
        if is_number_pack(t):
            values = [v.node.params["value"] for v in self.layer.stacking_order(t) if v.node is not None]
            return constant(value=np.array(values, t[0].dtype))
        found: Value = self.writer.stack(self.layer.stacking_order(t))
        return found


class LoopBodyEmitter:
    """The emission of a loop's body."""

    def __init__(self, loop: LoopEmitter, values: Sequence[Value], carried: int) -> None:
        self.loop, self.layer, self.region = loop, loop.layer, loop.region
        self.carry = dict(zip(self.layer.carries, values, strict=False))
        self.outer: dict[Pack, Value] = dict(zip(self.layer.delays, values[len(self.carry) : carried], strict=True))
        for t, v in zip(self.layer.xs, values[carried:], strict=True):
            self.outer[t] = broadcast(v, shape=t[0].shape, axes=()) if is_number_pack(t) else v
        self.outer.update({(v,) * self.region.count: x for v, x in loop.invariants.items()})
        self.env: dict[tuple[int, int], Value] = dict(loop.hoisted)
        self.walk()

    def walk(self) -> None:
        for q, node in enumerate(self.region.layers[0]):
            if q in self.layer.hoisted:
                continue
            for out, v in enumerate(emit_copy(node, [self.operand(q, o) for o in range(len(node.inputs))])):
                self.env[q, out] = v

    def operand(self, q: int, o: int) -> Value:
        source = self.region.sources[q][o]
        if isinstance(source, SameIteration):
            return self.env[source.node, source.out]
        if isinstance(source, PreviousIteration):
            return self.carry[self.layer.carry_of[q, o]]
        return self.outside_value(self.region.operands(q, o))

    def outside_value(self, t: Pack) -> Value:
        """The value of a pack from outside in the body."""
        if t not in self.outer:
            in_order(t, self.outer.__contains__, lambda u: self.recipe(u).operands, self.recompute)
        return self.outer[t]

    def recipe(self, t: Pack) -> Recomputed:
        """The operation that recomputes a pack from outside."""
        if t in self.layer.recomputed:
            return self.layer.recomputed[t]
        v, rematerialized = t[0], self.loop.writer.rematerialized
        assert v.node is not None and (is_constant(v) or v in rematerialized), "a value is not there yet"
        return Recomputed(v.node, v.node.outputs.index(v), [(u,) * len(t) for u in v.node.inputs])

    def recompute(self, t: Pack) -> None:
        """Enter the value of a pack from outside whose operands are there."""
        node, out, operands = self.recipe(t)
        self.outer[t] = emit_copy(node, [self.outer[u] for u in operands])[out]

    def outputs(self, made: Iterable[LoopResult]) -> list[Value]:
        """The carries, then the stacked results."""
        on = [self.env[c.node, c.out] for c in self.layer.carries]
        on += [self.outside_value(source) for source in self.layer.delays.values()]
        return on + [self.carry[m.carry] if m.carry is not None else self.env[m.node, m.out] for m in made]


def is_number_pack(t: Pack) -> bool:
    """Test whether every value of a pack is one number everywhere."""
    return all(number_of(v) is not None for v in t)


def emit_copy(node: Node, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same operation in the graph that is being built."""
    builder = current()
    assert builder is not None
    own = tuple([v if v.builder is builder else builder.capture(v) for v in inputs])
    new = Node(node.op, own, node.params, node.where)
    types = [v.type for v in node.outputs]
    append(builder, new, types if node.op.multiple else types[0])
    return new.outputs
