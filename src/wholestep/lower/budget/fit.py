"""Fitting: the works of a program changed until what they hold at any time is within a limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping

from wholestep.lower.arrange import lay_out, size_of
from wholestep.lower.budget.exact import Exact
from wholestep.lower.budget.prices import Prices
from wholestep.lower.budget.replay import Replayed
from wholestep.lower.budget.rewrite import rewritten
from wholestep.lower.budget.search import Found, Search
from wholestep.lower.budget.uses import Uses
from wholestep.lower.cost import Rates
from wholestep.lower.plan import Decision, Place
from wholestep.lower.work import Lowered, Work

UNLIMITED = sys.maxsize

Priced = Callable[[Work], float]
"""About how many microseconds one run of a work takes."""
Pinned = Mapping[Place, str]
"""What the user has said of a value: "keep" or "recompute"."""


class Fitting:
    """The limits of a program's graphs, and what was decided for them; with `disk` values may go to a file."""

    def __init__(self, priced: Priced, pinned: Pinned, disk: Rates | None = None) -> None:
        self.priced, self.pinned, self.disk = priced, pinned, disk
        self.begun: dict[Lowered, tuple[Work, ...]] = {}
        """The works of each graph that was changed, as they were: each change begins with these."""
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
        self.made[found] = list(decided(best, self.prices(found)))
        found.works = rewritten(best.replayed)
        lay_out(found)

    def searched(self, found: Lowered, limit: int) -> Found:
        """What the search gives up in the graph itself."""
        found.release()
        found.works = self.begun.setdefault(found, found.works)

        def real(replayed: Replayed) -> int:
            return size_of(Lowered(rewritten(replayed), Place(0), found.outside))

        search = Search(Uses(found), self.prices(found), self.pinned)
        best = search.run(limit, real)
        return best if best.nbytes > limit else Exact(search, limit, real, best).run()

    def prices(self, found: Lowered) -> Prices:
        """What the works of a graph, as they were, take once more, and a file."""
        return Prices([self.priced(work) for work in self.begun[found]], self.disk)

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


def decided(best: Found, prices: Prices) -> Iterator[Decision]:
    """Each choice in words."""
    filed = set[Place]()
    for gap, kind in best.choices.items():
        value = gap.place.value
        node = value.node if value is not None else None
        named = f"{node.op.name} {value.type}" if node is not None and value is not None else "a value"
        if kind == "spill":
            price = prices.back(gap.place) + (0.0 if gap.place in filed else prices.out(gap.place))
            filed.add(gap.place)
        else:
            price = prices.works[best.replayed.uses.writer(gap.place)]
        yield Decision(named, node.where if node else None, gap.place.nbytes, kind, price)
