"""The width of the indices of a kernel: integers of 32 bits where they count as far as it goes, for cards are fast at
those."""

from __future__ import annotations

import math

from wholestep.backends.gpu.integer_ranges import IntegerRanges
from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Store, Var, walk

SHORT = 1 << 31
"""Integers of 32 bits are below this."""
ITEMS = 256
"""A grid may be rounded up to a multiple of so many points."""


def has_short_indices(kernel: Kernel) -> bool:
    """Test whether all indices of a kernel, and all that they are added up from, fit 32 bits."""
    points = math.prod([s.axis.extent for s in walk(kernel.body) if isinstance(s, Loop) and s.independent])
    if points + ITEMS >= SHORT:
        return False
    ranges = IntegerRanges(kernel)
    for s in walk(kernel.body):
        if isinstance(s, Loop) and s.axis.extent >= SHORT:
            return False
        if isinstance(s, Store) and not is_short(s.index, s.buffer.size, ranges):
            return False
        if isinstance(s, Var) and s.index.terms:
            if not is_short(s.index, s.attr[0].size if s.op == "load" else 0, ranges):
                return False
    return True


def is_short(index: Index, size: int, ranges: IntegerRanges) -> bool:
    """Test whether an index into an array of so many elements fits, all of whose terms lie in it."""
    total = abs(index.const)
    for key, factor in index.terms.items():
        if isinstance(key, Axis):
            total += abs(factor) * max(key.extent - 1, 0)
            continue
        reach = max(map(abs, ranges.of(key)))
        if reach < SHORT - 1:
            total += abs(factor) * reach
        elif size:
            total += size
        else:
            return False
    return total < SHORT
