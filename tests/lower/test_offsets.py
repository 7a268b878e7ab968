"""Offsets in an arena: the largest first, each in the smallest gap that fits it, as written plainly."""

import random

import pytest

from wholestep.lower.buffers.allocate import LiveInterval, align_size, assign_offsets
from wholestep.lower.program.allocation import Allocation

SIZES = (0, 1, 64, 100, 128, 500, 1000, 4096)


def plainly(lives):
    """The offsets by a plain loop over intervals."""
    offsets = {}
    ordered = sorted(lives, key=lambda x: (-x.nbytes, x.start))
    for n, life in enumerate(ordered):
        beside = [x for x in ordered[:n] if x.start <= life.end and x.end >= life.start]
        at, best = 0, None
        for start, stop in sorted((offsets[x.place], offsets[x.place] + align_size(x.nbytes)) for x in beside):
            if start - at >= align_size(life.nbytes) and (best is None or start - at < best[0]):
                best = (start - at, at)
            at = max(at, stop)
        offsets[life.place] = at if best is None else best[1]
    return offsets


def drawn(seed):
    """Intervals, short and long, of equal and of other sizes."""
    rng = random.Random(seed)
    found = []
    for _ in range(rng.randrange(60)):
        start = rng.randrange(40)
        end = start + rng.randrange(rng.choice([2, 10, 40]))
        found.append(LiveInterval(Allocation(0), start, end, rng.choice([*SIZES, rng.randrange(9999)])))
    return found


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_offsets_are_those_of_the_plain_algorithm(first):
    for seed in range(first, first + 50):
        lives = drawn(seed)
        assert assign_offsets(lives) == plainly(lives)
