"""Live ranges: which bytes of the arena hold which value, over time, and the peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.errors import Where, show


class LiveRange(NamedTuple):
    """Bytes of the arena from one moment to another, both included; a moment is the run of one kernel or routine."""

    offset: int
    nbytes: int
    start: int
    end: int
    what: str
    where: Where

    @property
    def operation(self) -> str:
        """The name of the operation that defines the value."""
        return self.what.split()[0]

    def __str__(self) -> str:
        line = f"  {show(self.where)}" if self.where is not None else ""
        return f"{self.nbytes:>15,} bytes at {self.offset:<12,} {self.what}{line}"


def peak_moment(held: Sequence[LiveRange]) -> int:
    """The first moment at which the most bytes are live."""
    changes: dict[int, int] = {}
    for h in held:
        changes[h.start] = changes.get(h.start, 0) + h.nbytes
        changes[h.end + 1] = changes.get(h.end + 1, 0) - h.nbytes
    most = now = moment = 0
    for at in sorted(changes):
        now += changes[at]
        if now > most:
            most, moment = now, at
    return moment


def live_at_peak(held: Sequence[LiveRange]) -> list[LiveRange]:
    """The values that are live at the peak, the largest first."""
    moment = peak_moment(held)
    return sorted([h for h in held if h.start <= moment <= h.end], key=lambda h: (-h.nbytes, h.offset))


def total_bytes(held: Sequence[LiveRange]) -> int:
    """The bytes of all of them."""
    return sum(h.nbytes for h in held)
