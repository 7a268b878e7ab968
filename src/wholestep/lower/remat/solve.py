"""The budget solver: evict values of a program's task graphs until each fits its limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from wholestep.lower.buffers.assign import assign_buffers, nested_layout
from wholestep.lower.buffers.tasks import Assignment, GraphAssignment, Task, TaskGraph
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout
from wholestep.lower.program.program import RematDecision
from wholestep.lower.remat.apply import apply_choices
from wholestep.lower.remat.branch_and_bound import BranchAndBound
from wholestep.lower.remat.candidates import TemporaryUses
from wholestep.lower.remat.greedy import GreedySearch, RematSolution
from wholestep.lower.remat.recompute_cost import RematPrices
from wholestep.lower.remat.simulate import SimulatedSchedule
from wholestep.lower.target import FREE_REUSE, ReuseLimits

UNLIMITED = sys.maxsize


class BudgetSolver:
    """The assignments of a program's task graphs and the decisions for them; with `disk` values may be spilled.

    `layout` is the program's, `priced` predicts the microseconds of one run of a task, and `pinned` holds the user's
    pins: "keep" or "recompute". `reuse` limits which allocations share memory.
    """

    def __init__(
        self,
        layout: MemoryLayout,
        priced: Callable[[Task], float],
        pinned: Mapping[Allocation, str],
        disk: Rates | None = None,
        is_evictable: Callable[[int], bool] = bool,
        reuse: ReuseLimits = FREE_REUSE,
    ) -> None:
        self.layout, self.task_price, self.pinned = layout, priced, pinned
        self.disk, self.is_evictable, self.reuse = disk, is_evictable, reuse
        self.assigned: dict[TaskGraph, GraphAssignment] = {}
        self.graph_decisions: dict[TaskGraph, list[RematDecision]] = {}

    @property
    def decisions(self) -> list[RematDecision]:
        """The evictions of all graphs, the largest first."""
        return sorted([d for part in self.graph_decisions.values() for d in part], key=lambda d: -d.nbytes)

    def assignment(self) -> Assignment:
        """The buffer assignment of the program, as found so far."""
        placements = {p: at for own in self.assigned.values() for p, at in own.placements.items()}
        return Assignment(self.layout.extended(placements), MappingProxyType(dict(self.assigned)))

    def fit(self, found: TaskGraph) -> int:
        """Assign the buffers of a graph after those of its nested graphs, with the user's pins; returns its bytes."""
        for task in found.tasks:
            for inner in task.inner:
                self.fit(inner)
        layout = nested_layout(found, self.layout, self.assigned)
        self.assigned[found] = assign_buffers(found, found.tasks, layout, self.reuse)
        if any(p in self.pinned for task in found.tasks for p in task.writes):
            self.evict_values(found, UNLIMITED)
        return self.assigned[found].arena_bytes

    def fit_within(self, found: TaskGraph, limit: int) -> int:
        """Assign the buffers of a graph within a limit; returns the bytes, more if that is impossible."""
        if self.assigned[found].arena_bytes > limit:
            self.evict_values(found, limit)
        return self.assigned[found].arena_bytes

    def evict_values(self, found: TaskGraph, limit: int) -> None:
        """Evict values of a graph, and of the largest of its nested graphs, until it fits."""
        best = self.search(found, limit)
        while best.nbytes > limit and self.shrink_nested(best, limit):
            best = self.search(found, limit)
        self.graph_decisions[found] = list(describe_decisions(best, self.prices(found)))
        layout = nested_layout(found, self.layout, self.assigned)
        self.assigned[found] = assign_buffers(found, apply_choices(best.schedule), layout, self.reuse)

    def search(self, found: TaskGraph, limit: int) -> RematSolution:
        """The evictions found for the graph itself."""
        layout = nested_layout(found, self.layout, self.assigned)

        def real(schedule: SimulatedSchedule) -> int:
            return assign_buffers(found, apply_choices(schedule), layout, self.reuse).arena_bytes

        search = GreedySearch(TemporaryUses(found, layout), self.prices(found), self.pinned)
        best = search.run(limit, real)
        return best if best.nbytes > limit else BranchAndBound(search, limit, real, best).run()

    def prices(self, found: TaskGraph) -> RematPrices:
        """The prices of a graph's tasks, and of the file."""
        return RematPrices([self.task_price(task) for task in found.tasks], self.disk, self.is_evictable)

    def shrink_nested(self, best: RematSolution, limit: int) -> bool:
        """Fit the largest graph nested in the task at the peak into the rest of the limit; False if it did not
        shrink."""
        held = best.schedule.live_bytes()
        run = best.schedule.runs[int(held.argmax())]
        inner = best.schedule.uses.tasks[run.task].inner
        if run.kind != "work" or not inner:
            return False
        largest = max(inner, key=lambda x: self.assigned[x].arena_bytes)
        before = self.assigned[largest].arena_bytes
        if before == 0:
            return False
        self.evict_values(largest, max(limit - (int(held.max()) - before), 0))
        return self.assigned[largest].arena_bytes < before


def describe_decisions(best: RematSolution, prices: RematPrices) -> Iterator[RematDecision]:
    """The record of each choice."""
    filed = set[Allocation]()
    for gap, kind in best.choices.items():
        if kind == "spill":
            price = prices.reload(gap.place) + (0.0 if gap.place in filed else prices.spill(gap.place))
            filed.add(gap.place)
        else:
            price = prices.tasks[best.schedule.uses.writer(gap.place)]
        yield RematDecision(gap.place.described("a value"), gap.place.where, gap.place.nbytes, kind, price)
