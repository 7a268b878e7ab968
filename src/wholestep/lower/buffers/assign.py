"""Buffer assignment: in-place reuse, liveness, and an arena offset for every temporary allocation of a task graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from wholestep import config
from wholestep.dims import Size
from wholestep.lower.buffers.allocate import (
    LiveInterval,
    assign_offsets,
    assign_symbolic_offsets,
    assignment_end,
    peak_live_bytes,
)
from wholestep.lower.buffers.task_order import OverwrittenOperands
from wholestep.lower.buffers.tasks import GraphAssignment, Task, TaskGraph
from wholestep.lower.buffers.verify_assignment import verify_assignment
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout, MemoryLayoutBuilder, Placement
from wholestep.lower.target import FREE_REUSE, ReuseLimits


def assign_buffers(
    found: TaskGraph, tasks: tuple[Task, ...], layout: MemoryLayout, reuse: ReuseLimits = FREE_REUSE
) -> GraphAssignment:
    """An offset in the arena or file of a task graph for every temporary allocation of `tasks`, its own or those that
    recompute or spill values; `layout` has the sizes of the arenas of nested graphs, and `reuse` limits which
    allocations share memory."""
    placements = reuse_in_place(tasks, found.outside, layout, reuse)
    reused = layout.extended(placements)
    alive = [kept_apart(life, len(tasks), reuse) for life in live_intervals(tasks, found.outside, reused)]
    sizes: dict[Allocation, Size] = {}
    for room in (found.file, found.arena):
        inside = [life for life in alive if reused.in_file(life.place) == room.file]
        offsets, sizes[room] = fill_arena(inside)
        placements |= {p: Placement(room, offset) for p, offset in offsets.items()}
    if config.check():
        verify_assignment(tasks, layout.extended(placements, sizes), (found.arena, found.file))
    least = peak_live_bytes(inside)  # of the arena, which comes last
    return GraphAssignment(
        tasks, MappingProxyType(placements), sizes[found.arena], sizes[found.file], least, tuple(inside)
    )


def kept_apart(life: LiveInterval, tasks: int, reuse: ReuseLimits) -> LiveInterval:
    """The live interval extended by the limits of reuse: to all tasks for small values, else by `apart` - 1 tasks."""
    if life.nbytes <= reuse.unshared:
        return life._replace(start=0, end=tasks - 1)
    return life._replace(end=min(life.end + reuse.apart, tasks) - 1)


def nested_layout(
    found: TaskGraph, layout: MemoryLayout, assigned: Mapping[TaskGraph, GraphAssignment]
) -> MemoryLayout:
    """The layout with the sizes of the arenas of a graph's nested graphs, which are assigned already."""
    nested = [(inner, assigned[inner]) for task in found.tasks for inner in task.inner]
    return layout.extended({}, {room: n for x, own in nested for room, n in ((x.arena, own.arena), (x.file, own.file))})


def fill_arena(inside: Sequence[LiveInterval]) -> tuple[Mapping[Allocation, Size], Size]:
    """Offsets in an arena and its size; the allocations of symbolic size are behind the others."""
    even = [life for life in inside if isinstance(life.size, int)]
    growing = [life for life in inside if not isinstance(life.size, int)]
    offsets = assign_offsets(even)
    end = assignment_end(even, offsets)
    behind, size = assign_symbolic_offsets(growing, end)
    return {**offsets, **behind}, size


def live_intervals(tasks: Sequence[Task], outside: Set[Allocation], layout: MemoryLayout) -> list[LiveInterval]:
    """The live intervals of the temporary root allocations of a list of tasks, except those `outside`."""
    first: dict[Allocation, int] = {}
    last: dict[Allocation, int] = {}
    for t, task in enumerate(tasks):
        for p in (*task.reads, *task.writes, *task.scratch):
            root = layout.root(p)
            if root.ref is None and root not in outside:
                first.setdefault(root, t)
                last[root] = t
    return [LiveInterval(p, first[p], last[p], layout.size(p)) for p in first]


def reading_tasks(tasks: Sequence[Task], layout: MemoryLayout) -> Mapping[Allocation, Sequence[int]]:
    """The numbers of the tasks that read each root allocation."""
    found: dict[Allocation, list[int]] = {}
    for t, task in enumerate(tasks):
        for p in task.reads:
            found.setdefault(layout.root(p), []).append(t)
    return found


def reuse_in_place(
    tasks: Sequence[Task], outside: Set[Allocation], layout: MemoryLayout, reuse: ReuseLimits = FREE_REUSE
) -> dict[Allocation, Placement]:
    """The results of kernels that are written over an operand of the same size that is dead afterwards, and that no
    other task reads so shortly before that the kernel would wait for it."""
    read = reading_tasks(tasks, layout)
    alive = {life.place: life for life in live_intervals(tasks, outside, layout)}
    reused = MemoryLayoutBuilder(dict(layout.placements))
    found: dict[Allocation, Placement] = {}
    for t, task in enumerate(tasks):
        if task.bound is None:
            continue
        overwritten = OverwrittenOperands(task.bound)
        for new in task.writes:
            if new not in alive or alive[new].start != t:
                continue
            for old in task.reads:
                root = reused.root(old)
                ends_here = root in alive and alive[root].end == t and root is not new
                if not ends_here or old.size != new.size or root.size != new.size or old in task.writes:
                    continue
                if any(t - reuse.apart < other < t for other in read[layout.root(old)]):
                    continue
                alone = all(p is new or reused.root(p) is not root for p in task.writes)
                if alone and overwritten.by(new, old):
                    found[new] = Placement(root)
                    reused.place(new, root)
                    alive[root] = alive[root]._replace(end=alive[new].end)
                    break
    return found
