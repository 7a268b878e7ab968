"""Who touches what between two barriers: threads that run at once mean what they mean one after another, in any order,
for as long as none touches what another writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.kernel.lang import Buffer, Kernel, Store, walk

Array = np.ndarray[Any, Any]


class OrderShows(Exception):
    """Two threads touch one element between the same barriers, and one of them writes it."""


class ThreadAccesses:
    """The last thread that wrote each element of the memory that threads share, and the last that read it.

    Threads are counted on from `first`, which grows at each barrier: what was noted before lies below it. `first +
    count` is the mark of several readers.
    """

    def __init__(self, kernel: Kernel, count: int) -> None:
        self.count, self.first = count, 1
        stored = {s.buffer for s in walk(kernel.body) if isinstance(s, Store) and s.buffer.space != "private"}
        self.writers: dict[Buffer, Array] = {b: np.zeros(b.size, np.int64) for b in stored}
        self.readers: dict[Buffer, Array] = {b: np.zeros(b.size, np.int64) for b in stored}

    def meet(self) -> None:
        """Go on after a barrier."""
        self.first += self.count + 1

    def load(self, buffer: Buffer, at: Array, threads: Array) -> None:
        """Note that these threads load elements; raises OrderShows where another has written one of them."""
        own, readers = self.first + threads, self.readers[buffer]
        self.check(self.writers[buffer][at], own)
        before = readers[at]
        readers[at] = own
        readers[at[(readers[at] != own) | ((before >= self.first) & (before != own))]] = self.first + self.count

    def store(self, buffer: Buffer, at: Array, threads: Array) -> None:
        """Note that these threads store elements; raises OrderShows where another has touched one of them."""
        own, writers = self.first + threads, self.writers[buffer]
        self.check(self.readers[buffer][at], own)
        self.check(writers[at], own)
        writers[at] = own
        self.check(writers[at], own)

    def check(self, found: Array, own: Array) -> None:
        """Raise OrderShows where a thread other than these is noted."""
        if np.any((found >= self.first) & (found != own)):
            raise OrderShows
