"""Arena timeline: the live range of every temporary value, with loops and branches flattened into one sequence."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep.dims import most
from wholestep.lower.buffers.allocate import align_size
from wholestep.lower.buffers.tasks import TaskGraph
from wholestep.lower.program.live_ranges import LiveRange


def arena_timeline(found: TaskGraph) -> list[LiveRange]:
    """The live ranges of a program's temporary values in order of definition; offsets are assigned already."""
    return sorted(nested_live_ranges(found, 0), key=lambda h: (h.start, h.offset))


def count_moments(found: TaskGraph) -> int:
    """The number of moments that the tasks of a graph take."""
    return sum(max(sum(map(count_moments, task.inner)), 1) for task in found.tasks)


def nested_live_ranges(found: TaskGraph, now: int) -> Iterator[LiveRange]:
    """The live ranges of a graph whose first task runs at `now`, and of the graphs nested in it."""
    first, last = [], []
    for task in found.tasks:
        first.append(now)
        for inner in task.inner:
            yield from nested_live_ranges(inner, now)
            now += count_moments(inner)
        now = max(now, first[-1] + 1)
        last.append(now - 1)
    arenas = {inner.arena for task in found.tasks for inner in task.inner}
    for life in found.live_intervals:
        if life.place not in arenas and life.place.nbytes:
            place, offset = life.place, most(life.place.address().offset)
            start, end = first[life.start], last[life.end]
            yield LiveRange(offset, align_size(place.nbytes), start, end, place.described("scratch"), place.where)
