"""Search: the cheapest values to do without, until what is left fits.

Greedy by price for each byte at the peak, then back: what turns out not to have been needed is kept after all. The
order in which values are given up does not depend on the limit, so a larger budget never costs more than a smaller
one would before that last step. Graphs with few choices are searched through, branch and bound.

Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016, is the idea; Jain et al.,
"Checkmate: breaking the memory wall with optimal tensor rematerialization", 2020, the general problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from wholestep.lower.budget.replay import DEEPEST, Choices, Impossible, Replayed
from wholestep.lower.budget.uses import Gap, Uses
from wholestep.lower.plan import Place

SHARE = 0.05
"""Which part of the values that could be given up at the peak is given up at once."""
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

    def __init__(self, uses: Uses, prices: Sequence[float], pinned: Mapping[Place, str]) -> None:
        self.uses, self.prices = uses, prices
        self.choices: dict[Gap, None] = {}  # a set that keeps its order
        self.gaps: dict[Place, list[Gap]] = {}
        for gap in uses.gaps():
            if pinned.get(gap.place) != "keep":
                self.gaps.setdefault(gap.place, []).append(gap)
        self.refused: set[Gap] = set()
        self.replayed = Replayed(uses, self.choices)
        for place, pin in pinned.items():
            if pin == "recompute" and place in self.gaps:
                self.take([max(self.gaps[place], key=lambda g: g.end - g.start)])
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
            if not self.give_up(int(held.argmax())):
                return closest._replace(nbytes=real(closest.replayed))

    def found(self) -> Found:
        """The choices so far."""
        return Found(tuple(self.choices), self.replayed)

    def give_up(self, peak: int) -> bool:
        """Give up some of the values that are in memory at a run but not used there; False where there are none."""
        found = sorted(self.candidates(peak))
        count = max(1, math.ceil(SHARE * len(found)))
        for at in range(0, len(found), count):
            if self.take([gap for _, _, _, gap in found[at : at + count]]):
                return True
        return False

    def take(self, more: Sequence[Gap]) -> bool:
        """Give up these values too; one by one where not all of them can be. False where none can."""
        try:
            made = Replayed(self.uses, [*self.choices, *more])
        except Impossible:
            if len(more) == 1:
                self.refused.add(more[0])
                return False
            return any([self.take([one]) for one in more])
        self.choices.update(dict.fromkeys(more))
        self.replayed = made
        return True

    def candidates(self, peak: int) -> list[tuple[float, int, int, Gap]]:
        """(price of a byte, length of the gap, number, gap) for each value that could leave."""
        replayed, anchor = self.replayed, self.replayed.anchors[peak]
        found = []
        for v, p in enumerate(replayed.places):
            if replayed.first[v] < peak < replayed.last[v]:
                for gap in self.gaps.get(p, ()):
                    if gap.start < anchor <= gap.end and gap not in self.choices and gap not in self.refused:
                        price = self.again(gap.place, gap.end)
                        if price < math.inf:
                            found.append((price / self.uses.size(p), gap.start - gap.end, v, gap))
        return found

    def again(self, p: Place, t: int) -> float:
        """What it costs to make a value again before work t, with all that has left memory by then."""
        works, waiting = set[int](), [p]
        while waiting:
            q = waiting.pop()
            w = self.uses.writer(q) if self.uses.again(q) else -1
            if w < 0 or self.uses.until[w] < t or len(works) > DEEPEST:
                return math.inf
            if w not in works:
                works.add(w)
                waiting += [x for x in self.uses.reads[w] if not self.there(x, t)]
        return sum(self.prices[w] for w in works)

    def there(self, p: Place, t: int) -> bool:
        """Whether a value is in memory before work t in any case, or has to stay for want of a way to make it."""
        if not self.uses.again(p):
            return True
        if t > self.uses.last(p):
            return False
        return not any(g.start < t < g.end and g in self.choices for g in self.gaps.get(p, ()))

    def reduced(self, found: Found, limit: int, real: Real) -> Found:
        """Keep after all what is not needed to fit, the dearest first."""
        most = int(found.replayed.held().max(initial=0)) * limit // max(found.nbytes, 1)
        choices, replayed = list(found.choices), found.replayed
        dear = sorted(
            [g for g in choices if g not in self.pinned], key=lambda gap: (-self.again(gap.place, gap.end), gap.start)
        )
        for gap in dear[:TRIES]:
            fewer = [g for g in choices if g != gap]
            try:
                made = Replayed(self.uses, fewer)
            except Impossible:
                continue
            if int(made.held().max(initial=0)) <= most and self.price(made) <= self.price(replayed):
                choices, replayed = fewer, made
        made_up = Found(choices, replayed, real(replayed))
        return made_up if made_up.nbytes <= limit else found

    def price(self, replayed: Replayed) -> float:
        """What a replay costs beside the works themselves."""
        return replayed.price(self.prices)
