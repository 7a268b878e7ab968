"""Rematerialization prices: predicted microseconds to recompute a value, or to spill and reload it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from wholestep.lower.cost.roofline import Rates, microseconds
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RELOAD_COPY, SPILL_COPY, RoutineCall

RematKind = Literal["recompute", "spill"]
"""The way an evicted value returns: its kernel runs again, or it was spilled to a file and is reloaded."""


class RematPrices(NamedTuple):
    """The price of running each task once more; with `rates` values may also be spilled, at these speeds.

    Disk transfers are priced in full, without overlap: a system without free memory makes a program wait for the disk.
    """

    tasks: Sequence[float]
    rates: Rates | None = None
    is_evictable: Callable[[int], bool] = bool
    """The target's test of sizes that may go to a file."""

    def can_spill(self, p: Allocation) -> bool:
        """True if a value may be spilled: a small one would stay in memory with the pages around it."""
        return self.rates is not None and self.is_evictable(p.nbytes)

    def spill(self, p: Allocation) -> float:
        """The price of a spill."""
        return self.file_copy(SPILL_COPY, p)

    def reload(self, p: Allocation) -> float:
        """The price of a reload."""
        return self.file_copy(RELOAD_COPY, p)

    def file_copy(self, routine: str, p: Allocation) -> float:
        """The price of a file copy; infinite if the value may not go there."""
        if self.rates is None or not self.can_spill(p):
            return math.inf
        return microseconds(RoutineCall(routine, (), (p.nbytes,)), self.rates)
