"""Buffer assignment: in-place reuse, liveness, and an arena offset for every temporary allocation, inner graphs
first."""

from __future__ import annotations

from collections.abc import Container, Sequence

from wholestep import config
from wholestep.lower.buffers.allocate import (
    LiveInterval,
    assign_offsets,
    assign_symbolic_offsets,
    assignment_end,
    peak_live_bytes,
)
from wholestep.lower.buffers.task_order import runs_in_place
from wholestep.lower.buffers.tasks import Task, TaskGraph
from wholestep.lower.buffers.verify_assignment import verify_assignment
from wholestep.lower.program.allocation import Allocation


def assign_buffers(found: TaskGraph) -> None:
    """Assign every temporary allocation of a task graph an offset in its arena or file, and size these.

    It may be repeated: earlier assignments are undone first.
    """
    found.release()
    named = [p for task in found.tasks for p in (*task.reads, *task.writes, *task.scratch)]
    allocations = dict.fromkeys([q for p in named for q in (p, p.root())])
    found.unassigned = [(p, p.base, p.offset) for p in allocations]
    reuse_in_place(found.tasks, found.outside)
    alive = live_intervals(found.tasks, found.outside)
    for room in (found.file, found.arena):
        inside = [life for life in alive if life.place.file == room.file]
        fill_arena(room, inside)
    found.bound, found.live_intervals = peak_live_bytes(inside), tuple(inside)  # of the arena, which comes last
    if config.check():
        verify_assignment(found.tasks, (found.arena, found.file))


def fill_arena(room: Allocation, inside: Sequence[LiveInterval]) -> None:
    """Assign offsets in an arena, the allocations of symbolic size behind the others."""
    even = [life for life in inside if isinstance(life.place.size, int)]
    growing = [life for life in inside if not isinstance(life.place.size, int)]
    offsets = assign_offsets(even)
    for life in even:
        life.place.offset = offsets[life.place]
    end = assignment_end(even, offsets)
    room.resize(assign_symbolic_offsets(growing, end) if growing else end)
    for life in inside:
        life.place.base = room


def measure_arena(found: TaskGraph) -> int:
    """The arena size that a task graph needs; its allocations are left unassigned."""
    assign_buffers(found)
    found.release()
    return found.arena.nbytes


def live_intervals(tasks: Sequence[Task], outside: Container[Allocation] = ()) -> list[LiveInterval]:
    """The live intervals of the temporary root allocations of a list of tasks, except those `outside`."""
    first: dict[Allocation, int] = {}
    last: dict[Allocation, int] = {}
    for t, task in enumerate(tasks):
        for p in (*task.reads, *task.writes, *task.scratch):
            root = p.root()
            if root.ref is None and root not in outside:
                first.setdefault(root, t)
                last[root] = t
    return [LiveInterval(p, first[p], last[p]) for p in first]


def reuse_in_place(tasks: Sequence[Task], outside: Container[Allocation]) -> None:
    """Let a kernel write its result over an operand of the same size that is dead afterwards."""
    alive = {life.place: life for life in live_intervals(tasks, outside)}
    for t, task in enumerate(tasks):
        if task.bound is None:
            continue
        names = dict(zip(task.bound.places, task.bound.kernel.buffers, strict=True))
        for new in task.writes:
            if new not in alive or alive[new].start != t:
                continue
            for old in task.reads:
                root = old.root()
                ends_here = root in alive and alive[root].end == t and root is not new
                if not ends_here or old.size != new.size or root.size != new.size or old in task.writes:
                    continue
                if runs_in_place(task.bound.kernel, names[old], names[new]) and not already_reused(task, root, new):
                    new.base = root
                    alive[root] = LiveInterval(root, alive[root].start, alive[new].end)
                    break


def already_reused(task: Task, root: Allocation, new: Allocation) -> bool:
    """True if another result of the task is assigned to the same root."""
    return any(p is not new and p.root() is root for p in task.writes)
