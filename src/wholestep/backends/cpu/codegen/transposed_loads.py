"""Strided loads whose copies are contiguous: loaded along the copies and transposed in registers."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.codegen.addresses import AccessPattern, AddressBuilder
from wholestep.backends.cpu.codegen.llvm_types import LlvmType, simd_type
from wholestep.backends.cpu.codegen.masked_memory import active_lanes, masked_load, prefetch
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes
from wholestep.backends.cpu.codegen.writer import FunctionWriter
from wholestep.kernel.lang import Axis, Index

LONG_ROW_BYTES = 2048
"""The row length in bytes from which on the hardware prefetcher follows rows; prefetching such rows in software evicts
cache lines that are in use. Measured."""
LINE_BYTES = 64
"""The bytes of a cache line."""
PART_BYTES = 16
"""The bytes of a vector's parts within which shuffles are fast."""


def transposable_axis(w: FunctionWriter, axes: VaryingAxes, index: Index, place: AccessPattern) -> Axis | None:
    """Return the axis along which copies are contiguous in memory while lanes are not, if they fill at least half a
    vector, or if the load would otherwise be taken apart in each step of a fold; None where there is no such axis."""
    if not place.lanes or abs(place.stride) < 2 or place.vectors:
        return None
    along = next((a for a in axes if a.lanes == 1 and index.coefficient(a) == 1), None)
    if along is None or any(along in term.value.axes for term in place.scalars):
        return None
    count = w.scopes[along].count
    return along if count * 2 >= place.lanes or (count > 1 and along in w.uniformity.chained) else None


def transposed_load(
    w: FunctionWriter, places: AddressBuilder, place: AccessPattern, axes: VaryingAxes, along: Axis, live: list[int]
) -> Callable[[int], str]:
    """Return a function that emits a copy; the first copy requested of a square block emits the whole block.

    The rows of a fold are separate streams through memory; where they are too short for the hardware prefetcher, the
    rows of the next lanes are prefetched. Blocks with one part of 16 bytes of each row are joined from those parts.
    """
    lanes, made, count = place.lanes, place.form, w.scopes[along].count
    following = next(a.block for a in axes if a.lanes > 1) * place.stride * made.size
    weight = w.copies(axes[axes.index(along) + 1 :])
    columns: dict[int, str] = {}

    def block(first: int) -> None:
        """The square block whose first column is this copy."""
        wide = min(lanes, count - first // weight % count)
        parts = lanes // wide if wide * made.size == PART_BYTES else 1
        on = active_lanes(w, lanes, wide, None) if parts == 1 else None
        begins_line = first // weight % count * made.size % LINE_BYTES == 0
        ahead = along in w.uniformity.chained and begins_line and place.stride * made.size < LONG_ROW_BYTES
        rows = ["zeroinitializer"] * lanes
        for row in range(live[first]):
            where = places.address(place, first, row * place.stride * made.size)
            rows[row] = masked_load(w, made, lanes if parts == 1 else wide, where, on)
            if ahead:
                prefetch(w, w.offset_pointer(where, following))
        if parts > 1:
            rows = [joined(w, made, rows[row::wide]) for row in range(wide)]
        for column, name in enumerate(transpose_block(w, made, lanes, rows)[:wide]):
            columns[first + column * weight] = name

    def column(copy: int) -> str:
        if copy not in columns:
            block(copy - (copy // weight % count % lanes) * weight)
        return columns[copy]

    return column


def joined(w: FunctionWriter, form: LlvmType, parts: list[str]) -> str:
    """Put parts of a vector together."""
    wide = PART_BYTES // form.size
    while len(parts) > 1:
        kind, both = simd_type(form.memory, wide), range(2 * wide)
        parts = [w.shuffle(kind, x, y, *both) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        wide *= 2
    return parts[0]


def transpose_block(w: FunctionWriter, form: LlvmType, lanes: int, rows: list[str]) -> list[str]:
    """Transpose a square block, or one of parts of rows side by side, in stages of shuffles of one instruction each.

    Those within the parts of 16 bytes of a vector interleave two rows, the others exchange parts.
    """
    n, inside = len(rows), min(max(PART_BYTES // form.size, 1), len(rows))
    kind = simd_type(form.memory, lanes)
    for run in [1 << i for i in range(n.bit_length() - 1)]:
        low, high = interleaved(lanes, inside, run) if run < inside else exchanged(lanes, run)
        for a in range(n):
            if not a & run:
                x, y = rows[a], rows[a + run]
                rows[a], rows[a + run] = w.shuffle(kind, x, y, *low), w.shuffle(kind, x, y, *high)
    bits = inside.bit_length() - 1
    return [rows[i - i % inside + reversed_bits(i % inside, bits)] for i in range(n)]


def interleaved(n: int, inside: int, run: int) -> tuple[list[int], list[int]]:
    """The lanes of two rows that take turns, `run` at a time: of the first and of the second half of each part.

    >>> interleaved(4, 4, 1)
    ([0, 4, 1, 5], [2, 6, 3, 7])
    """
    starts = [part + at for part in range(0, n, inside) for at in range(0, inside // 2, run)]
    low = [lane + i for at in starts for lane in (at, at + n) for i in range(run)]
    return low, [lane + inside // 2 for lane in low]


def exchanged(n: int, run: int) -> tuple[list[int], list[int]]:
    """The lanes of two rows of which every other part of `run` lanes changes places.

    >>> exchanged(4, 2)
    ([0, 1, 4, 5], [2, 3, 6, 7])
    """
    low = [n + i - run if i & run else i for i in range(n)]
    return low, [n + i if i & run else i + run for i in range(n)]


def reversed_bits(i: int, bits: int) -> int:
    """A number with so many bits in the opposite order.

    >>> reversed_bits(1, 3)
    4
    """
    return sum(((i >> k) & 1) << (bits - 1 - k) for k in range(bits))
