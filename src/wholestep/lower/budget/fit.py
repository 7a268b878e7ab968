"""Fitting: the works of a program changed until what they hold at any time is within a limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from wholestep.lower.arrange import lay_out, size_of
from wholestep.lower.budget.exact import Exact
from wholestep.lower.budget.replay import Replayed
from wholestep.lower.budget.rewrite import rewritten
from wholestep.lower.budget.search import Found, Search
from wholestep.lower.budget.uses import Uses
from wholestep.lower.plan import Decision, Place
from wholestep.lower.work import Lowered, Work

UNLIMITED = sys.maxsize

Priced = Callable[[Work], float]
"""About how many microseconds one run of a work takes."""
Pinned = Mapping[Place, str]
"""What the user has said of a value: "keep" or "recompute"."""


class Fitting:
    """The limits of a program's graphs, and what was decided for them."""

    def __init__(self, priced: Priced, pinned: Pinned) -> None:
        self.priced, self.pinned = priced, pinned
        self.made: dict[Lowered, list[Decision]] = {}

    @property
    def decisions(self) -> list[Decision]:
        """What leaves the arena, in all graphs, the largest first."""
        return sorted([d for part in self.made.values() for d in part], key=lambda d: -d.nbytes)

    def fit(self, found: Lowered) -> int:
        """Lay out a graph after the graphs inside it, doing what the user has pinned; returns its bytes."""
        for work in found.works:
            for inner in work.inner:
                self.fit(inner)
        lay_out(found)
        if any(p in self.pinned for work in found.works for p in work.writes):
            self.change(found, UNLIMITED)
        return found.arena.nbytes

    def within(self, found: Lowered, limit: int) -> int:
        """Lay out a graph that `fit` has seen within a limit; returns the bytes, more where it cannot be."""
        if found.arena.nbytes > limit:
            self.change(found, limit)
        return found.arena.nbytes

    def change(self, found: Lowered, limit: int) -> None:
        """Give up values of a graph, and of the largest of the graphs inside it, until it fits."""
        best = self.searched(found, limit)
        while best.nbytes > limit and self.shrunk(best, limit):
            best = self.searched(found, limit)
        self.made[found] = list(decided(best, self.priced))
        found.works = rewritten(best.replayed)
        lay_out(found)

    def searched(self, found: Lowered, limit: int) -> Found:
        """What the search gives up in the graph itself."""
        found.release()
        prices = [self.priced(work) for work in found.works]

        def real(replayed: Replayed) -> int:
            return size_of(Lowered(rewritten(replayed), Place(0), found.outside))

        search = Search(Uses(found), prices, self.pinned)
        best = search.run(limit, real)
        return best if best.nbytes > limit else Exact(search, limit, real, best).run()

    def shrunk(self, best: Found, limit: int) -> bool:
        """Fit the largest of the graphs inside the work at the peak into what is left for it; whether that helped."""
        held = best.replayed.held()
        run = best.replayed.runs[int(held.argmax())]
        inner = best.replayed.uses.works[run.work].inner
        if run.kind != "work" or not inner:
            return False
        largest = max(inner, key=lambda x: x.arena.nbytes)
        before = largest.arena.nbytes
        if before == 0:
            return False
        self.change(largest, max(limit - (int(held.max()) - before), 0))
        return largest.arena.nbytes < before


def decided(best: Found, priced: Priced) -> Iterator[Decision]:
    """Each choice in words."""
    works = best.replayed.uses.works
    for gap in best.choices:
        value = gap.place.value
        node = value.node if value is not None else None
        named = f"{node.op.name} {value.type}" if node is not None and value is not None else "a value"
        price = priced(works[best.replayed.uses.writer(gap.place)])
        yield Decision(named, node.where if node else None, gap.place.nbytes, "recompute", price)
