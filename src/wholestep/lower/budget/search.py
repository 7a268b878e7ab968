"""Search: the cheapest values to do without, until what is left fits.

Greedy by price for each byte at the peak, each value in its cheapest way: made again, or written to a file and read.
Then back: what turns out not to have been needed is kept after all, or comes back in the other way. The order in which
values are given up does not depend on the limit, so a larger budget never costs more than a smaller one would before
that last step. Graphs with few choices are searched through, branch and bound.

Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016, is the idea; Jain et al.,
"Checkmate: breaking the memory wall with optimal tensor rematerialization", 2020, the general problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wholestep.lower.budget.prices import Kind, Prices
from wholestep.lower.budget.replay import DEEPEST, Choices, Impossible, Replayed
from wholestep.lower.budget.uses import Gap, Uses
from wholestep.lower.plan import Place

SHARE = 0.05
"""Which part of the values that could be given up at the peak, or come back otherwise, is taken at once."""
TRIES = 200
"""How many values the way back tries to keep after all."""


Real = Callable[[Replayed], int]
"""Lays works out and says how many bytes of arena they take."""


class Found(NamedTuple):
    """Choices, what they lead to, and the bytes of arena that this really takes."""

    choices: Choices
    replayed: Replayed
    nbytes: int = 0


class Search:
    """What has been given up so far."""

    def __init__(self, uses: Uses, prices: Prices, pinned: Mapping[Place, str]) -> None:
        self.uses, self.prices = uses, prices
        self.choices: dict[Gap, Kind] = {}
        self.gaps: dict[Place, list[Gap]] = {}
        for gap in uses.gaps():
            if pinned.get(gap.place) != "keep" and uses.size(gap.place):
                self.gaps.setdefault(gap.place, []).append(gap)
        self.refused: set[tuple[Gap, Kind]] = set()
        self.replayed = Replayed(uses, self.choices)
        for place, pin in pinned.items():
            if pin == "recompute" and place in self.gaps:
                self.take({max(self.gaps[place], key=lambda g: g.end - g.start): "recompute"})
        self.pinned = dict(self.choices)

    def run(self, limit: int, real: Real) -> Found:
        """The first choices found that fit in `limit` bytes; those that come closest where none do."""
        least, closest = -1, self.found()
        while True:
            held = self.replayed.held()
            most = int(held.max(initial=0))
            if least < 0 or most < least:
                least, closest = most, self.found()
            if most <= limit and (nbytes := real(self.replayed)) <= limit:
                return self.reduced(self.found()._replace(nbytes=nbytes), limit, real)
            peak = int(held.argmax())
            if not (self.give_up(peak) or self.file_away(peak)):
                return closest._replace(nbytes=real(closest.replayed))

    def found(self) -> Found:
        """The choices so far."""
        return Found(dict(self.choices), self.replayed)

    def give_up(self, peak: int) -> bool:
        """Give up some of the values that are in memory at a run but not used there; False where there are none."""
        found = sorted(self.candidates(peak), key=lambda c: c[:3])
        return self.some({gap: kind for _, _, _, gap, kind in found})

    def file_away(self, peak: int) -> bool:
        """Have values come from the file that are made again at a run, and hold there what they are made of."""
        replayed, anchor = self.replayed, self.replayed.anchors[peak]
        held = {p for v, p in enumerate(replayed.places) if replayed.first[v] <= peak <= replayed.last[v]}
        found: list[tuple[int, float, int, Gap]] = []
        for gap, kind in self.choices.items():
            around = gap.start < anchor <= gap.end and gap.place in held
            if around and kind == "recompute" and gap not in self.pinned and "spill" in (ways := self.ways(gap)):
                found.append((gap.end, ways["spill"] / self.uses.size(gap.place), len(found), gap))
        return self.some({gap: "spill" for _, _, _, gap in sorted(found)})

    def some(self, found: Choices) -> bool:
        """Take the first of these choices, a share of them at once; False where none can be taken."""
        gaps, count = list(found), max(1, math.ceil(SHARE * len(found)))
        return any(self.take({gap: found[gap] for gap in gaps[at : at + count]}) for at in range(0, len(gaps), count))

    def take(self, more: Choices) -> bool:
        """Give up these values too; one by one where not all of them can be. False where none can."""
        try:
            made = Replayed(self.uses, {**self.choices, **more})
        except Impossible:
            if len(more) == 1:
                self.refused.update(more.items())
                return False
            return any([self.take({gap: kind}) for gap, kind in more.items()])
        self.choices.update(more)
        self.replayed = made
        return True

    def candidates(self, peak: int) -> list[tuple[float, int, int, Gap, Kind]]:
        """(price of a byte, length of the gap, number, gap, kind) for each value that could leave."""
        replayed, anchor = self.replayed, self.replayed.anchors[peak]
        found = []
        for v, p in enumerate(replayed.places):
            if replayed.first[v] < peak < replayed.last[v]:
                for gap in self.gaps.get(p, ()):
                    if gap.start < anchor <= gap.end and gap not in self.choices and (ways := self.ways(gap)):
                        kind = min(ways, key=lambda k: ways[k])
                        found.append((ways[kind] / self.uses.size(p), gap.start - gap.end, v, gap, kind))
        return found

    def ways(self, gap: Gap) -> dict[Kind, float]:
        """What it costs to do without a value in a gap, by how it comes back."""
        p = gap.place
        ways: dict[Kind, float] = {"recompute": self.again(p, gap.end), "spill": self.prices.back(p)}
        if not any(self.choices.get(g) == "spill" for g in self.gaps[p]):
            ways["spill"] += self.prices.out(p)
        return {kind: price for kind, price in ways.items() if price < math.inf and (gap, kind) not in self.refused}

    def again(self, p: Place, t: int) -> float:
        """What it costs to make a value again before work t, with all that has left memory by then."""
        works, read, waiting = set[int](), set[Place](), [p]
        while waiting:
            q = waiting.pop()
            w = self.uses.writer(q) if self.uses.again(q) else -1
            if w < 0 or self.uses.until[w] < t or len(works) > DEEPEST:
                return math.inf
            if w not in works:
                works.add(w)
                away = {x: self.away(x, t) for x in self.uses.reads[w]}
                read |= {x for x, kind in away.items() if kind == "spill"}
                waiting += [x for x, kind in away.items() if kind == "recompute"]
        return sum(self.prices.works[w] for w in works) + sum(self.prices.back(x) for x in read)

    def away(self, p: Place, t: int) -> Kind | None:
        """How a value comes back before work t; None where it is in memory, or has to stay for want of a way."""
        gone = [g for g in self.gaps.get(p, ()) if g.start < t and g in self.choices]
        if t > self.uses.last(p):
            if gone and self.choices[gone[-1]] == "spill":
                return "spill"
            return "recompute" if self.uses.again(p) else None
        return self.choices[gone[-1]] if gone and t < gone[-1].end else None

    def reduced(self, found: Found, limit: int, real: Real) -> Found:
        """Keep after all what is not needed to fit, the dearest first, or have it come back in the other way."""
        most = int(found.replayed.held().max(initial=0)) * limit // max(found.nbytes, 1)
        choices, replayed = dict(found.choices), found.replayed
        dear = sorted([g for g in choices if g not in self.pinned], key=lambda gap: (-self.dearest(gap), gap.start))
        for gap in dear[:TRIES]:
            for kind in (None, *[k for k in self.ways(gap) if k != choices[gap]]):
                changed = {g: k for g, k in choices.items() if g != gap} | ({gap: kind} if kind else {})
                try:
                    made = Replayed(self.uses, changed)
                except Impossible:
                    continue
                saved = self.price(replayed) - self.price(made)
                if int(made.held().max(initial=0)) <= most and (saved > 0 or (saved == 0 and kind is None)):
                    choices, replayed = changed, made
                    break
        made_up = Found(choices, replayed, real(replayed))
        return made_up if made_up.nbytes <= limit else found

    def dearest(self, gap: Gap) -> float:
        """What a value costs in the way that was chosen."""
        return self.ways(gap).get(self.choices[gap], math.inf)

    def price(self, replayed: Replayed) -> float:
        """What a replay costs beside the works themselves."""
        return replayed.price(self.prices)
