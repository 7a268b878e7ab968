"""Strided loads whose copies are contiguous: loaded along the copies and transposed in registers."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.codegen.addresses import AccessPattern, AddressBuilder
from wholestep.backends.cpu.codegen.llvm_types import simd_type
from wholestep.backends.cpu.codegen.masked_memory import active_lanes, masked_load, prefetch
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes
from wholestep.backends.cpu.codegen.writer import FunctionWriter
from wholestep.kernel.lang import Axis, Index


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

    The rows of a fold are as many streams through memory, too many or too short for the processor to foresee, so that
    the rows of the next lanes are asked for early.
    """
    lanes, made, count = place.lanes, place.form, w.scopes[along].count
    following = next(a.block for a in axes if a.lanes > 1) * place.stride * made.size
    weight = w.copies(axes[axes.index(along) + 1 :])
    columns: dict[int, str] = {}

    def block(first: int) -> None:
        """The square block whose first column is this copy."""
        wide = min(lanes, count - first // weight % count)
        on = active_lanes(w, lanes, wide, None)
        rows = ["zeroinitializer"] * lanes
        for row in range(live[first]):
            where = places.address(place, first, row * place.stride * made.size)
            rows[row] = masked_load(w, made, lanes, where, on)
            if along in w.uniformity.chained:
                prefetch(w, w.offset_pointer(where, following))
        for column, name in enumerate(transpose_block(w, simd_type(made.memory, lanes), rows)[:wide]):
            columns[first + column * weight] = name

    def column(copy: int) -> str:
        if copy not in columns:
            block(copy - (copy // weight % count % lanes) * weight)
        return columns[copy]

    return column


def transpose_block(w: FunctionWriter, kind: str, rows: list[str]) -> list[str]:
    """Transpose a square block in log2(n) stages of pairwise shuffles."""
    n, run = len(rows), len(rows) // 2
    while run:
        low = [n + i - run if i & run else i for i in range(n)]
        high = [n + i if i & run else i + run for i in range(n)]
        for a in range(n):
            if not a & run:
                x, y = rows[a], rows[a + run]
                rows[a], rows[a + run] = w.shuffle(kind, x, y, *low), w.shuffle(kind, x, y, *high)
        run //= 2
    return rows
