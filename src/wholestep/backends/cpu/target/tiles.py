"""Tiles of the CPU: the elements of each axis that a kernel computes side by side, in vectors and in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep.backends.cpu.target.blocking import register_count
from wholestep.dims import Size
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.dependence import varies_along
from wholestep.kernel.lang import Axis, Kernel, Loop, Statement, Var, loop_points, walk
from wholestep.kernel.schedule import KernelSchedule
from wholestep.lower.blocking.block_sizes import PARTIAL_SUM_BYTES
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import Target

COLUMN_VECTORS = (2, 3, 4, 5, 1)
"""Numbers of vectors side by side in a contraction, the best first."""
TILE_ROWS = {
    15: {1: 6, 2: 4, 3: 2, 4: 2, 5: 1},
    16: {1: 8, 2: 6, 3: 4, 4: 3, 5: 2},
    32: {1: 14, 2: 10, 3: 7, 4: 6, 5: 4},
}
"""The most rows of a tile, by the number of registers and of vectors. Measured."""
FOLD_TERMS = 4
"""The most terms that are unrolled."""
PRODUCT_TERMS = {15: 1, 16: 4, 32: 4}
"""The most terms of sums of products that are unrolled, by the number of registers."""

STREAMED_TERMS = 64
"""The terms from which on sums of products of one row read the other operand at the bandwidth of memory. Measured."""
SHARE_POINTS = 1 << 16
"""The least loop points of such sums for each thread: fewer take less time than waking the thread. Measured."""
ADDED_BODY = 4
"""The most operations for each term of a sum of rows that is tiled as sums of products are."""
AHEAD_ROWS, AHEAD_BYTES = 16, 8 << 20
"""The prefetch distance, in rows, of rows that are summed, and the least bytes of all of these rows: the hardware
prefetcher does not follow pieces that lie pages apart. Measured on Zen 4.
"""

TURNED_HALVES = 32
"""The bytes of vectors for which half squares are transposed as well as squares."""
SAME_SET_BYTES = 2048
"""The distance in bytes of rows that share few sets of the first cache, as rows at a multiple of it do: twice as many
rows would evict each other."""
LINE = 64
"""The bytes of a line of the caches."""
MAX_INTERLEAVED = 36
"""Maximum number of vectors whose lanes alternate in memory."""
MAX_PICK_STRIDE = 4
"""The largest stride between lanes that is loaded contiguously and shuffled, for one load by itself."""
MAX_SHARED_STRIDE = 12
"""The largest stride between lanes of several loads that share contiguous vectors."""
TILED_BODY = 1 << 12
"""The most values of a register tile's body in all of its copies: a longer epilogue gains nothing from copies, and each
of them is compiled."""
FULL_BODY = 40
"""The most statements of a body that is unrolled up to four times: two copies of a longer one fill the registers."""


def point_count(axes: Sequence[Axis]) -> int:
    """The number of points of the loops along these axes."""
    return math.prod([a.extent for a in axes])


def tile_divisor(size: Size, most: int, least: int) -> int:
    """The largest divisor of a size in [least, most], or the most where there is none; of a symbolic size that is not
    known to have one the largest power of two, as batches mostly are multiples of it."""
    fitting = [n for n in range(most, least - 1, -1) if size % n == 0]
    if fitting:
        return fitting[0]
    return min(most, size) if isinstance(size, int) else 1 << (most.bit_length() - 1)


def parallel_axes(kernel: Kernel) -> list[Axis]:
    """The axes of the independent loops, outermost first."""
    out: list[Axis] = []
    body: Sequence[Statement] = kernel.body
    while True:
        inner = [s for s in body if isinstance(s, Loop)]
        if len(inner) != 1 or inner[0].folds or inner[0].carries or inner[0].ordered:
            return out
        out.append(inner[0].axis)
        body = inner[0].body


def tile_axes(kernel: Kernel, lane: Axis | None, machine: Target) -> KernelSchedule:
    """Choose lanes and tiles, with vectors along this axis."""
    folding = [loop.axis for loop in kernel.loops if loop.folds]
    if lane is None:
        return KernelSchedule()
    lanes = preferred_lanes(kernel, lane, machine) if lane in folding else unfolded_lanes(kernel, lane, machine)
    schedule = KernelSchedule().with_axis(lane, lanes=lanes)
    vectors = -(-lane.size // lanes)
    if not folding:
        across = transposed_axis(kernel, lane, lanes)
        if across is not None:
            return schedule.with_axis(across, tile=min(lanes, across.extent) if not across.symbolic else lanes)
        most = 2 if sum(len(loop.body) for loop in kernel.loops) > FULL_BODY else 4
        return schedule.with_axis(lane, tile=tile_divisor(vectors, most, 2) if vectors > 1 else 1)
    if lane in folding:
        most = 2 if sums_products(kernel) else 4
        return schedule.with_axis(lane, tile=tile_divisor(vectors, most, 2) if vectors > 1 else 1)
    turned = turned_terms(kernel, lane, machine)
    if turned is None:
        schedule = schedule.with_axis(lane, tile=tile_columns(kernel, lane, vectors, machine))
    else:
        schedule = tile_turned(kernel, lane, turned, schedule, machine)
    schedule = tile_rows(kernel, lane, schedule, machine)
    for axis in folding:
        if axis is not turned:
            schedule = schedule.with_axis(
                axis, tile=fold_tile(kernel, axis, schedule, machine), ahead=rows_ahead(kernel, axis, lane)
            )
    return schedule


def rows_overlap(kernel: Kernel, terms: Axis, schedule: KernelSchedule) -> bool:
    """True if the rows of a tile read the same elements at different terms, as windows along a row do.

    Several terms side by side would keep these elements in registers, which many sums need.
    """
    for access in memory_accesses(kernel.body):
        step = access.offset.coefficient(terms)
        for row in parallel_axes(kernel) if step and not terms.symbolic else ():
            distance = access.offset.coefficient(row)
            if schedule[row].tile > 1 and 0 < distance < step * terms.extent and distance % step == 0:
                return True
    return False


def fold_tile(kernel: Kernel, axis: Axis, schedule: KernelSchedule, machine: Target) -> int:
    """The number of terms side by side of a fold that vectors do not lie along."""
    sums = math.prod([schedule[a].tile for a in parallel_axes(kernel)])
    if sums > register_count(machine) // 2 and rows_overlap(kernel, axis, schedule):
        return 1
    few = not axis.symbolic and axis.extent <= FOLD_TERMS
    most = PRODUCT_TERMS[register_count(machine)] if sums_products(kernel) else FOLD_TERMS
    return max(axis.extent, 1) if few else tile_divisor(axis.size, most, min(most, 2))


def rows_ahead(kernel: Kernel, terms: Axis, lane: Axis) -> int:
    """The prefetch distance, in rows, of rows from memory that are summed; 0 for rows that the caches hold."""
    if not adds_rows(kernel):
        return 0
    far = [
        a
        for a in memory_accesses(kernel.body)
        if a.offset.coefficient(lane) == 1
        and a.offset.coefficient(terms) * a.buffer.dtype.itemsize >= LINE
        and point_count(a.axes) * a.buffer.dtype.itemsize >= AHEAD_BYTES
    ]
    return AHEAD_ROWS if far else 0


def sums_products(kernel: Kernel) -> bool:
    """True if every sum of a kernel is one of products."""
    return all(fold.op == "fma" for loop in kernel.loops for fold in loop.folds)


def folds_products(kernel: Kernel) -> bool:
    """True if a kernel has sums, and every one is of products."""
    return any(loop.folds for loop in kernel.loops) and sums_products(kernel)


def adds_rows(kernel: Kernel) -> bool:
    """True if no sum of a kernel is one of products, and the work for each term is little."""
    loops = [loop for loop in kernel.loops if loop.folds]
    plain = all(fold.op != "fma" for loop in loops for fold in loop.folds)
    return plain and max([len(loop.body) for loop in loops]) <= ADDED_BODY


def contiguous_axis(access: MemoryAccess, lane: Axis, width: int) -> Axis | None:
    """The axis along which a load is contiguous that is strided along the lanes; None for other accesses."""
    if access.is_store or access.offset.coefficient(lane) in (0, 1):
        return None
    others = [a for a in access.axes if a is not lane and a.extent >= width]
    return next((a for a in others if access.offset.coefficient(a) == 1), None)


def turned_terms(kernel: Kernel, lane: Axis | None, machine: Target) -> Axis | None:
    """The terms of sums of products along which an operand is contiguous that is strided along the lanes, if all other
    accesses have a stride of 0 or 1 there: squares of the operand are transposed in registers, and sums stay chains."""
    loops = [loop for loop in kernel.loops if loop.folds]
    if lane is None or lane.extent < machine.operands.lane or not sums_products(kernel):
        return None
    lanes, terms = preferred_lanes(kernel, lane, machine), [loop.axis for loop in loops]
    found: Axis | None = None
    for a in memory_accesses(kernel.body):
        if any(varies_along(k, lane) for k in a.offset.values()):
            return None
        if a.offset.coefficient(lane) in (0, 1):
            continue
        along = contiguous_axis(a, lane, lanes)
        if along not in terms or a.conditional:
            return None
        found = along
    return found


def tile_turned(kernel: Kernel, lane: Axis, turned: Axis, schedule: KernelSchedule, machine: Target) -> KernelSchedule:
    """Choose the part of an operand that is transposed at a time: a square, or, where one row is multiplied and vectors
    have 32 bytes, a cache line, or half squares of two vectors, whose sums are independent."""
    lanes, vectors = schedule[lane].lanes, -(-lane.size // schedule[lane].lanes)
    if machine.vector != TURNED_HALVES or reused_axes(kernel, lane) or not isinstance(vectors, int):
        return schedule.with_axis(turned, tile=lanes)
    stride = max([a.offset.coefficient(lane) * a.buffer.dtype.itemsize for a in memory_accesses(kernel.body)])
    if vectors > 1 and stride >= SAME_SET_BYTES and stride % SAME_SET_BYTES:
        return schedule.with_axis(turned, tile=lanes // 2).with_axis(lane, tile=2)
    return schedule.with_axis(turned, tile=2 * lanes if turned.extent >= 2 * lanes else lanes)


def transposed_axis(kernel: Kernel, lane: Axis, lanes: int) -> Axis | None:
    """The axis that forms, with the lanes, the squares that are transposed in registers."""
    found = [contiguous_axis(a, lane, lanes) for a in memory_accesses(kernel.body)]
    return next((a for a in found if a is not None), None)


def tile_columns(kernel: Kernel, lane: Axis, vectors: Size, machine: Target) -> int:
    """The number of vectors of columns side by side."""
    products = sums_products(kernel)
    streamed = products or adds_rows(kernel)
    if isinstance(vectors, int) and vectors > 1 and streamed and not reused_axes(kernel, lane):
        most = streamed_columns(kernel, lane, vectors, machine)
        if most > 1:
            return tile_divisor(vectors, most, 2)
    if isinstance(vectors, int) and vectors > 3 and machine.registers < 32 and products:
        return 2
    return next((n for n in COLUMN_VECTORS if vectors % n == 0), 2)


def streamed_columns(kernel: Kernel, lane: Axis, vectors: int, machine: Target) -> int:
    """The most vectors of columns side by side in sums of products whose columns no other row reuses: as many as there
    are registers for, since memory is then read in long runs and no sum waits for its last product, but few enough that
    each thread has a large part of a long sum; 0 for short sums."""
    folding = [loop for loop in kernel.loops if loop.folds]
    if max([loop.axis.extent for loop in folding]) < STREAMED_TERMS:
        return 0
    most = machine.registers * 7 // 8 // max([len(loop.folds) for loop in folding])
    shares = max(min(loop_points(kernel) // SHARE_POINTS, 4), 1) if parallel_axes(kernel) == [lane] else 1
    return min(most, vectors // shares)


def reused_axes(kernel: Kernel, lane: Axis) -> list[Axis]:
    """The independent axes along which the vectors that were loaded are used again."""
    vectors = [a.offset for a in memory_accesses(kernel.body) if a.offset.coefficient(lane)]
    others = [axis for axis in parallel_axes(kernel) if axis is not lane]
    return [axis for axis in others if any(not index.coefficient(axis) for index in vectors)]


def tile_rows(kernel: Kernel, lane: Axis, schedule: KernelSchedule, machine: Target) -> KernelSchedule:
    """Tile the axes that let the vectors that were loaded be used again."""
    reused = reused_axes(kernel, lane)
    if not reused:
        return schedule
    many = machine.registers >= 32
    copies = TILED_BODY // len([s for s in walk(kernel.body) if isinstance(s, Var)])
    most = min(TILE_ROWS[register_count(machine)][schedule[lane].tile], max(copies // schedule[lane].tile, 1))
    # Registers that are left out cost more than a last tile of fewer rows does, where there are few.
    least = most // 2 if many else most - 1
    for axis in reversed(reused):
        room = most if axis.symbolic else min(most, axis.extent)
        tile = tile_divisor(axis.size, room, min(max(least, 2), room))
        if not axis.symbolic and not many:
            tile = -(-axis.extent // -(-axis.extent // tile))
        schedule = schedule.with_axis(axis, tile=tile)
        most //= tile
        if most < 2:
            break
    return schedule


def preferred_lanes(kernel: Kernel, lane: Axis, machine: Target) -> int:
    """The lanes of a vector of the widest dtype that is loaded or stored along the axis; along the terms of products as
    many on every processor, since each is a partial sum."""
    sizes = [a.buffer.dtype.itemsize for a in memory_accesses(kernel.body) if a.offset.coefficient(lane)]
    if folds_products(kernel) and lane in [loop.axis for loop in kernel.loops if loop.folds]:
        return PARTIAL_SUM_BYTES // max([4, *sizes])
    return machine.lanes(max([4, *sizes]))


def unfolded_lanes(kernel: Kernel, lane: Axis, machine: Target) -> int:
    """The lanes along an axis without a reduction.

    A row shorter than a vector has its own length as lanes if that is a power of two; else scalars where an ordered
    loop may read the row again at once, since a load stalls on a masked store to its address; else a masked vector.
    """
    lanes = preferred_lanes(kernel, lane, machine)
    if lane.symbolic or lane.extent >= lanes:
        return lanes
    if lane.extent.bit_count() == 1:
        return lane.extent
    return 1 if any(loop.ordered for loop in kernel.loops) else lanes


def schedule_row(draft: KernelWriter) -> KernelSchedule:
    """Choose the lanes of a row that stays in registers, and tile the axis around it where the row is short."""
    row = draft.axes[draft.rows[0]]
    vectors = -(-row.extent // draft.row_lanes)
    schedule = KernelSchedule().with_axis(row, lanes=draft.row_lanes, tile=vectors)
    if not draft.grid:
        return schedule
    axis = draft.axes[draft.grid[-1]]
    return schedule.with_axis(axis, tile=tile_divisor(axis.size, max(4 // vectors, 1), 1))
