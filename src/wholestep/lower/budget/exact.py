"""Exact search: of all choices for a small graph, those with the least price that fit; branch and bound."""

from __future__ import annotations

from wholestep.lower.budget.replay import Impossible, Replayed
from wholestep.lower.budget.search import Found, Real, Search
from wholestep.lower.budget.uses import Gap

FEW = 10
"""Up to how many values that could leave memory all choices are looked at."""


class Exact:
    """Every choice for some gaps, one after the other; a branch is left when it cannot become cheaper than the best."""

    def __init__(self, search: Search, limit: int, real: Real, best: Found) -> None:
        self.search, self.limit, self.real, self.best = search, limit, real, best
        self.price = search.price(best.replayed)
        self.gaps = [g for gaps in search.gaps.values() for g in gaps if g not in search.pinned]

    def run(self) -> Found:
        """The cheapest of all choices."""
        if len(self.gaps) <= FEW:
            self.visit(0, list(self.search.pinned), 0.0)
        return self.best

    def visit(self, at: int, chosen: list[Gap], floor: float) -> None:
        """All choices for the gaps from `at` on; `floor` is what those before cost at the least.

        One kernel that runs again may bring several values back, so that its price counts once.
        """
        if floor >= self.price:
            return
        if at == len(self.gaps):
            self.consider(chosen)
            return
        gap = self.gaps[at]
        self.visit(at + 1, chosen, floor)
        uses = self.search.uses
        writer = uses.writer(gap.place)
        if uses.again(gap.place) and uses.until[writer] >= gap.end:
            paid = any(uses.writer(g.place) == writer for g in chosen)
            self.visit(at + 1, [*chosen, gap], floor if paid else floor + self.search.prices[writer])

    def consider(self, chosen: list[Gap]) -> None:
        """Take choices that fit and cost less than the best."""
        try:
            made = Replayed(self.search.uses, chosen)
        except Impossible:
            return
        price = self.search.price(made)
        if price < self.price and int(made.held().max(initial=0)) <= self.limit:
            nbytes = self.real(made)
            if nbytes <= self.limit:
                self.best, self.price = Found(chosen, made, nbytes), price
