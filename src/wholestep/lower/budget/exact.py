"""Exact search: of all choices for a small graph, those with the least price that fit; branch and bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wholestep.lower.budget.prices import Kind
from wholestep.lower.budget.replay import Choices, Impossible, Replayed
from wholestep.lower.budget.search import Found, Real, Search
from wholestep.lower.budget.uses import Gap

FEW = 10
"""Up to how many bits of choices all are looked at: one for each value that could leave memory, more with two ways."""


class Exact:
    """Every choice for some gaps, one after the other; a branch is left when it cannot become cheaper than the best."""

    def __init__(self, search: Search, limit: int, real: Real, best: Found) -> None:
        self.search, self.limit, self.real, self.best = search, limit, real, best
        self.price = search.price(best.replayed)
        self.gaps = [g for gaps in search.gaps.values() for g in gaps if g not in search.pinned]

    def run(self) -> Found:
        """The cheapest of all choices."""
        if len(self.gaps) * math.log2(1 + len(self.search.prices.kinds)) <= FEW:
            self.visit(0, dict(self.search.pinned), 0.0)
        return self.best

    def visit(self, at: int, chosen: Choices, floor: float) -> None:
        """All choices for the gaps from `at` on; `floor` is what those before cost at the least."""
        if floor >= self.price:
            return
        if at == len(self.gaps):
            self.consider(chosen)
            return
        gap = self.gaps[at]
        self.visit(at + 1, chosen, floor)
        for kind, least in self.ways(gap, chosen):
            self.visit(at + 1, {**chosen, gap: kind}, floor + least)

    def ways(self, gap: Gap, chosen: Choices) -> Iterator[tuple[Kind, float]]:
        """How a value may leave, and what that costs at the least beside what was chosen.

        One kernel that runs again may bring several values back, and what lies in the file was written once.
        """
        uses, prices = self.search.uses, self.search.prices
        writer = uses.writer(gap.place)
        if uses.again(gap.place) and uses.until[writer] >= gap.end:
            paid = any(uses.writer(g.place) == writer and kind == "recompute" for g, kind in chosen.items())
            yield "recompute", 0.0 if paid else prices.works[writer]
        if prices.spills(gap.place):
            filed = any(g.place is gap.place and kind == "spill" for g, kind in chosen.items())
            alone = len(uses.writes[writer]) == 1
            yield "spill", prices.out(gap.place) * (not filed) + prices.back(gap.place) * alone

    def consider(self, chosen: Choices) -> None:
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
