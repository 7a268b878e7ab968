"""Verify buffer assignment: no live value is overwritten before its last read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from wholestep.dims import Size, most
from wholestep.errors import PlanError
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout


class Residency(NamedTuple):
    """A value in memory: its bytes in the root allocation, and the tasks from its definition to its last use."""

    place: Allocation
    root: Allocation
    start: int
    stop: int
    moves: tuple[tuple[int, Size], ...]
    first: int
    last: int
    written: tuple[int, ...]

    def overlaps(self, other: Residency) -> bool:
        """True if two values of one allocation and the same moves share a byte."""
        return self.start < other.stop and other.start < self.stop


def verify_assignment(tasks: Sequence[Task], layout: MemoryLayout, scratch: Collection[Allocation]) -> None:
    """Check tasks that are ordered and assigned; raises PlanError that names the first fault."""
    resident = {p for task in tasks for p in task.writes if overwrites_resident(p, layout, scratch)}
    for t, task in enumerate(tasks):
        if task.check and any(p in resident for before in tasks[:t] for p in before.writes):
            raise PlanError(f"verify: the program may be left at {t} after something resident was written")
    found = list(residencies(tasks, layout, scratch))
    beside: dict[object, list[Residency]] = {}
    for b in found:
        if b.written:
            beside.setdefault((b.root, b.moves), []).append(b)
    for a in found:
        if a.written and any(a.place in task.reads for task in tasks[: a.first]):
            raise PlanError(f"verify: {task_name(tasks[a.first])} writes, at {a.first}, what was read before")
        for b in beside.get((a.root, a.moves), ()):
            for t in b.written if a is not b and a.overlaps(b) else ():
                if a.first < t < a.last or (t in (a.first, a.last) and conflicts_within_task(tasks[t], a, b, resident)):
                    raise PlanError(
                        f"verify: {task_name(tasks[t])} writes, at {t}, over bytes {a.start} to {a.stop}, "
                        f"which are needed from {a.first} to {a.last}"
                    )


def conflicts_within_task(task: Task, a: Residency, b: Residency, resident: Collection[Allocation]) -> bool:
    """True if one task writes two values to the same bytes, or over an operand, unless it is a kernel (checked by
    itself) or a loop whose carry replaces its initial value."""
    if a.place in task.writes or a.place in task.scratch:
        return True
    return a.place in task.reads and task.bound is None and b.place not in resident


def residencies(tasks: Sequence[Task], layout: MemoryLayout, scratch: Collection[Allocation]) -> Iterator[Residency]:
    """The residency of every value that tasks read or write, and of their scratch memory."""
    end = len(tasks)
    written: dict[Allocation, list[int]] = {}
    last: dict[Allocation, int] = {}
    for t, task in enumerate(tasks):
        for p in (*task.writes, *task.scratch):
            written.setdefault(p, []).append(t)
        for p in (*task.reads, *task.writes, *task.scratch):
            last[p] = t
    for p, t in last.items():
        root, start, moves = root_and_offset(p, layout)
        outside = p in written and root not in scratch
        times = tuple(written.get(p, ()))
        yield Residency(
            p, root, start, start + layout.nbytes(p), moves, min(times, default=-1), end if outside else t, times
        )


def overwrites_resident(place: Allocation, layout: MemoryLayout, scratch: Collection[Allocation]) -> bool:
    """True if writing to an allocation destroys resident memory, not only scratch."""
    return layout.overwritten_memory(place) is not None and layout.root(place) not in scratch


def root_and_offset(place: Allocation, layout: MemoryLayout) -> tuple[Allocation, int, tuple[tuple[int, Size], ...]]:
    """The root allocation, the offset in it, and the loop strides."""
    around = list(layout.around(place))
    offset = sum([most(layout.placement(p).offset) for p in around])
    return around[-1], offset, tuple([move for p in around for move in p.moves])


def task_name(task: Task) -> str:
    """The kernel name of a task."""
    return task.bound.kernel.name if task.bound is not None else "a routine"
