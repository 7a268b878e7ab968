"""Arena timeline: the live range of every temporary value, with loops and branches flattened into one sequence."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep.dims import most
from wholestep.lower.buffers.allocate import align_size
from wholestep.lower.buffers.tasks import Assignment, TaskGraph
from wholestep.lower.program.live_ranges import LiveRange


def arena_timeline(assigned: Assignment, found: TaskGraph) -> list[LiveRange]:
    """The live ranges of a program's temporary values in order of definition."""
    return sorted(nested_live_ranges(assigned, found, 0), key=lambda h: (h.start, h.offset))


def count_moments(assigned: Assignment, found: TaskGraph) -> int:
    """The number of moments that the tasks of a graph take."""
    return sum(max(sum([count_moments(assigned, x) for x in task.inner]), 1) for task in assigned.graphs[found].tasks)


def nested_live_ranges(assigned: Assignment, found: TaskGraph, now: int) -> Iterator[LiveRange]:
    """The live ranges of a graph whose first task runs at `now`, and of the graphs nested in it."""
    first, last, own = [], [], assigned.graphs[found]
    for task in own.tasks:
        first.append(now)
        for inner in task.inner:
            yield from nested_live_ranges(assigned, inner, now)
            now += count_moments(assigned, inner)
        now = max(now, first[-1] + 1)
        last.append(now - 1)
    arenas = {inner.arena for task in own.tasks for inner in task.inner}
    for life in own.live_intervals:
        if life.place not in arenas and life.nbytes:
            place, offset = life.place, most(assigned.address(life.place).offset)
            start, end = first[life.start], last[life.end]
            yield LiveRange(offset, align_size(life.nbytes), start, end, place.described("scratch"), place.where)
