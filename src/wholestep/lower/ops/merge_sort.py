"""Merge sort of the positions in rows of keys: launches in which every element of a merged run is found by itself.

Two sorted runs are merged by where a diagonal crosses the path of the merge, which a binary search finds (Green,
McColl, Bader, "GPU Merge Path", ICS 2012). Targets whose libraries sort have a rule of their own.
"""

from __future__ import annotations

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task, kernel_task
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import Step


def keys_in_rows(low: Materializer, node: Node) -> None:
    """Materialize the keys in row-major order."""
    low.materialize_row_major(node.inputs[0])


def merge_sort_tasks(low: Materializer, node: Node) -> list[Task]:
    """The positions in their order, then a merge of runs twice as long in every launch, to and fro."""
    (keys,), (order,) = node.inputs, node.outputs
    n = keys.shape[-1]
    if keys.type.size == 0:
        return []
    if not isinstance(n, int):
        raise UnsupportedError("compile: rows are sorted in as many launches as their size wants, which is symbolic")
    passes = (n - 1).bit_length()
    home, between = low.locations[order].place, Allocation(order.type.nbytes)
    homes = [between if (passes - k) % 2 else home for k in range(passes + 1)]
    widths = low.context.constant(np.left_shift(1, np.arange(max(passes, 1))))
    tasks = [iota_task(low, order, homes[0])]
    if passes:
        merge = MergeKernel(low, keys, order, widths)
        tasks += [merge.task(Allocation(8, base=widths, offset=8 * k), *homes[k : k + 2]) for k in range(passes)]
    reads = (low.locations[keys].place, *[p for p in (widths,) if passes])

    def steps(at: Assignment) -> tuple[Step, ...]:
        return tuple([step for task in tasks for step in task.steps(at)])

    return [Task(reads, (home,), steps, scratch=(between,) if passes else ())]


def iota_task(low: Materializer, order: Value, place: Allocation) -> Task:
    """A kernel that writes 0, 1, 2, ... along the last axis."""
    with KernelTemplate(low, "positions") as kernel:
        axes, at = axes_of_shape(order.shape)
        positions = kernel.buffer(place, I64, order.type.size)
        with kernel.loops(axes):
            kernel.builder.store(positions, row_index(at, order.shape), kernel.builder.index(at[-1]))
    return kernel.task()


def row_index(at: Coordinates, shape: tuple[int, ...]) -> Index:
    """The place of an element in row-major order."""
    line = Index()
    for index, n in zip(at, shape, strict=True):
        line = line * n + index
    return line


class MergeKernel:
    """The kernel of one pass, which reads the length of the runs from memory."""

    def __init__(self, low: Materializer, keys: Value, order: Value, widths: Allocation) -> None:
        self.low, (*lead, self.n) = low, keys.shape
        self.width, self.source, self.target = Allocation(8), Allocation(8), Allocation(8)
        with KernelTemplate(low, "merge") as reader:
            self.reader, self.b = reader, reader.builder
            axes, at = axes_of_shape((*lead, self.n))
            self.row = row_index((*at[:-1], Index()), keys.shape)
            self.keys = reader.home_buffer(keys, low.locations[keys])
            self.before = reader.buffer(self.source, I64, order.type.size)
            after = reader.buffer(self.target, I64, order.type.size)
            with reader.loops(axes):
                width = self.b.load(reader.buffer(self.width, I64, 1), Index())
                self.b.store(after, self.row + at[-1], self.merged(self.b.index(at[-1]), width))
        self.made = reader.task().bound

    def task(self, width: Allocation, source: Allocation, target: Allocation) -> Task:
        """The launch for runs of this width."""
        assert self.made is not None
        given = {self.width: width, self.source: source, self.target: target}
        places = tuple([given.get(p, p) for p in self.made.places])
        return kernel_task(BoundKernel(self.made.kernel, places, parallel=self.made.parallel))

    def position(self, start: Var, step: Var, guard: Var) -> Var:
        """An entry of the order so far, where the guard holds."""
        return self.b.load(self.before, self.row + Index(0, {start: 1, step: 1}), guard)

    def key(self, position: Var, guard: Var) -> Var:
        """The key at a position of the row, where the guard holds."""
        return self.b.load(self.keys, self.row + Index(0, {position: 1}), guard)

    def merged(self, k: Var, width: Var) -> Var:
        """The entry number k of the order in which runs are twice as long."""
        b, end = self.b, self.b.constant(self.n, I64)
        low = b.op("and", k, width + width - 1)
        base = k - low
        middle = b.op("min", base + width, end)
        left, right = middle - base, b.op("min", middle + width, end) - middle
        first, last = b.op("max", low - right, b.constant(0, I64)), b.op("min", low, left)
        with b.loop(Axis("s", self.n.bit_length()), ordered=True) as loop:
            lower, upper = loop.carry(first), loop.carry(last)
            open_, half = lower < upper, b.op("shr", lower + upper, 1)
            mine = self.key(self.position(base, half, open_), open_)
            others = self.key(self.position(middle, low - half - 1, open_), open_)
            earlier = mine <= others
            after = loop.hand(lower, b.op("select", open_ & earlier, half + 1, lower))
            loop.hand(upper, b.op("select", open_ & ~earlier, half, upper))
        here, there = after < left, low - after < right
        mine, others = self.position(base, after, here), self.position(middle, low - after, there)
        both = here & there
        earlier = self.key(mine, both) <= self.key(others, both)
        return b.op("select", here & (~there | earlier), mine, others)
