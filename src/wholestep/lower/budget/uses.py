"""Uses: when each temporary value of a list of works is written and read, and what could be made again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from wholestep.lower.memory import rounded
from wholestep.lower.order import in_place, overwrites, own
from wholestep.lower.plan import Place
from wholestep.lower.work import Lowered, Work


class Gap(NamedTuple):
    """A value between two uses in a row, by the numbers of the works that use it."""

    place: Place
    start: int
    end: int


class Uses:
    """The temporary places that each work of a graph reads and writes. Works go by their numbers."""

    def __init__(self, found: Lowered) -> None:
        self.works = found.works
        self.outside = found.outside
        self.reads = [tuple(own(work.reads, found.outside)) for work in found.works]
        self.writes = [tuple(own(work.writes, found.outside)) for work in found.works]
        self.scratch = [tuple(own(work.scratch, found.outside)) for work in found.works]
        self.touches: dict[Place, list[int]] = {}
        self.writers: dict[Place, list[int]] = {}
        self.mixed: set[Place] = set()
        """Places that are also used in part, or under another name: they stay where they are."""
        for t, work in enumerate(found.works):
            for p in dict.fromkeys((*self.reads[t], *self.writes[t], *self.scratch[t])):
                self.touches.setdefault(p, []).append(t)
            for p in self.writes[t]:
                self.writers.setdefault(p, []).append(t)
            self.mixed.update(p.root() for p in (*work.reads, *work.writes, *work.scratch) if p.base is not None)
        self.shelves: dict[Place, Place] = {}
        self.until = [self.stands_until(t) for t in range(len(found.works))]

    def size(self, p: Place) -> int:
        """The bytes that a place takes of the arena."""
        return 0 if p.file else rounded(p.nbytes)

    def last(self, p: Place) -> int:
        """The last work that uses a place."""
        return self.touches[p][-1]

    def writer(self, p: Place) -> int:
        """The one work that writes a place which can be made again."""
        return self.writers[p][0]

    def shelf(self, p: Place) -> Place:
        """The place in a file of a value that goes there."""
        if p not in self.shelves:
            self.shelves[p] = Place(p.nbytes, value=p.value, file=True)
        return self.shelves[p]

    @cached_property
    def replaced(self) -> dict[Place, list[int]]:
        """The works that write over memory from outside, or to it."""
        found: dict[Place, list[int]] = {}
        for t, work in enumerate(self.works):
            for p in work.writes:
                found.setdefault(overwrites(p) or p.memory(), []).append(t)
        return found

    def stands_until(self, t: int) -> int:
        """The last work before which a kernel may run once more and find its operands as they were; -1 where none."""
        work = self.works[t]
        if work.written is None or work.check or work.home:
            return -1
        if any(p.base is not None or self.writers.get(p, [t]) != [t] for p in work.writes):
            return -1
        if any(p in work.reads for p in work.writes) or self.mixed.intersection(self.writes[t]):
            return -1
        if any(max(self.writers.get(q, [-1])) >= t for q in self.reads[t]):
            return -1
        later = [s for p in work.reads for s in self.replaced.get(p.memory(), ()) if s > t and p.root() in self.outside]
        return min(later, default=len(self.works))

    def again(self, p: Place) -> bool:
        """Whether a place is written by one kernel that could run once more."""
        return len(self.writers.get(p, ())) == 1 and self.until[self.writer(p)] >= 0

    def gaps(self) -> Iterator[Gap]:
        """Every gap with other works in between, of values in memory that nobody changes once they are made."""
        for p, times in self.touches.items():
            alone = len(self.writers.get(p, ())) == 1 and p not in self.mixed and not p.file
            if alone and self.writer(p) == times[0]:
                yield from [Gap(p, a, b) for a, b in pairwise(times) if b - a > 1]

    @cached_property
    def replacing(self) -> list[list[tuple[Place, Place]]]:
        """For each kernel, which of its results may be written over which of its operands."""
        return [list(pairs(work)) for work in self.works]


def pairs(work: Work) -> Iterator[tuple[Place, Place]]:
    """(result, operand) of one size where a kernel may write the first over the second."""
    if work.written is None:
        return
    names = dict(zip(work.written.places, work.written.kernel.buffers, strict=True))
    for new in work.writes:
        for old in work.reads:
            if old is not new and old.nbytes == new.nbytes and old not in work.writes:
                if in_place(work.written.kernel, names[old], names[new]):
                    yield new, old
