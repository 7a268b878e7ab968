"""Prices: what it takes to have values again that have left memory, in microseconds as the model of costs predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from wholestep.lower.cost import Rates, microseconds
from wholestep.lower.plan import BACK, OUT, Call, Place
from wholestep.lower.streaming import leaves

Kind = Literal["recompute", "spill"]
"""How a value comes back: its kernel runs again, or it was written to a file and is read."""
KINDS: tuple[Kind, ...] = ("recompute", "spill")


class Prices(NamedTuple):
    """What each work takes if it runs once more; with `rates` values may also go to a file, at these speeds.

    Writing and reading are paid in full, as if nothing else went on meanwhile: a system without memory to spare has a
    program wait for the disk.
    """

    works: Sequence[float]
    rates: Rates | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The ways in which values may come back."""
        return KINDS if self.rates is not None else KINDS[:1]

    def spills(self, p: Place) -> bool:
        """Whether a value may go to a file: a small one would stay in memory with the pages around it."""
        return self.rates is not None and leaves(p.nbytes)

    def out(self, p: Place) -> float:
        """Writing a value to a file."""
        return self.moved(OUT, p)

    def back(self, p: Place) -> float:
        """Reading it."""
        return self.moved(BACK, p)

    def moved(self, routine: str, p: Place) -> float:
        """A copy to a file or from it; it cannot be had where a value may not go there."""
        if self.rates is None or not self.spills(p):
            return math.inf
        return microseconds(Call(routine, (), (p.nbytes,)), self.rates)
