"""Transfers of the host's arrays to a card and back: in one block, so that one copy moves all of them, through staging
memory that the card reads asynchronously."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import Driver, HostStaging, MemoryPlace

MOST = 64 << 20
"""The most bytes of a call that go through staging memory, which is taken from all other programs of the machine."""
PART = 1 << 20
"""The bytes that the card reads at a time, while the host copies the next ones."""
ALIGNMENT = 256
"""Arrays begin at multiples of this many bytes."""


class SideBySide(NamedTuple):
    """The layout of arrays of these sizes in one block: the offset of each, and the bytes of all."""

    sizes: tuple[int, ...]
    begins: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, sizes: Sequence[int]) -> SideBySide:
        """The layout of arrays of these sizes in bytes.

        >>> SideBySide.of([5, 300, 1])
        SideBySide(sizes=(5, 300, 1), begins=(0, 256, 768), nbytes=769)
        """
        aligned = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
        begins = tuple(itertools.accumulate(aligned, initial=0))[:-1]
        return cls(tuple(sizes), begins, begins[-1] + sizes[-1] if sizes else 0)

    def parts(self, block: NDArray) -> list[NDArray]:
        """The arrays in a block of bytes."""
        return [block[begin : begin + size] for begin, size in zip(self.begins, self.sizes, strict=True)]


class BatchTransfers:
    """The transfers of a program's arguments, and the memory of the card that holds these.

    The first call uses no staging memory, which takes longer to allocate than a copy takes.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.layout = SideBySide.of(())
        self.places: list[MemoryPlace] = []
        self.staging: HostStaging | None = None
        self.calls = 0
        self.sent = False
        """True while the card may still read the staging memory."""

    def lay_out(self, sizes: Sequence[int]) -> None:
        """Allocate memory of the card for arrays of these sizes in bytes."""
        self.layout = SideBySide.of(sizes)
        block = self.driver.allocate(self.layout.nbytes)
        self.places = [MemoryPlace(block, begin) for begin in self.layout.begins]

    def send(self, arrays: Sequence[NDArray]) -> None:
        """Write bytes, u8[n] each and of the sizes that were laid out; the caller may change them afterwards."""
        self.calls += 1
        staging = self.staging_for(self.layout.nbytes)
        if staging is None:
            for place, data in zip(self.places, arrays, strict=True):
                self.driver.write(place, data)
            return
        if self.sent:  # the call before has ended in an error, or read nothing
            staging.wait()
        self.sent = True
        begin = 0
        for end in self.fill(staging.room, arrays):
            staging.send(self.places[0], begin, end)
            begin = end

    def fill(self, room: NDArray, arrays: Sequence[NDArray]) -> Iterator[int]:
        """Copy arrays to their offsets in a block; yield the end of the copied bytes after each `PART` bytes."""
        given = 0
        for at, data in zip(self.layout.begins, arrays, strict=True):
            for begin in range(0, data.size, PART):
                end = min(begin + PART, data.size)
                room[at + begin : at + end] = data[begin:end]
                if at + end - given >= PART:
                    given = at + end
                    yield given
        if given < self.layout.nbytes:
            yield self.layout.nbytes

    def staging_for(self, nbytes: int) -> HostStaging | None:
        """Staging memory for the bytes of a call; None where the call uses none."""
        if self.calls == 1 or not 0 < nbytes <= MOST:
            return None
        if self.staging is None or self.staging.room.size < nbytes:
            self.staging, self.sent = self.driver.staging(nbytes), False
        return self.staging

    def fetch(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        """Read bytes into arrays, after all earlier commands."""
        self.driver.gather(places, arrays)
        self.sent = False
