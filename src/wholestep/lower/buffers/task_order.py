"""Task order: a topological order that respects true and anti-dependences and keeps memory low."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property

from wholestep.errors import PlanError
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.lang import Buffer
from wholestep.lower.buffers.tasks import Task, copy_task
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout, MemoryLayoutBuilder

NEGLIGIBLE_BYTES = 256
"""The size in bytes up to which a value may be computed at any time."""


def order_tasks(tasks: list[Task], layout: MemoryLayoutBuilder, outside: Set[Allocation]) -> list[Task]:
    """Order the tasks so that every value is read before it is overwritten; cycles are broken by copies."""
    tasks = [part for task in tasks for part in break_write_hazard(task, layout)]
    while True:
        found = topological_order(tasks, layout, outside)
        if isinstance(found, list):
            return found
        if found.copies_back or not any(layout.overwritten_memory(p) for p in found.writes):
            raise PlanError("order: kernels wait for each other")
        at = tasks.index(found)
        tasks[at : at + 1] = write_through_copy(found, layout)


def break_write_hazard(task: Task, layout: MemoryLayoutBuilder) -> list[Task]:
    """A kernel that would overwrite an operand before its last read writes to a copy instead."""
    if task.bound is None:
        return [task]
    overwritten = OverwrittenOperands(task.bound)
    for place in task.writes:
        old = layout.overwritten_memory(place)
        for read in task.reads:
            if old is not None and read is not place and layout.memory(read) is old:
                if not overwritten.by(place, read):
                    return write_through_copy(task, layout)
    return [task]


def write_through_copy(task: Task, layout: MemoryLayoutBuilder) -> list[Task]:
    """A task that writes its resident results to temporary allocations, and the copies back."""
    homes, first = [], []
    for place in task.writes:
        old = layout.overwritten_memory(place)
        if old is not None:
            if place not in layout.lent:
                home = Allocation(place.size, base=layout.base(place))
                homes.append(replace(copy_task(home, place), copies_back=True))
            # A body that returns its operand unchanged makes no copy, since both shared memory: it is made here.
            first += [copy_task(place, read) for read in task.reads if task.inner and layout.memory(read) is old][:1]
            layout.detach(place)
    return [*first, task, *homes]


def topological_order(tasks: Sequence[Task], layout: MemoryLayout, outside: Set[Allocation]) -> list[Task] | Task:
    """The tasks in dependence order; or one task of a cycle."""
    writer: dict[Allocation, list[int]] = {}
    readers: dict[Allocation, list[tuple[Allocation, int]]] = {}
    for i, task in enumerate(tasks):
        for p in task.writes:
            writer.setdefault(p, []).append(i)
        for p in task.reads:
            readers.setdefault(layout.memory(p), []).append((p, i))
    checks = [i for i, task in enumerate(tasks) if task.check]
    after: list[set[int]] = [set() for _ in tasks]
    for i, task in enumerate(tasks):
        for p in task.reads:
            after[i].update(w for w in writer.get(p, ()) if w < i or p not in task.writes)
        for p in task.writes:
            after[i].update(w for w in writer[p] if w < i)
            old = layout.overwritten_memory(p)
            if old is not None:
                after[i].update(j for q, j in readers.get(old, ()) if q is not p)
                after[i].update(checks)
        after[i].discard(i)
    return kahn_order(tasks, after, layout, outside)


def kahn_order(
    tasks: Sequence[Task], after: list[set[int]], layout: MemoryLayout, outside: Set[Allocation]
) -> list[Task] | Task:
    """Kahn's algorithm; returns a task that writes resident memory where there is a cycle.

    Ready tasks that free more memory than they take, or take next to none, go first; then the tasks that the first
    sending task needs, those that the second one needs, and so on, in program order; and then tasks that wait.
    """
    waiting: list[list[int]] = [[] for _ in tasks]
    count = [len(a) for a in after]
    for i, before in enumerate(after):
        for j in before:
            waiting[j].append(i)
    balance = MemoryBalance(tasks, layout, outside)
    turns = turns_of(tasks, after)
    ready = [turns[i] for i, n in enumerate(count) if n == 0]
    heapq.heapify(ready)
    urgent = [i for *_, i in ready if balance.urgent(i)]
    out: list[int] = []
    done: set[int] = set()
    while ready:
        i = heapq.heappop(urgent) if urgent else heapq.heappop(ready)[-1]
        if i in done:
            continue
        done.add(i)
        out.append(i)
        for j in waiting[i]:
            count[j] -= 1
            if count[j] == 0:
                heapq.heappush(ready, turns[j])
        for j in (*waiting[i], *balance.run(i)):
            if count[j] == 0 and j not in done and balance.urgent(j):
                heapq.heappush(urgent, j)
    if len(out) == len(tasks):
        return [tasks[i] for i in out]
    return smallest_overwriting(tasks, turning(after, [i for i, n in enumerate(count) if n]), layout)


def turning(after: list[set[int]], stuck: Sequence[int]) -> list[int]:
    """The tasks on cycles, or on paths between two cycles, among the tasks that never became ready."""
    left = set(stuck)
    followers = dict.fromkeys(stuck, 0)
    for i in stuck:
        for j in after[i] & left:
            followers[j] += 1
    ends = [i for i in stuck if not followers[i]]
    while ends:
        i = ends.pop()
        left.discard(i)
        for j in after[i] & left:
            followers[j] -= 1
            if not followers[j]:
                ends.append(j)
    return [i for i in stuck if i in left]


def smallest_overwriting(tasks: Sequence[Task], turning: Sequence[int], layout: MemoryLayout) -> Task:
    """The task that overwrites the fewest bytes, whose copy is the cheapest; the first task where none overwrites."""

    def overwritten(task: Task) -> int:
        return sum(p.nbytes for p in task.writes if layout.overwritten_memory(p))

    found = [tasks[i] for i in turning if not tasks[i].copies_back and overwritten(tasks[i])]
    return min(found, key=overwritten, default=tasks[turning[0]])


def turns_of(tasks: Sequence[Task], after: list[set[int]]) -> list[tuple[bool, int, int, int]]:
    """The priority of each ready task: whether it waits, the first sending task that needs it, and its program order.

    A task that earlier tasks depend on, such as one that stores a value late, has the program order of the first of
    these.
    """
    senders = [i for i, task in enumerate(tasks) if task.sends]
    needed = [len(senders)] * len(tasks)
    for number, sender in enumerate(senders):
        stack = [sender]
        while stack:
            i = stack.pop()
            if needed[i] > number:
                needed[i] = number
                stack += after[i]
    places = list(range(len(tasks)))
    for place, needing in enumerate(after):
        stack = [i for i in needing if places[i] > place]
        while stack:
            i = stack.pop()
            if places[i] > place:
                places[i] = place
                stack += after[i]
    return [(task.waits, needed[i], places[i], i) for i, task in enumerate(tasks)]


class MemoryBalance:
    """The temporary bytes that each task would take or free if it ran now."""

    def __init__(self, tasks: Sequence[Task], layout: MemoryLayout, outside: Set[Allocation]) -> None:
        self.tasks = tasks
        self.users: dict[Allocation, set[int]] = {}
        self.made: set[Allocation] = set()
        self.uses = [layout.temporary_roots((*task.reads, *task.writes), outside) for task in tasks]
        for i, places in enumerate(self.uses):
            for p in places:
                self.users.setdefault(p, set()).add(i)

    def urgent(self, i: int) -> bool:
        """True if a task takes next to nothing, or less than it frees, and does not wait."""
        if self.tasks[i].waits:
            return False
        taken = sum(p.nbytes for p in self.uses[i] if p not in self.made)
        return taken <= NEGLIGIBLE_BYTES or taken < sum(p.nbytes for p in self.uses[i] if len(self.users[p]) == 1)

    def run(self, i: int) -> Iterator[int]:
        """Record that a task has run; yields the tasks that are now the last users of some value."""
        self.made.update(self.uses[i])
        for p in self.uses[i]:
            self.users[p].discard(i)
            if len(self.users[p]) == 1:
                yield from self.users[p]


class OverwrittenOperands:
    """The operands of a kernel that results may be written over; its accesses are found once for all of them."""

    def __init__(self, bound: BoundKernel) -> None:
        self.kernel = bound.kernel
        self.names = dict(zip(bound.places, bound.kernel.buffers, strict=True))

    @cached_property
    def accesses(self) -> dict[Buffer, list[tuple[int, MemoryAccess]]]:
        """The loads and stores of each buffer, with their places in the kernel."""
        found: dict[Buffer, list[tuple[int, MemoryAccess]]] = {}
        for at, access in enumerate(memory_accesses(self.kernel.body)):
            found.setdefault(access.buffer, []).append((at, access))
        return found

    def by(self, new: Allocation, old: Allocation) -> bool:
        """True if `new` may be written over `old`: one loop stores all elements, and each is read only in the iteration
        that writes it, before the first store."""
        result, operand = self.names[new], self.names[old]
        loads = [(at, a) for at, a in self.accesses.get(operand, ()) if not a.is_store]
        stores = [(at, a) for at, a in self.accesses.get(result, ()) if a.is_store]
        if operand.dtype != result.dtype or not stores:
            return not loads
        first, store = stores[0]
        if any(other.path != store.path for _, other in stores):
            return not loads
        written = [other.offset for _, other in stores]
        return all(at < first and load.path == store.path and load.offset in written for at, load in loads)
