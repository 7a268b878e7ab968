"""Rows of accesses: columns of an array that one kernel touches, so that kernels on other columns may stand beside it.

y[384*i + j], j below 128    -->    of each row of 1,536 bytes, those from 0 to 512
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wholestep.backends.gpu.beside_kernels import buffers_of, indices_of
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, walk

Columns = Mapping[int, tuple[int, int]]
"""By the bytes of a row: the bytes of each row that are touched, from and to before, counted from the array's start."""


def touched_columns(kernel: Kernel) -> dict[Buffer, Columns]:
    """The columns of each buffer, for all rows that its indices go through; nothing where it is touched all over."""
    indices: dict[Buffer, list[Index]] = {b: [] for b in kernel.buffers}
    for s in walk(kernel.body):
        for b in buffers_of(s):
            if b in indices:
                indices[b] += indices_of(s)
    return {b: buffer_columns(own, b.dtype.itemsize) for b, own in indices.items()}


def buffer_columns(indices: Sequence[Index], item: int) -> dict[int, tuple[int, int]]:
    """The byte ranges of columns that the indices of an array reach, by the bytes of a row; `item` is the bytes of an
    element."""
    terms = [[(key, c) for key, c in i.terms.items() if isinstance(key, Axis)] for i in indices]
    known = all(len(own) == len(i.terms) for own, i in zip(terms, indices, strict=True))
    if not known or any(axis.symbolic or c < 0 for own in terms for axis, c in own):
        return {}
    found = {}
    for row in {c for own in terms for _, c in own if c > 1}:
        ways = [sum([c * (axis.extent - 1) for axis, c in own if c % row]) for own in terms]
        low = min([i.const for i in indices])
        high = max([i.const + way + 1 for i, way in zip(indices, ways, strict=True)])
        if high - low < row:
            found[row * item] = low * item, high * item
    return found


def columns_are_apart(first: Columns, at: int, second: Columns, other: int) -> bool:
    """Test whether no byte is in the columns of both, of arrays that begin at these bytes."""
    for row in first.keys() & second.keys():
        (a, a_end), (b, b_end) = first[row], second[row]
        way = (other + b - at - a) % row
        if way >= a_end - a and row - way >= b_end - b:
            return True
    return False
