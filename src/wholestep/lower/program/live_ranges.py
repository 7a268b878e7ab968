"""Live ranges: which bytes of the arena hold which value, over time, and the peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def peak_of(spans: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """The most bytes that are live at once, and the first moment at which they are, of (start, end, bytes)."""
    changes: dict[int, int] = {}
    for start, end, nbytes in spans:
        changes[start] = changes.get(start, 0) + nbytes
        changes[end + 1] = changes.get(end + 1, 0) - nbytes
    most = now = moment = 0
    for at in sorted(changes):
        now += changes[at]
        if now > most:
            most, moment = now, at
    return most, moment


def peak_moment(held: Sequence[LiveRange]) -> int:
    """The first moment at which the most bytes are live."""
    return peak_of((h.start, h.end, h.nbytes) for h in held)[1]


def live_at_peak(held: Sequence[LiveRange]) -> list[LiveRange]:
    """The values that are live at the peak, the largest first."""
    moment = peak_moment(held)
    return sorted([h for h in held if h.start <= moment <= h.end], key=lambda h: (-h.nbytes, h.offset))


def total_bytes(held: Sequence[LiveRange]) -> int:
    """The bytes of all of them."""
    return sum(h.nbytes for h in held)
