"""Layers as a loop: what its body is given, hands on and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wholestep.ir.analysis import in_order, reordered
from wholestep.ir.build import append, build, current
from wholestep.ir.graph import OPS, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.rolling.run import OUTER, Carried, Carry, Inner, Run, delays, varying
from wholestep.passes.rolling.signature import Members, constant


class Made:
    """Where a row of a run's results comes from in its body: an output of an operation, or what a layer is handed."""

    def __init__(self, node: int, out: int, carry: Carry | None = None) -> None:
        self.node, self.out, self.carry = node, out, carry


class Pulled:
    """A value of one run that another one makes again: the operation, and its operands in the other's order."""

    def __init__(self, node: Node, out: int, operands: list[Members]) -> None:
        self.node, self.out, self.operands = node, out, operands


class Layer:
    """A run with the way in which it becomes a loop."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.backward = False
        """Whether its layers come in the reverse of the order in which the rows are kept."""
        self.carries = dict.fromkeys(run.carries().values())
        self.steps = run.carries()
        self.delays = delays(varying(run))
        self.xs = [t for t in varying(run) if t not in self.delays]
        self.pulled: dict[Members, Pulled] = {}
        self.once: dict[Value, None] = {t[0]: None for t in run.outer() if all(v is t[0] for v in t)}
        """What every layer reads alike, also what it needs to make again what another run makes."""
        self.produced: dict[Members, Made] = {}
        self.early, left = invariant(run)
        self.again: dict[Value, Node] = {v: layer[q] for layer in run.layers for q in left for v in layer[q].outputs}
        """What is the same in each layer and made anew wherever it is read."""
        self.own: dict[Value, tuple[int, int]] = {}
        for q, node in enumerate(run.layers[0]):
            for out in range(len(node.outputs)):
                self.produced.setdefault(run.made(q, out), Made(q, out))
                self.own.update(dict.fromkeys(run.made(q, out), (q, out)))
        for c in self.carries:
            self.produced.setdefault((c.init, *run.made(c.node, c.out)[:-1]), Made(c.node, c.out, c))

    def kept(self, t: Members) -> Members:
        """A row in the order in which it is kept."""
        return t[::-1] if self.backward else t

    def gives(self, t: Members) -> bool:
        """Whether the loop can give these rows."""
        return self.kept(t) in self.produced

    def row_of(self, v: Value) -> Members | None:
        """The row that a value of its own stands in."""
        at = self.own.get(v)
        return None if at is None else self.kept(self.run.made(*at))

    def last(self) -> set[Value]:
        """What the last layer hands on, and what is made before the first."""
        early = [v for q in self.early for layer in self.run.layers for v in layer[q].outputs]
        return {self.run.made(c.node, c.out)[-1] for c in self.carries}.union(early)

    def wants(self) -> tuple[list[Members], list[Value]]:
        """The rows and the single values that it reads."""
        inits = [*[c.init for c in self.carries], *[t[0] for t in self.delays]]
        return [self.kept(t) for t in self.xs], [*self.once, *inits]

    def written(self, writer: Any, rows: Sequence[Members]) -> tuple[dict[Value, Value], list[tuple[Members, Value]]]:
        """The loop: what its last layer hands on, and these rows."""
        return Loop(self, writer).written(rows)


def invariant(run: Run) -> tuple[set[int], set[int]]:
    """Which operations of a layer do the same in each: those done once, before the loop, and those left in its body.

    What is worked out from constants alone folds there, and what is only moved need not be stored.
    """
    fixed, early, late = set[int](), set[int](), set[int]()
    """Those that do the same in each layer; those done once; and those known only when the program runs."""
    for q, row in enumerate(run.sources):
        node = run.layers[0][q]
        same = [
            (isinstance(s, Inner) and s.node in fixed) or (s is OUTER and len(set(run.operands(q, o))) == 1)
            for o, s in enumerate(row)
        ]
        if not all(same) or node.op.nested:
            continue
        fixed.add(q)
        if any(
            s.node in late if isinstance(s, Inner) else not constant(run.operands(q, o)[0]) for o, s in enumerate(row)
        ):
            late.add(q)
            early.update([q] if node.op.kind != "movement" else ())
    return early, fixed - early


def needed(run: Run, early: set[int]) -> set[int]:
    """The operations that are done before the loop, and those that these read from, which the body does again."""
    found, waiting = set(early), list(early)
    while waiting:
        new = {s.node for s in run.sources[waiting.pop()] if isinstance(s, Inner)} - found
        found |= new
        waiting += new
    return found


class Loop:
    """One loop being written."""

    def __init__(self, layer: Layer, writer: Any) -> None:
        self.layer, self.run, self.writer = layer, layer.run, writer
        self.early: dict[tuple[int, int], Value] = {}
        self.once: dict[Value, Value] = {}

    def written(self, rows: Sequence[Members]) -> tuple[dict[Value, Value], list[tuple[Members, Value]]]:
        layer, run, writer = self.layer, self.run, self.writer
        self.prepare()
        inits = [writer.single(c.init) for c in layer.carries] + [writer.single(t[0]) for t in layer.delays]
        xs = [self.read(t) for t in layer.xs]
        made = [layer.produced[layer.kept(t)] for t in rows]

        def body(*values: Value) -> list[Value]:
            return Body(self, values, len(inits)).outputs(made)

        graph, captured = build(body, [*[v.type for v in inits], *map(type_of_row, xs)])
        n, own = len(captured), len(inits) + len(xs)
        graph = reordered(graph, [*range(own, own + n), *range(own)], range(len(graph.outputs)))
        outs: Any = OPS["scan"](
            *captured,
            *inits,
            *xs,
            graph=graph,
            sizes=(n, len(inits)),
            length=run.count,
            reverse=layer.backward,
        )
        finals = {run.made(c.node, c.out)[-1]: v for c, v in zip(layer.carries, outs, strict=False)}
        finals |= {v: early for at, early in self.early.items() for v in run.made(*at)}
        return finals, list(zip(rows, outs[len(inits) :], strict=True))

    def prepare(self) -> None:
        """What every layer reads alike, and what is worked out from that alone, before the loop."""
        for same in self.layer.once:
            for v in self.writer.roots(same):
                self.once[v] = self.writer.single(v)
        made: dict[tuple[int, int], Value] = {}
        for q in sorted(needed(self.run, self.layer.early)):
            operands = [
                made[s.node, s.out] if isinstance(s, Inner) else self.writer.single(self.run.operands(q, o)[0])
                for o, s in enumerate(self.run.sources[q])
            ]
            made.update({(q, out): v for out, v in enumerate(copied(self.run.layers[0][q], operands))})
        self.early = {at: v for at, v in made.items() if at[0] in self.layer.early}

    def read(self, t: Members) -> Value:
        """An operand of the loop; numbers are read one by one, and repeated inside."""
        if numbers(t):
            values = [v.node.params["value"] for v in self.layer.kept(t) if v.node is not None]
            made: Value = OPS["constant"](value=np.array(values, t[0].dtype))
            return made
        found: Value = self.writer.stack(self.layer.kept(t))
        return found


class Body:
    """The body of a loop being written."""

    def __init__(self, loop: Loop, values: Sequence[Value], carried: int) -> None:
        self.loop, self.layer, self.run = loop, loop.layer, loop.run
        self.carry = dict(zip(self.layer.carries, values, strict=False))
        self.outer: dict[Members, Value] = dict(zip(self.layer.delays, values[len(self.carry) : carried], strict=True))
        for t, v in zip(self.layer.xs, values[carried:], strict=True):
            self.outer[t] = OPS["broadcast"](v, shape=t[0].shape, axes=()) if numbers(t) else v
        self.env: dict[tuple[int, int], Value] = dict(loop.early)
        self.walk()

    def walk(self) -> None:
        for q, node in enumerate(self.run.layers[0]):
            if q in self.layer.early:
                continue
            for out, v in enumerate(copied(node, [self.operand(q, o) for o in range(len(node.inputs))])):
                self.env[q, out] = v

    def operand(self, q: int, o: int) -> Value:
        source = self.run.sources[q][o]
        if isinstance(source, Inner):
            return self.env[source.node, source.out]
        if isinstance(source, Carried):
            return self.carry[self.layer.steps[q, o]]
        return self.given(self.run.operands(q, o))

    def given(self, t: Members) -> Value:
        """What comes from outside."""
        if t not in self.outer:
            in_order(t, self.outer.__contains__, lambda u: self.recipe(u)[2], self.enter)
        return self.outer[t]

    def recipe(self, t: Members) -> tuple[Node | None, int, list[Members]]:
        """The operation that makes again what comes from outside, which output it is, and its operands."""
        pulled = self.layer.pulled.get(t)
        if pulled is not None:
            return pulled.node, pulled.out, pulled.operands
        if t[0] in self.loop.once:
            return None, 0, []
        node = t[0].node
        assert node is not None and (constant(t[0]) or t[0] in self.loop.writer.again), "a value is not there yet"
        return node, node.outputs.index(t[0]), [(v,) * len(t) for v in node.inputs]

    def enter(self, t: Members) -> None:
        """Enter what comes from outside, whose operands are there."""
        node, out, operands = self.recipe(t)
        self.outer[t] = self.loop.once[t[0]] if node is None else copied(node, [self.outer[u] for u in operands])[out]

    def outputs(self, made: Iterable[Made]) -> list[Value]:
        """What is handed on, then the rows."""
        on = [self.env[c.node, c.out] for c in self.layer.carries]
        on += [self.given(source) for source in self.layer.delays.values()]
        return on + [self.carry[m.carry] if m.carry is not None else self.env[m.node, m.out] for m in made]


def numbers(t: Members) -> bool:
    """Whether a row holds a number each."""
    return all(v.node is not None and v.node.op.name == "full" for v in t)


def type_of_row(x: Value) -> Type:
    """The type of one element along the first axis."""
    return array_type(x.shape[1:], x.dtype)


def copied(node: Node, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same operation in the graph that is being written."""
    builder = current()
    assert builder is not None
    own = tuple([v if v.builder is builder else builder.capture(v) for v in inputs])
    new = Node(node.op, own, node.params, node.where)
    types = [v.type for v in node.outputs]
    append(builder, new, types if node.op.multiple else types[0])
    return new.outputs
