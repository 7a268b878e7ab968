"""Exact search: the cheapest feasible choices for a small graph, by branch and bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wholestep.lower.remat.candidates import UseGap
from wholestep.lower.remat.greedy import ArenaMeasure, GreedySearch, RematSolution
from wholestep.lower.remat.recompute_cost import RematKind
from wholestep.lower.remat.simulate import InfeasibleChoices, RematChoices, SimulatedSchedule

MAX_CHOICE_BITS = 10
"""Maximum bits of choices that are searched exhaustively: one for each candidate, more with two ways to return."""


class BranchAndBound:
    """Depth-first search over the choices for each gap, cut where the price bound exceeds the best solution."""

    def __init__(self, search: GreedySearch, limit: int, real: ArenaMeasure, best: RematSolution) -> None:
        self.search, self.limit, self.real, self.best = search, limit, real, best
        self.price = best.schedule.price(search.prices)
        self.gaps = [g for gaps in search.gaps.values() for g in gaps if g not in search.pinned]

    def run(self) -> RematSolution:
        """The cheapest of all choices."""
        choices = 2 if self.search.prices.rates is None else 3
        if len(self.gaps) * math.log2(choices) <= MAX_CHOICE_BITS:
            self.visit(0, dict(self.search.pinned), 0.0)
        return self.best

    def visit(self, at: int, chosen: RematChoices, floor: float) -> None:
        """Search all choices for the gaps from `at` on; `floor` is a lower bound on the price so far."""
        if floor >= self.price:
            return
        if at == len(self.gaps):
            self.consider(chosen)
            return
        gap = self.gaps[at]
        self.visit(at + 1, chosen, floor)
        for kind, least in self.return_bounds(gap, chosen):
            self.visit(at + 1, {**chosen, gap: kind}, floor + least)

    def return_bounds(self, gap: UseGap, chosen: RematChoices) -> Iterator[tuple[RematKind, float]]:
        """The ways to evict a value, each with a lower bound on its price given the choices so far.

        One recomputed kernel may return several values, and a value is written to the file only once.
        """
        uses, prices = self.search.uses, self.search.prices
        writer = uses.writer(gap.place)
        if uses.recomputable(gap.place) and uses.valid_until[writer] >= gap.end:
            paid = any(uses.writer(g.place) == writer and kind == "recompute" for g, kind in chosen.items())
            yield "recompute", 0.0 if paid else prices.tasks[writer]
        if prices.can_spill(gap.place):
            filed = any(g.place is gap.place and kind == "spill" for g, kind in chosen.items())
            alone = len(uses.writes[writer]) == 1
            yield "spill", prices.spill(gap.place) * (not filed) + prices.reload(gap.place) * alone

    def consider(self, chosen: RematChoices) -> None:
        """Keep choices that fit and cost less than the best."""
        try:
            made = SimulatedSchedule(self.search.uses, chosen)
        except InfeasibleChoices:
            return
        price = made.price(self.search.prices)
        if price < self.price and int(made.live_bytes().max(initial=0)) <= self.limit:
            nbytes = self.real(made)
            if nbytes <= self.limit:
                self.best, self.price = RematSolution(chosen, made, nbytes), price
