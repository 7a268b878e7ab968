"""Workgroups: the grid and thread loops of a kernel, and the intervals that barriers divide a thread's accesses into.

for g in 4: for i in 8 thread: t[i] = x[8*g + i]; barrier; y[8*g + i] = t[7 - i]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from wholestep.kernel.lang import Axis, Barrier, Buffer, Kernel, Loop, Space, Statement, Var, walk


class Workgroup(NamedTuple):
    """The nest of independent loops that begins a kernel: a workgroup for each point of the `grid`, and in it a thread
    for each point of `threads`, which runs `body`.
    """

    grid: tuple[Axis, ...]
    threads: tuple[Axis, ...]
    body: tuple[Statement, ...]

    @property
    def points(self) -> int:
        """The points of the grid."""
        return math.prod([a.extent for a in self.grid])

    def owners(self, space: Space) -> tuple[Axis, ...]:
        """The axes each of whose steps has its own memory in a space."""
        return {"global": (), "shared": self.grid, "private": (*self.grid, *self.threads)}[space]


def find_workgroup(kernel: Kernel) -> Workgroup:
    """The workgroup of a kernel's loop nest; values may come before each of its loops, and nothing after it."""
    grid: list[Axis] = []
    threads: list[Axis] = []
    body = kernel.body
    while body and isinstance(last := body[-1], Loop) and last.independent and last.guard is None:
        if not all(isinstance(s, Var) for s in body[:-1]) or (threads and not last.axis.thread):
            break
        (threads if last.axis.thread else grid).append(last.axis)
        body = last.body
    return Workgroup(tuple(grid), tuple(threads), body)


def has_barrier(kernel: Kernel) -> bool:
    """Test whether the threads of a kernel wait for each other."""
    return any(isinstance(s, Barrier) for s in walk(kernel.body))


class Intervals(NamedTuple):
    """The intervals between barriers in which each statement of a thread may run, by the statement's `id`, and the last
    interval whose copies of vectors have arrived as each begins."""

    of: dict[int, set[int]]
    arrived: list[int]

    def has_arrived(self, copied: int, read: int) -> bool:
        """Test whether a vector copied in one interval has arrived for loads in another."""
        return copied < read and max(self.arrived[: read + 1]) >= copied


def barrier_intervals(body: Sequence[Statement]) -> Intervals:
    """The intervals between the barriers of a thread.

    Two threads never run statements without a common interval at the same time. Each loop is visited twice: the last
    statements of a step share an interval with the first statements of the next step.
    """
    found: dict[int, set[int]] = {}
    arrived = [-1]

    def visit(body: Sequence[Statement], here: set[int]) -> set[int]:
        for s in body:
            if isinstance(s, Barrier):
                here = {len(arrived)}
                arrived.append(len(arrived) - 1 - s.late)
            elif isinstance(s, Loop):
                taken = visit(s.body, visit(s.body, here))
                here = taken if s.guard is None and not s.axis.symbolic and s.axis.extent else taken | here
            else:
                found.setdefault(id(s), set()).update(here)
        return here

    visit(body, {0})
    return Intervals(found, arrived)


def item_trips(kernel: Kernel) -> int:
    """The trips of all loops of one work item."""
    group = find_workgroup(kernel)
    outside = {*group.grid, *group.threads}

    def trips(body: Iterable[Statement]) -> int:
        loops = [s for s in body if isinstance(s, Loop)]
        return sum(trips(s.body) if s.axis in outside else s.axis.extent * (1 + trips(s.body)) for s in loops)

    return trips(kernel.body)


# Problems that the verifier shows; empty where there are none.


def thread_problem(axis: Axis, group: Workgroup) -> str:
    """Check that an axis of threads belongs to the nest of them."""
    if not axis.thread or (axis.block == 1 and not axis.symbolic and axis in group.threads):
        return ""
    nest = "a nest of independent loops of constant size, without lanes and tiles, around all that the kernel does"
    return f"the threads of {axis} want {nest}"


def scratch_problem(kernel: Kernel, group: Workgroup, buffer: Buffer) -> str:
    """The problem with the memory space of a scratch buffer; empty where there is none."""
    if buffer in kernel.buffers:
        return "" if buffer.space == "global" else f"{buffer} is {buffer.space} memory, which a kernel is not given"
    if buffer.space == "global" or not isinstance(buffer.room, int):
        return f"{buffer} wants to be shared or private memory of constant size"
    return "" if group.threads else f"{buffer} is {buffer.space} memory in a kernel without thread loops"


def barrier_problem(path: Sequence[Loop], group: Workgroup, varies: Mapping[Var, frozenset[Axis]]) -> str:
    """Check that all threads reach a barrier inside these loops, the same number of times."""
    around = (*group.grid, *group.threads)
    if not group.threads or tuple([loop.axis for loop in path[: len(around)]]) != around:
        return "a barrier stands inside the loops over all threads of a workgroup"
    for loop in path[len(around) :]:
        if not loop.ordered:
            return f"a barrier stands in the loop over {loop.axis}, which is not ordered"
        if loop.guard is not None and not varies[loop.guard].isdisjoint(group.threads):
            return f"a barrier stands in the loop over {loop.axis}, which not all threads may take part in"
    return ""
