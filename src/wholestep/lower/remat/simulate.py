"""Simulation of rematerialization choices: the tasks in order, with evicted values recomputed or reloaded on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from wholestep.lower.program.allocation import Allocation
from wholestep.lower.remat.candidates import TemporaryUses, UseGap
from wholestep.lower.remat.recompute_cost import RematKind, RematPrices

RematChoices = Mapping[UseGap, RematKind]
"""The gaps in which values are evicted, and how each returns; in all other gaps they are kept."""

RunKind = Literal["work", "again", "out", "back"]
"""The kind of a run: an original task, a recomputation, a spill or a reload."""

MAX_RECOMPUTE_DEPTH = 200
"""Maximum length of a chain of recomputations."""


class InfeasibleChoices(Exception):
    """Choices that no schedule can follow."""


class SimulatedRun(NamedTuple):
    """A run of a task with the version of each allocation that it accesses; for a copy, the task that defined the
    value."""

    kind: RunKind
    task: int
    reads: tuple[tuple[Allocation, int], ...]
    writes: tuple[tuple[Allocation, int], ...]


class SimulatedSchedule:
    """The schedule of runs that follows from some choices; runs name versions of allocations by number."""

    def __init__(self, uses: TemporaryUses, choices: RematChoices) -> None:
        self.uses = uses
        self.leaving = {(gap.place, gap.start): kind for gap, kind in choices.items()}
        self.return_kinds: dict[Allocation, RematKind] = {}
        """The way each evicted allocation returns."""
        self.spilled_versions: dict[Allocation, int] = {}
        """The version in the file of each spilled allocation, which is written once for all of its gaps."""
        self.runs: list[SimulatedRun] = []
        self.places: list[Allocation] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.born: list[int] = []
        self.now: dict[Allocation, int | None] = {}
        self.anchors: list[int] = []
        """For each run the number of the task that it is, or that it precedes."""
        for t in range(len(uses.tasks)):
            self.step(t)
        self.check_fixed_allocations()

    def step(self, t: int) -> None:
        """Run a task after the reloads and recomputations of its operands, and evict the values of gaps that begin."""
        uses = self.uses
        begun = [p for p in uses.reads[t] if p in self.now or p not in uses.writes[t]]
        reads = [(p, self.fetch_version(p, t, 0)) for p in begun]
        writes = [(p, self.written_version(p, t)) for p in (*uses.writes[t], *uses.scratch[t])]
        self.emit("work", t, t, reads, writes)
        for p in dict.fromkeys((*uses.reads[t], *uses.writes[t])):
            if (p, t) in self.leaving:
                self.evict(p, t)

    def evict(self, p: Allocation, t: int) -> None:
        """Evict an allocation after task t; spill it if it will be reloaded."""
        kind = self.return_kinds[p] = self.leaving[p, t]
        if kind == "spill" and p not in self.spilled_versions:
            shelf = self.uses.spill_allocation(p)
            self.spilled_versions[p] = self.new(shelf, t)
            self.emit("out", self.uses.writer(p), t, [(p, self.version(p))], [(shelf, self.spilled_versions[p])])
        self.now[p] = None

    def emit(
        self,
        kind: RunKind,
        task: int,
        anchor: int,
        reads: Sequence[tuple[Allocation, int]],
        writes: Sequence[tuple[Allocation, int]],
    ) -> None:
        at = len(self.runs)
        for _, v in (*reads, *writes):
            self.first[v] = min(self.first[v], at)
            self.last[v] = at
        self.runs.append(SimulatedRun(kind, task, tuple(reads), tuple(writes)))
        self.anchors.append(anchor)

    def new(self, p: Allocation, t: int) -> int:
        """A new version of an allocation."""
        self.places.append(p)
        self.first.append(1 << 60)
        self.last.append(-1)
        self.born.append(t)
        return len(self.places) - 1

    def version(self, p: Allocation) -> int:
        """The version in memory."""
        v = self.now[p]
        assert v is not None
        return v

    def written_version(self, p: Allocation, t: int) -> int:
        """The version that a task writes: the current one if it updates it."""
        v = self.now.get(p)
        if v is None:
            v = self.now[p] = self.new(p, t)
        return v

    def fetch_version(self, p: Allocation, t: int, depth: int) -> int:
        """The version to read before task t: the current one, or reloaded, or recomputed with its operands."""
        uses, v, filed = self.uses, self.now.get(p), self.return_kinds.get(p) == "spill"
        if v is not None and (t <= uses.last(p) or self.born[v] == t or not (filed or uses.recomputable(p))):
            return v
        if filed:
            return self.reload_value(p, t)
        if not uses.recomputable(p) or uses.valid_until[uses.writer(p)] < t or depth > MAX_RECOMPUTE_DEPTH:
            if v is not None:
                return v
            raise InfeasibleChoices
        return self.recompute_value(p, t, depth)

    def recompute_value(self, p: Allocation, t: int, depth: int) -> int:
        """A new version, by the kernel that defined the first."""
        uses, w = self.uses, self.uses.writer(p)
        reads = [(q, self.fetch_version(q, t, depth + 1)) for q in uses.reads[w]]
        writes = [(q, self.new(q, t)) for q in uses.writes[w]]
        self.emit("again", w, t, reads, writes)
        for q, v in writes:
            old = self.now.get(q)
            if q is p or old is None or t > uses.last(q):
                self.now[q] = v
        return self.version(p)

    def reload_value(self, p: Allocation, t: int) -> int:
        """A new version, reloaded from the file."""
        v = self.now[p] = self.new(p, t)
        self.emit("back", self.uses.writer(p), t, [(self.uses.spill_allocation(p), self.spilled_versions[p])], [(p, v)])
        return v

    def check_fixed_allocations(self) -> None:
        """Raise InfeasibleChoices if tasks other than kernels use one allocation in two versions."""
        taken: dict[Allocation, int] = {}
        for run in self.runs:
            if run.kind == "work" and self.uses.tasks[run.task].bound is None:
                for p, v in (*run.reads, *run.writes):
                    if taken.setdefault(p, v) != v:
                        raise InfeasibleChoices

    # Memory.

    def live_bytes(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The live bytes of the arena at each run; in-place pairs count once."""
        change = np.zeros(len(self.runs) + 1, np.int64)
        sizes = np.array([self.uses.size(p) for p in self.places], np.int64)
        if len(sizes):
            np.add.at(change, np.array(self.first), sizes)
            np.add.at(change, np.array(self.last) + 1, -sizes)
        total = np.cumsum(change[:-1])
        for at, run in enumerate(self.runs):
            if run.kind in ("work", "again") and self.uses.in_place[run.task]:
                total[at] -= self.in_place_bytes(at, run)
        return total

    def in_place_bytes(self, at: int, run: SimulatedRun) -> int:
        """The bytes that results of a run share in place with operands that die there."""
        reads, writes = dict(run.reads), dict(run.writes)
        saved, used = 0, set[Allocation]()
        for new, old in self.uses.in_place[run.task]:
            if new in writes and old in reads and not used.intersection((new, old)):
                if self.first[writes[new]] == at and self.last[reads[old]] == at:
                    used.update((new, old))
                    saved += self.uses.size(new)
        return saved

    def price(self, prices: RematPrices) -> float:
        """The price of all recomputations, spills and reloads."""
        return sum(self.run_price(run, prices) for run in self.runs if run.kind != "work")

    def run_price(self, run: SimulatedRun, prices: RematPrices) -> float:
        """The price of one run that is not an original task."""
        if run.kind == "again":
            return prices.tasks[run.task]
        return prices.spill(run.reads[0][0]) if run.kind == "out" else prices.reload(run.writes[0][0])
