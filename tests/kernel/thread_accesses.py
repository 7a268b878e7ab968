"""Accesses between two barriers: threads that run at once give the results of threads in any order if none of them
accesses an element that another one writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep.kernel.lang import Buffer, Kernel, Store, walk

Array = np.ndarray[Any, Any]


class OrderShows(Exception):
    """Two threads touch one element between the same barriers, and one of them writes it."""


class ThreadAccesses:
    """The last thread that wrote each element of the memory that threads share, and the last that read it.

    Threads are counted on from `first`, which grows at each barrier: marks of earlier accesses are below it. `first +
    count` is the mark of several readers. Buffers that no thread writes are left out.
    """

    def __init__(self, kernel: Kernel, memory: Mapping[Buffer, Array], count: int) -> None:
        self.count, self.first = count, 1
        self.stored = {s.buffer for s in walk(kernel.body) if isinstance(s, Store)}
        self.writers: dict[Buffer, Array] = {}
        self.readers: dict[Buffer, Array] = {}
        self.known = all([self.note(buffers, memory) for buffers in overlapping(memory)])
        """False where buffers of different elements share bytes."""
        for b in kernel.scratch:
            if b in self.stored and b.space == "shared":
                self.writers[b], self.readers[b] = np.zeros((2, b.size), np.int64)

    def note(self, buffers: list[Buffer], memory: Mapping[Buffer, Array]) -> bool:
        """Add buffers that share bytes, if one of them is written; False where their elements differ."""
        if self.stored.isdisjoint(buffers):
            return True
        starts = [address(memory[b]) for b in buffers]
        size = buffers[0].dtype.itemsize
        if any(b.dtype.itemsize != size or (at - starts[0]) % size for b, at in zip(buffers, starts, strict=True)):
            return False
        end = max(at + memory[b].nbytes for b, at in zip(buffers, starts, strict=True))
        both = np.zeros((2, (end - starts[0]) // size), np.int64)
        for b, at in zip(buffers, starts, strict=True):
            self.writers[b], self.readers[b] = both[:, (at - starts[0]) // size :][:, : b.size]
        return True

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


def address(array: Array) -> int:
    """The address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def overlapping(memory: Mapping[Buffer, Array]) -> list[list[Buffer]]:
    """Buffers in the order in which they lie, those together that share bytes."""
    found: list[list[Buffer]] = []
    end = -1
    for b in sorted(memory, key=lambda b: address(memory[b])):
        if not found or address(memory[b]) >= end:
            found.append([])
        found[-1].append(b)
        end = max(end, address(memory[b]) + memory[b].nbytes)
    return found
