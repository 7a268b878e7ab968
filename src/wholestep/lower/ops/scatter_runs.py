"""Scatter by runs: each element of the result finds the run of its own places among sorted ones.

starts[p] = the number of the ascending numbers below p
for p in 50257: for j in 768: for k in starts[p] to starts[p + 1]: out[p, j] += u[order[k], j]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import Coordinates, linear_index, row_major_strides
from wholestep.kernel.lang import I32, I64, Axis, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.kernels.scalar_codegen import ElementReader, ScalarValue, components_of, scalar_of
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape
from wholestep.lower.ops.scatter import copy_unless_in_place
from wholestep.lower.ops.scatter_elements import combined_elements
from wholestep.primitives.family import number_of

STEPS = (8, 8, 8)
"""The extents of the inner loops over a run; a loop that would begin after the end of the run is skipped."""
NEIGHBOURS = 16
"""The elements for which one work item tests whether their place has a run."""


def run_starts_tasks(low: Materializer, node: Node) -> list[Task]:
    """A binary search for each number."""
    (numbers,), (starts,) = node.inputs, node.outputs
    n = numbers.type.size
    with KernelTemplate(low, "run_starts") as reader:
        axes, at = axes_of_shape(starts.shape)
        b = reader.builder
        with reader.loops(axes):
            wanted = b.index(at[0])
            with b.loop(Axis("s", n.bit_length()), ordered=True) as loop:
                first, end = loop.carry(b.constant(0, I64)), loop.carry(b.constant(n, I64))
                open_, half = first < end, b.op("shr", first + end, 1)
                zero = reader.number(0, numbers.dtype)
                found = b.convert(reader.read_guarded(numbers, (Index(0, {half: 1}),), open_, zero), I64)
                below = found < wanted
                after = loop.hand(first, b.op("select", open_ & below, half + 1, first))
                loop.hand(end, b.op("select", open_ & ~below, half, end))
            reader.store(starts, low.locations[starts], at, b.convert(after, I32))
    return [reader.task()]


def collect_tasks(low: Materializer, node: Node) -> list[Task]:
    """The tasks of a scatter by runs: one kernel where the operand is one number, which it also writes; else a copy of
    the operand and a kernel over the copy."""
    x = node.inputs[0]
    if number_of(x) is not None:
        return [collect_task(low, node, whole=True)]
    return [copy_unless_in_place(low, x, low.locations[node.outputs[0]]), collect_task(low, node, whole=False)]


def collect_task(low: Materializer, node: Node, whole: bool) -> Task:
    """A kernel over the whole result, or over the elements of a copy of the operand that have a run: most places have
    none, which one work item tests for some neighbours."""
    x, u, order, starts = node.inputs
    out, axes, combiner = node.outputs[0], node.params["axes"], node.params["combiner"]
    location, few = low.locations[out], 1 if whole or combiner else NEIGHBOURS  # since runs that are joined are loops
    with KernelTemplate(low, node.op.name) as reader:
        grid, inner, place = neighbours_apart(x.shape, axes, few)
        number = linear_index(tuple([place[a] for a in axes]), row_major_strides([x.shape[a] for a in axes]))
        rest = tuple([place[a] for a in range(x.ndim) if a not in axes])
        with reader.loops(grid):
            first, end = [reader.builder.convert(reader.read(starts, (i,)), I64) for i in (number, number + 1)]
            met = first < end
            with reader.builder.loop(inner, guard=None if whole else met) if inner else nullcontext():
                run = PlaceRun(reader, order, u, rest, end, combiner)
                before = reader.read(x, place) if whole else reader.fetch(out, location, place, met)
                if combiner:
                    after = run.joined_to(before, first)
                else:
                    after = reader.choose(met, run.row(end - 1, met), before)
                reader.store(out, location, place, after, None if whole else met)
    return reader.task()


def neighbours_apart(
    shape: tuple[int, ...], indexed: Sequence[int], most: int
) -> tuple[list[Axis], Axis | None, Coordinates]:
    """The axes of a shape, with up to `most` neighbors along the last axis that is not indexed in an axis of their own,
    and the coordinates."""
    axes, place = axes_of_shape(shape)
    last = max([a for a, n in enumerate(shape) if a not in indexed and n > 1], default=None)
    if last is None:
        return axes, None, place
    (whole,) = place[last].terms
    count = max(n for n in range(1, most + 1) if shape[last] % n == 0)
    if count == 1:
        return axes, None, place
    outer, inner = Axis(f"i{last}", shape[last] // count), Axis("neighbour", count)
    split = Index(0, {outer: count, inner: 1})
    return [outer if a is whole else a for a in axes], inner, (*place[:last], split, *place[last + 1 :])


class PlaceRun:
    """The run of one element: its rows of u in their order, up to `end`, and the combiner of the scatter."""

    def __init__(
        self, reader: ElementReader, order: Value, u: Value, rest: Coordinates, end: Var, combiner: str
    ) -> None:
        self.reader, self.b, self.combiner = reader, reader.builder, combiner
        self.order, self.u, self.rest, self.end = order, u, rest, end

    def row(self, k: Var, inside: Var) -> ScalarValue:
        """The element of the row at a position of the order, where that is inside the run; else 0."""
        zero = self.b.constant(0, I64)
        row = self.reader.read_guarded(self.order, (Index(0, {k: 1}),), inside, zero)
        nothing = self.reader.number(0, self.u.dtype)
        return self.reader.read_guarded(self.u, (Index(0, {row: 1}), *self.rest), inside, nothing)

    def joined_to(self, before: ScalarValue, first: Var) -> ScalarValue:
        """An element joined with its run, the first row without a loop: a longer run is the rare case."""
        outer = -(-self.order.type.size // math.prod(STEPS))
        return self.nest(first + 1, (1, outer, *STEPS), self.one(first, before))

    def one(self, k: Var, before: ScalarValue) -> ScalarValue:
        """An element joined with one row more, where that is inside the run."""
        inside = k < self.end
        return self.reader.choose(
            inside, combined_elements(self.reader, self.combiner, before, self.row(k, inside)), before
        )

    def nest(self, start: Var, steps: Sequence[int], before: ScalarValue) -> ScalarValue:
        """An element joined with the rows from `start` on that loops of these extents reach."""
        if not steps:
            return self.one(start, before)
        axis = Axis(f"k{len(steps)}", steps[0])
        with self.b.loop(axis, ordered=True, guard=start < self.end) as loop:
            inside = [loop.carry(part) for part in components_of(before)]
            here = self.b.index(Index(0, {start: 1, axis: math.prod(steps[1:])}))
            after = components_of(self.nest(here, steps[1:], scalar_of(inside)))
            handed = [loop.hand(c, part) for c, part in zip(inside, after, strict=True)]
        return scalar_of(handed)
