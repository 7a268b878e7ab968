"""Arrays of the host on their way to a card: by way of memory that the card reads by itself, with one copy of each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import Driver, HostStaging, MemoryPlace

MOST = 64 << 20
"""The bytes of a call that go through such memory at most: it is taken from all other programs of the machine."""
ALIGNMENT = 64
"""Arrays begin at multiples of this many bytes."""


class BatchTransfers:
    """The arrays that a program is given, call for call.

    The first call does without the memory, which takes longer to allocate than a copy takes.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.staging: HostStaging | None = None
        self.calls = 0
        self.sent = False
        """True while the card may read what was sent."""

    def send(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        """Write bytes, u8[n] each, which the caller may change afterwards."""
        self.calls += 1
        staging = self.staging_for(sum([-(-x.size // ALIGNMENT) * ALIGNMENT for x in arrays]))
        if staging is None:
            for place, data in zip(places, arrays, strict=True):
                self.driver.write(place, data)
            return
        if self.sent:  # the call before has ended in an error, or read nothing
            staging.wait()
        begins = list(itertools.accumulate([-(-x.size // ALIGNMENT) * ALIGNMENT for x in arrays], initial=0))
        parts = [staging.room[begin : begin + x.size] for begin, x in zip(begins, arrays, strict=False)]
        for part, data in zip(parts, arrays, strict=True):
            part[:] = data
        self.sent = True
        staging.send(places, parts)

    def staging_for(self, nbytes: int) -> HostStaging | None:
        """Memory for so many bytes of a call; None where they go without."""
        if self.calls == 1 or not 0 < nbytes <= MOST:
            return None
        if self.staging is None or self.staging.room.size < nbytes:
            self.staging, self.sent = self.driver.staging(nbytes), False
        return self.staging

    def fetch(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        """Read bytes once all is done."""
        self.driver.gather(places, arrays)
        self.sent = False
