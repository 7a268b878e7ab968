"""Offset assignment: pack allocations into one arena so that none that are live at the same time overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.dims import Size, blocks, most, names, per_block
from wholestep.lower.program.allocation import ALIGNMENT, Allocation
from wholestep.lower.program.live_ranges import peak_of


class LiveInterval(NamedTuple):
    """An allocation, the first and last task that accesses it, and its size."""

    place: Allocation
    start: int
    end: int
    size: Size

    @property
    def nbytes(self) -> int:
        """Its size for the assumed sizes."""
        return most(self.size)


def align_size(nbytes: int) -> int:
    """A size rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def peak_live_bytes(lives: Sequence[LiveInterval]) -> int:
    """The largest total size of simultaneously live allocations, a lower bound for any assignment."""
    return peak_of((life.start, life.end, align_size(life.nbytes)) for life in lives)[0]


def assign_offsets(lives: Sequence[LiveInterval]) -> dict[Allocation, int]:
    """An offset for each allocation: the largest allocation first, each in the smallest gap that fits it.

    Largest-first best fit for dynamic storage allocation: Sekiyama, Imai, Negishi, Kawachiya, "Profile-guided memory
    optimization for deep neural networks", 2018.
    """
    ordered = sorted(lives, key=lambda x: (-x.nbytes, x.start))
    starts, ends = np.array([x.start for x in ordered]), np.array([x.end for x in ordered])
    sizes = np.array([align_size(x.nbytes) for x in ordered], np.int64)
    offsets = np.zeros(len(ordered), np.int64)
    for n, life in enumerate(ordered):
        beside = np.flatnonzero((starts[:n] <= life.end) & (ends[:n] >= life.start))
        low, high = offsets[beside], offsets[beside] + sizes[beside]
        order = np.lexsort((high, low))
        # The start of the gap below each allocation: the largest end of the allocations below; the last gap is open.
        free = np.maximum.accumulate(np.concatenate([[0], high[order]]))
        gaps = low[order] - free[:-1]
        fitting = np.flatnonzero(gaps >= sizes[n])
        offsets[n] = free[fitting[np.argmin(gaps[fitting])]] if len(fitting) else free[-1]
    return {life.place: int(offset) for life, offset in zip(ordered, offsets, strict=True)}


def assign_symbolic_offsets(lives: Sequence[LiveInterval], start: int) -> tuple[dict[Allocation, Size], Size]:
    """Offsets from `start` on for the allocations of symbolic size, and the end of the last one.

    Allocations that depend on one name are packed for a block of it; their offsets scale with the number of blocks.
    Raises SymbolicError for a size that does not grow evenly with one name.
    """
    found: dict[Allocation, Size] = {}
    end: Size = start
    for name in sorted(frozenset().union(*[names(life.size) for life in lives])):
        own = [life for life in lives if name in names(life.size)]
        scaled = [life._replace(size=align_size(per_block(life.size, name))) for life in own]
        offsets = assign_offsets(scaled)
        for life in own:
            found[life.place] = end + offsets[life.place] * blocks(name)
        end = end + assignment_end(scaled, offsets) * blocks(name)
    return found, end


def assignment_end(lives: Sequence[LiveInterval], offsets: dict[Allocation, int]) -> int:
    """The arena size that an assignment needs."""
    return max([offsets[x.place] + align_size(x.nbytes) for x in lives], default=0)
