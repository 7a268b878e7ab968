"""Rematerialization candidates: the uses of each temporary value, and which values can be recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from wholestep.lower.buffers.allocate import align_size
from wholestep.lower.buffers.task_order import OverwrittenOperands
from wholestep.lower.buffers.tasks import Task, TaskGraph
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout


class UseGap(NamedTuple):
    """A value between two consecutive uses, by task numbers."""

    place: Allocation
    start: int
    end: int


class TemporaryUses:
    """The temporary allocations that each task of a graph accesses. Tasks go by their numbers."""

    def __init__(self, found: TaskGraph, layout: MemoryLayout) -> None:
        self.tasks = found.tasks
        self.outside = found.outside
        self.layout = layout
        self.reads = [tuple(layout.temporary_roots(task.reads, found.outside)) for task in found.tasks]
        self.writes = [tuple(layout.temporary_roots(task.writes, found.outside)) for task in found.tasks]
        self.scratch = [tuple(layout.temporary_roots(task.scratch, found.outside)) for task in found.tasks]
        self.touches: dict[Allocation, list[int]] = {}
        self.writers: dict[Allocation, list[int]] = {}
        self.aliased: set[Allocation] = set()
        """Allocations that are also accessed in part, or under an alias: they are not moved."""
        for t, task in enumerate(found.tasks):
            for p in dict.fromkeys((*self.reads[t], *self.writes[t], *self.scratch[t])):
                self.touches.setdefault(p, []).append(t)
            for p in self.writes[t]:
                self.writers.setdefault(p, []).append(t)
            used = (*task.reads, *task.writes, *task.scratch)
            self.aliased.update(layout.root(p) for p in used if layout.base(p) is not None)
        self.spill_allocations: dict[Allocation, Allocation] = {}
        self.valid_until = [self.last_rerun(t) for t in range(len(found.tasks))]

    def size(self, p: Allocation) -> int:
        """The bytes that an allocation takes of the arena."""
        return 0 if self.layout.in_file(p) else align_size(self.layout.nbytes(p))

    def last(self, p: Allocation) -> int:
        """The last task that uses an allocation."""
        return self.touches[p][-1]

    def writer(self, p: Allocation) -> int:
        """The one task that writes a recomputable allocation."""
        return self.writers[p][0]

    def spill_allocation(self, p: Allocation) -> Allocation:
        """The allocation in the file of a spilled value."""
        if p not in self.spill_allocations:
            self.spill_allocations[p] = Allocation(p.nbytes, value=p.value, file=True)
        return self.spill_allocations[p]

    @cached_property
    def replaced(self) -> dict[Allocation, list[int]]:
        """The tasks that write over, or to, memory from outside the graph."""
        found: dict[Allocation, list[int]] = {}
        for t, task in enumerate(self.tasks):
            for p in task.writes:
                found.setdefault(self.layout.memory(p), []).append(t)
        return found

    def last_rerun(self, t: int) -> int:
        """The last task before which a kernel may rerun with unchanged operands; -1 if it may not."""
        task = self.tasks[t]
        if task.bound is None or task.check or task.copies_back:
            return -1
        if any(self.layout.base(p) is not None or self.writers.get(p, [t]) != [t] for p in task.writes):
            return -1
        if any(p in task.reads for p in task.writes) or self.aliased.intersection(self.writes[t]):
            return -1
        if any(max(self.writers.get(q, [-1])) >= t for q in self.reads[t]):
            return -1
        fixed = [self.layout.memory(p) for p in task.reads if self.layout.root(p) in self.outside]
        later = [s for p in fixed for s in self.replaced.get(p, ()) if s > t]
        return min(later, default=len(self.tasks))

    def recomputable(self, p: Allocation) -> bool:
        """True if an allocation is written by one kernel that could rerun."""
        return len(self.writers.get(p, ())) == 1 and self.valid_until[self.writer(p)] >= 0

    def gaps(self) -> Iterator[UseGap]:
        """Every gap with other tasks in between, of values in memory that are defined once."""
        for p, times in self.touches.items():
            alone = len(self.writers.get(p, ())) == 1 and p not in self.aliased and not self.layout.in_file(p)
            if alone and self.writer(p) == times[0]:
                yield from [UseGap(p, a, b) for a, b in pairwise(times) if b - a > 1]

    @cached_property
    def in_place(self) -> list[list[tuple[Allocation, Allocation]]]:
        """For each kernel the (result, operand) pairs that may be computed in place."""
        return [list(in_place_pairs(task)) for task in self.tasks]


def in_place_pairs(task: Task) -> Iterator[tuple[Allocation, Allocation]]:
    """(result, operand) pairs of equal size that a kernel may compute in place."""
    if task.bound is None:
        return
    overwritten = OverwrittenOperands(task.bound)
    for new in task.writes:
        for old in task.reads:
            if old is not new and old.nbytes == new.nbytes and old not in task.writes:
                if overwritten.by(new, old):
                    yield new, old
