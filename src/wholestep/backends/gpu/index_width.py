"""The width of the indices of a kernel: 32 bits where all of its indices fit, since cards compute these fast."""

from __future__ import annotations

import math

from wholestep.backends.gpu.integer_ranges import IntegerRanges
from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Store, Var, walk

SHORT = 1 << 31
"""The bound of integers of 32 bits, excluded."""
ITEMS = 256
"""The most points by which a grid may be rounded up."""


def has_short_indices(kernel: Kernel) -> bool:
    """Test whether all indices of a kernel, and the terms that they are added up from, fit 32 bits."""
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
    """Test whether an index into an array of `size` elements fits 32 bits, if each of its terms is inside the array."""
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
