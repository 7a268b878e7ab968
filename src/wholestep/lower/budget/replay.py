"""Replay: the works in order once more, with some values gone between two uses, and made again or read from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from wholestep.lower.budget.prices import Kind, Prices
from wholestep.lower.budget.uses import Gap, Uses
from wholestep.lower.plan import Place

Choices = Mapping[Gap, Kind]
"""In which gaps values leave memory, and how they come back; they are kept in all others."""

Does = Literal["work", "again", "out", "back"]
"""What a run is: a work as it was, one that is done once more, a value that goes to a file or comes from there."""

DEEPEST = 200
"""How long a chain of values that are made again for one another may be."""


class Impossible(Exception):
    """Choices that no order of works can follow."""


class Run(NamedTuple):
    """A work as it is run, with the version of each place that it touches; of a value that moves, what made it."""

    kind: Does
    work: int
    reads: tuple[tuple[Place, int], ...]
    writes: tuple[tuple[Place, int], ...]


class Replayed:
    """The runs that some choices lead to. `versions` are numbered as the runs name them."""

    def __init__(self, uses: Uses, choices: Choices) -> None:
        self.uses = uses
        self.leaving = {(gap.place, gap.start): kind for gap, kind in choices.items()}
        self.returns: dict[Place, Kind] = {}
        """How each place comes back that has left."""
        self.filed: dict[Place, int] = {}
        """The version in the file of each place that is there: it is written once, whatever its gaps."""
        self.runs: list[Run] = []
        self.places: list[Place] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.born: list[int] = []
        self.now: dict[Place, int | None] = {}
        self.anchors: list[int] = []
        """Before or as which of the works each run takes place."""
        for t in range(len(uses.works)):
            self.step(t)
        self.check_fixed()

    def step(self, t: int) -> None:
        """Run a work, after whatever it needs."""
        uses = self.uses
        begun = [p for p in uses.reads[t] if p in self.now or p not in uses.writes[t]]
        reads = [(p, self.fetched(p, t, 0)) for p in begun]
        writes = [(p, self.written(p, t)) for p in (*uses.writes[t], *uses.scratch[t])]
        self.emit("work", t, t, reads, writes)
        for p in dict.fromkeys((*uses.reads[t], *uses.writes[t])):
            if (p, t) in self.leaving:
                self.leave(p, t)

    def leave(self, p: Place, t: int) -> None:
        """Do without a place after work t; what is to be read again is in a file then."""
        kind = self.returns[p] = self.leaving[p, t]
        if kind == "spill" and p not in self.filed:
            shelf = self.uses.shelf(p)
            self.filed[p] = self.new(shelf, t)
            self.emit("out", self.uses.writer(p), t, [(p, self.version(p))], [(shelf, self.filed[p])])
        self.now[p] = None

    def emit(
        self,
        kind: Does,
        work: int,
        anchor: int,
        reads: Sequence[tuple[Place, int]],
        writes: Sequence[tuple[Place, int]],
    ) -> None:
        at = len(self.runs)
        for _, v in (*reads, *writes):
            self.first[v] = min(self.first[v], at)
            self.last[v] = at
        self.runs.append(Run(kind, work, tuple(reads), tuple(writes)))
        self.anchors.append(anchor)

    def new(self, p: Place, t: int) -> int:
        """A new version of a place."""
        self.places.append(p)
        self.first.append(1 << 60)
        self.last.append(-1)
        self.born.append(t)
        return len(self.places) - 1

    def version(self, p: Place) -> int:
        """The version that is in memory."""
        v = self.now[p]
        assert v is not None
        return v

    def written(self, p: Place, t: int) -> int:
        """The version that a work writes: the one at hand where it adds to it."""
        v = self.now.get(p)
        if v is None:
            v = self.now[p] = self.new(p, t)
        return v

    def fetched(self, p: Place, t: int, depth: int) -> int:
        """The version to read before work t: the one in memory, or from the file, or made again with what it needs."""
        uses, v, filed = self.uses, self.now.get(p), self.returns.get(p) == "spill"
        if v is not None and (t <= uses.last(p) or self.born[v] == t or not (filed or uses.again(p))):
            return v
        if filed:
            return self.brought_back(p, t)
        if not uses.again(p) or uses.until[uses.writer(p)] < t or depth > DEEPEST:
            if v is not None:
                return v
            raise Impossible
        return self.made_again(p, t, depth)

    def made_again(self, p: Place, t: int, depth: int) -> int:
        """A new version, by the kernel that made the first."""
        uses, w = self.uses, self.uses.writer(p)
        reads = [(q, self.fetched(q, t, depth + 1)) for q in uses.reads[w]]
        writes = [(q, self.new(q, t)) for q in uses.writes[w]]
        self.emit("again", w, t, reads, writes)
        for q, v in writes:
            old = self.now.get(q)
            if q is p or old is None or t > uses.last(q):
                self.now[q] = v
        return self.version(p)

    def brought_back(self, p: Place, t: int) -> int:
        """A new version, read from the file."""
        v = self.now[p] = self.new(p, t)
        self.emit("back", self.uses.writer(p), t, [(self.uses.shelf(p), self.filed[p])], [(p, v)])
        return v

    def check_fixed(self) -> None:
        """A place that works which are no kernels use in two of its versions cannot be two places."""
        taken: dict[Place, int] = {}
        for run in self.runs:
            if run.kind == "work" and self.uses.works[run.work].written is None:
                for p, v in (*run.reads, *run.writes):
                    if taken.setdefault(p, v) != v:
                        raise Impossible

    # Memory.

    def held(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The bytes of the arena that are in use at each run; what can be written over an operand counts once."""
        change = np.zeros(len(self.runs) + 1, np.int64)
        sizes = np.array([self.uses.size(p) for p in self.places], np.int64)
        if len(sizes):
            np.add.at(change, np.array(self.first), sizes)
            np.add.at(change, np.array(self.last) + 1, -sizes)
        total = np.cumsum(change[:-1])
        for at, run in enumerate(self.runs):
            if run.kind in ("work", "again") and self.uses.replacing[run.work]:
                total[at] -= self.shared(at, run)
        return total

    def shared(self, at: int, run: Run) -> int:
        """The bytes that results of a run take over from operands that end with it."""
        reads, writes = dict(run.reads), dict(run.writes)
        saved, used = 0, set[Place]()
        for new, old in self.uses.replacing[run.work]:
            if new in writes and old in reads and not used.intersection((new, old)):
                if self.first[writes[new]] == at and self.last[reads[old]] == at:
                    used.update((new, old))
                    saved += self.uses.size(new)
        return saved

    def price(self, prices: Prices) -> float:
        """What is paid for what is made again, written to a file and read."""
        return sum(self.paid(run, prices) for run in self.runs if run.kind != "work")

    def paid(self, run: Run, prices: Prices) -> float:
        """What one run is paid that no work is."""
        if run.kind == "again":
            return prices.works[run.work]
        return prices.out(run.reads[0][0]) if run.kind == "out" else prices.back(run.writes[0][0])
