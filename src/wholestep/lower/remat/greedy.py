"""Greedy rematerialization: evict the cheapest values until the rest fits the budget.

Candidates are ordered by price per byte at the peak, each with its cheapest way to return: recompute, or spill and
reload. Afterwards evictions that turned out unnecessary are undone, or return in the other way. The order of evictions
does not depend on the limit, so a larger budget never costs more than a smaller one before that last step. Graphs with
few choices are searched exactly, by branch and bound.

Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016, is the idea; Jain et al., "Checkmate:
breaking the memory wall with optimal tensor rematerialization", 2020, the general problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wholestep.lower.program.allocation import Allocation
from wholestep.lower.remat.candidates import TemporaryUses, UseGap
from wholestep.lower.remat.recompute_cost import RematKind, RematPrices
from wholestep.lower.remat.simulate import MAX_RECOMPUTE_DEPTH, InfeasibleChoices, RematChoices, SimulatedSchedule

BATCH_SHARE = 0.05
"""Share of the candidates at the peak that are evicted at once."""
MAX_RETENTION_TRIES = 200
"""Maximum number of evictions that the last step tries to undo."""


ArenaMeasure = Callable[[SimulatedSchedule], int]
"""Assigns the buffers of a schedule and returns the arena size."""


class RematSolution(NamedTuple):
    """Choices, the schedule that they lead to, and the arena size that this really takes."""

    choices: RematChoices
    schedule: SimulatedSchedule
    nbytes: int = 0


class GreedySearch:
    """The search state: the choices so far and their schedule."""

    def __init__(self, uses: TemporaryUses, prices: RematPrices, pinned: Mapping[Allocation, str]) -> None:
        self.uses, self.prices = uses, prices
        self.choices: dict[UseGap, RematKind] = {}
        self.gaps: dict[Allocation, list[UseGap]] = {}
        for gap in uses.gaps():
            if pinned.get(gap.place) != "keep" and uses.size(gap.place):
                self.gaps.setdefault(gap.place, []).append(gap)
        self.refused: set[tuple[UseGap, RematKind]] = set()
        self.schedule = SimulatedSchedule(uses, self.choices)
        for place, pin in pinned.items():
            if pin == "recompute" and place in self.gaps:
                self.take({max(self.gaps[place], key=lambda g: g.end - g.start): "recompute"})
        self.pinned = dict(self.choices)

    def run(self, limit: int, real: ArenaMeasure) -> RematSolution:
        """The first choices found that fit in `limit` bytes; those that come closest if none do."""
        least, closest = -1, self.solution()
        while True:
            held = self.schedule.live_bytes()
            most = int(held.max(initial=0))
            if least < 0 or most < least:
                least, closest = most, self.solution()
            if most <= limit and (nbytes := real(self.schedule)) <= limit:
                return self.undo_evictions(self.solution()._replace(nbytes=nbytes), limit, real)
            peak = int(held.argmax())
            if not (self.evict_values(peak) or self.spill_recomputed(peak)):
                return closest._replace(nbytes=real(closest.schedule))

    def solution(self) -> RematSolution:
        """The choices so far."""
        return RematSolution(dict(self.choices), self.schedule)

    def evict_values(self, peak: int) -> bool:
        """Evict some values that are live but unused at a run; False if there are none."""
        found = sorted(self.candidates(peak), key=lambda c: c[:3])
        return self.take_batch({gap: kind for _, _, _, gap, kind in found})

    def spill_recomputed(self, peak: int) -> bool:
        """Reload values instead that are recomputed at a run and keep their operands live there."""
        schedule, anchor = self.schedule, self.schedule.anchors[peak]
        held = {p for v, p in enumerate(schedule.places) if schedule.first[v] <= peak <= schedule.last[v]}
        found: list[tuple[int, float, int, UseGap]] = []
        for gap, kind in self.choices.items():
            around = gap.start < anchor <= gap.end and gap.place in held
            free = around and kind == "recompute" and gap not in self.pinned
            if free and "spill" in (ways := self.return_prices(gap)):
                found.append((gap.end, ways["spill"] / self.uses.size(gap.place), len(found), gap))
        return self.take_batch({gap: "spill" for _, _, _, gap in sorted(found)})

    def take_batch(self, found: RematChoices) -> bool:
        """Take the first of these choices, a share of them at once; False if none can be taken."""
        gaps, count = list(found), max(1, math.ceil(BATCH_SHARE * len(found)))
        return any(self.take({gap: found[gap] for gap in gaps[at : at + count]}) for at in range(0, len(gaps), count))

    def take(self, more: RematChoices) -> bool:
        """Evict these values too; one by one if not all of them can be. False if none can."""
        try:
            made = SimulatedSchedule(self.uses, {**self.choices, **more})
        except InfeasibleChoices:
            if len(more) == 1:
                self.refused.update(more.items())
                return False
            return any([self.take({gap: kind}) for gap, kind in more.items()])
        self.choices.update(more)
        self.schedule = made
        return True

    def candidates(self, peak: int) -> list[tuple[float, int, int, UseGap, RematKind]]:
        """(price per byte, -gap length, number, gap, kind) of each value that could be evicted."""
        schedule, anchor = self.schedule, self.schedule.anchors[peak]
        found = []
        for v, p in enumerate(schedule.places):
            if schedule.first[v] < peak < schedule.last[v]:
                for gap in self.gaps.get(p, ()):
                    if gap.start < anchor <= gap.end and gap not in self.choices and (ways := self.return_prices(gap)):
                        kind = min(ways, key=lambda k: ways[k])
                        found.append((ways[kind] / self.uses.size(p), gap.start - gap.end, v, gap, kind))
        return found

    def return_prices(self, gap: UseGap) -> dict[RematKind, float]:
        """The price of evicting a value in a gap, for each way to return."""
        p = gap.place
        ways: dict[RematKind, float] = {"recompute": self.recompute_price(p, gap.end), "spill": self.prices.reload(p)}
        if not any(self.choices.get(g) == "spill" for g in self.gaps[p]):
            ways["spill"] += self.prices.spill(p)
        return {kind: price for kind, price in ways.items() if price < math.inf and (gap, kind) not in self.refused}

    def recompute_price(self, p: Allocation, t: int) -> float:
        """The price of recomputing a value before task t, with all operands that are evicted by then."""
        tasks, read, waiting = set[int](), set[Allocation](), [p]
        while waiting:
            q = waiting.pop()
            w = self.uses.writer(q) if self.uses.recomputable(q) else -1
            if w < 0 or self.uses.valid_until[w] < t or len(tasks) > MAX_RECOMPUTE_DEPTH:
                return math.inf
            if w not in tasks:
                tasks.add(w)
                away = {x: self.return_kind(x, t) for x in self.uses.reads[w]}
                read |= {x for x, kind in away.items() if kind == "spill"}
                waiting += [x for x, kind in away.items() if kind == "recompute"]
        return sum(self.prices.tasks[w] for w in tasks) + sum(self.prices.reload(x) for x in read)

    def return_kind(self, p: Allocation, t: int) -> RematKind | None:
        """The way a value returns before task t; None if it is in memory, or must stay."""
        gone = [g for g in self.gaps.get(p, ()) if g.start < t and g in self.choices]
        if t > self.uses.last(p):
            if gone and self.choices[gone[-1]] == "spill":
                return "spill"
            return "recompute" if self.uses.recomputable(p) else None
        return self.choices[gone[-1]] if gone and t < gone[-1].end else None

    def undo_evictions(self, found: RematSolution, limit: int, real: ArenaMeasure) -> RematSolution:
        """Undo evictions that are not needed to fit, the most expensive first, or return them in the other way."""
        most = int(found.schedule.live_bytes().max(initial=0)) * limit // max(found.nbytes, 1)
        choices, schedule = dict(found.choices), found.schedule
        dear = sorted(
            [g for g in choices if g not in self.pinned],
            key=lambda gap: (-self.return_prices(gap).get(self.choices[gap], math.inf), gap.start),
        )
        for gap in dear[:MAX_RETENTION_TRIES]:
            for kind in (None, *[k for k in self.return_prices(gap) if k != choices[gap]]):
                changed = {g: k for g, k in choices.items() if g != gap} | ({gap: kind} if kind else {})
                try:
                    made = SimulatedSchedule(self.uses, changed)
                except InfeasibleChoices:
                    continue
                saved = schedule.price(self.prices) - made.price(self.prices)
                if int(made.live_bytes().max(initial=0)) <= most and (saved > 0 or (saved == 0 and kind is None)):
                    choices, schedule = changed, made
                    break
        made_up = RematSolution(choices, schedule, real(schedule))
        return made_up if made_up.nbytes <= limit else found
