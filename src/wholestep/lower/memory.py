"""The memory plan: every temporary value gets a place in one arena, so that no two that are alive overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.dims import Size, blocks, names, per_block
from wholestep.lower.plan import ALIGNMENT, Place


class Life(NamedTuple):
    """A place and the first and last step that touches it."""

    place: Place
    start: int
    end: int


def rounded(nbytes: int) -> int:
    """A size that keeps what follows aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def lower_bound(lives: Sequence[Life]) -> int:
    """The largest sum of what is alive at one time: no plan needs less."""
    changes: dict[int, int] = {}
    for life in lives:
        size = rounded(life.place.nbytes)
        changes[life.start] = changes.get(life.start, 0) + size
        changes[life.end + 1] = changes.get(life.end + 1, 0) - size
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def assign(lives: Sequence[Life]) -> dict[Place, int]:
    """An offset for each place, largest first, each in the lowest gap that fits it.

    Largest-first best fit for dynamic storage allocation: Sekiyama, Imai, Negishi, Kawachiya, "Profile-guided memory
    optimization for deep neural networks", 2018.
    """
    offsets: dict[Place, int] = {}
    ordered = sorted(lives, key=lambda x: (-x.place.nbytes, x.start))
    starts, ends = np.array([x.start for x in ordered]), np.array([x.end for x in ordered])
    for n, life in enumerate(ordered):
        beside = np.flatnonzero((starts[:n] <= life.end) & (ends[:n] >= life.start)).tolist()
        placed = [(offsets[ordered[i].place], ordered[i].place) for i in beside]
        busy = sorted((offset, offset + rounded(place.nbytes)) for offset, place in placed)
        size, at, best = rounded(life.place.nbytes), 0, None
        for start, stop in busy:
            if start - at >= size and (best is None or start - at < best[0]):
                best = (start - at, at)
            at = max(at, stop)
        offsets[life.place] = best[1] if best is not None else at
    return offsets


def by_blocks(lives: Sequence[Life], start: int) -> Size:
    """Give each place of symbolic size its offset behind `start`, and return where they end.

    Those that depend on one name are laid out for a block of it, and all of that grows with the number of blocks.
    Raises SymbolicError for a size that does not grow evenly with one name.
    """
    end: Size = start
    for name in sorted(frozenset().union(*[names(life.place.size) for life in lives])):
        own = [life for life in lives if name in names(life.place.size)]
        scaled = [Life(Place(rounded(per_block(life.place.size, name))), life.start, life.end) for life in own]
        offsets = assign(scaled)
        for life, one in zip(own, scaled, strict=True):
            life.place.offset = end + offsets[one.place] * blocks(name)
        end = end + top(scaled, offsets) * blocks(name)
    return end


def top(lives: Sequence[Life], offsets: dict[Place, int]) -> int:
    """The bytes that an assignment needs."""
    return max([offsets[x.place] + rounded(x.place.nbytes) for x in lives], default=0)
