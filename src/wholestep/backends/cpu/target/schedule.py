"""Schedule: the order of a kernel's loops, and how much of each is worked on side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wholestep.dims import Size
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.collapse_loops import MOST_LANES, collapse_loops
from wholestep.kernel.dependence import varies_along
from wholestep.kernel.lang import Axis, Fold, Kernel, Loop, Statement, Store, Var, axes_of, loop_points, walk
from wholestep.kernel.schedule import KernelSchedule
from wholestep.lower.cost.roofline import statements_in_loops
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import DraftKernel, Target

SHARED_POINTS = 1 << 15
"""Loop points from which on sharing a kernel among threads pays for waking them."""

COLUMN_VECTORS = (2, 3, 4, 5, 1)
"""Numbers of vectors side by side in a contraction, the best first."""
TILE_ROWS = {1: 14, 2: 10, 3: 7, 4: 6, 5: 4}
"""Up to how many rows go with so many vectors: with 32 registers, and with 16. Measured."""
TILE_ROWS_16_REGISTERS = {1: 8, 2: 5, 3: 3, 4: 3, 5: 2}

LONG_REDUCTION = 512
"""Over so many terms a panel of columns goes outermost, so that it stays in cache while the rows go by."""


FULL_BODY = 40
"""Two steps of a body of more operations than this, side by side, fill the registers."""


def worth_sharing(kernel: Kernel) -> bool:
    """Return whether a kernel does enough for several threads."""
    return kernel.outer is not None and loop_points(kernel) >= SHARED_POINTS


def kernel_loops(kernel: Kernel) -> Iterator[Loop]:
    """Every loop of a kernel, outer ones first."""
    return (s for s in walk(kernel.body) if isinstance(s, Loop))


def schedule_kernel(draft: DraftKernel, machine: Target) -> tuple[KernelWriter, Kernel]:
    """Write a kernel with its loops in the best order, and give its axes lanes and tiles."""
    found = draft(None, None)
    kernel = found.kernel()
    if found.row_lanes:
        return found, schedule_row(found).apply(kernel)
    kernel = collapse_loops(kernel)
    lane = best_lane(kernel, machine)
    if lane is None:
        found, kernel, lane = rotate_reduction(draft, found, kernel, machine)
    order = sorted(found.grid, key=lambda a: found.axes[a] is lane)
    terms = math.prod([loop.axis.extent for loop in kernel_loops(kernel) if loop.folds or loop.carries])
    if len(order) > 1 and found.axes[order[-1]] is lane and terms >= LONG_REDUCTION:
        order[-2:] = reversed(order[-2:])
    if order != found.grid:
        found = draft(order, found.rows)
        kernel = found.kernel()
        names = {a.name: a for a in axes_of(kernel)}
        lane = names.get(lane.name) if lane is not None else None
    return found, tile_axes(kernel, lane, machine).apply(kernel)


def rotate_reduction(
    draft: DraftKernel, found: KernelWriter, kernel: Kernel, machine: Target
) -> tuple[KernelWriter, Kernel, Axis | None]:
    """Write a reduction over several axes with another one innermost, the longest along which vectors pay, if any does.

    Otherwise the kernel stays as it is: a chain of scalars, which is slow, and whose rounding error grows with its
    length.
    """
    for row in sorted(found.rows[:-1], key=lambda a: -found.axes[a].extent):
        other = draft(None, [*[a for a in found.rows if a != row], row])
        turned = collapse_loops(other.kernel())
        lane = best_lane(turned, machine, arithmetic=True)
        if lane is not None:
            return other, turned, lane
    return found, kernel, None


# Which axis runs along the lanes of a vector.


def best_lane(kernel: Kernel, machine: Target, *, arithmetic: bool = False) -> Axis | None:
    """The axis along which vectors cost least; None where a scalar loop does. Arithmetic is counted only if said."""
    found = list(memory_accesses(kernel.body))
    sizes = [a.buffer.dtype.itemsize for a in found]
    width = min([machine.lanes(size) for size in sizes if size >= 4], default=machine.lanes(4))
    done = [around for s, around in statements_in_loops(kernel.body) if arithmetic and is_arithmetic(s)]
    best: Axis | None = None
    least: float = sum(map(point_count, [*[a.axes for a in found], *done]))
    turns = not any(loop.folds or loop.carries for loop in kernel_loops(kernel))
    for axis in vectorizable_axes(kernel):
        steps = -(-axis.extent // width) / axis.extent
        price = sum([access_cost(a, axis, width, turns) for a in found])
        price += sum([point_count(around) * (steps if axis in around else 1.0) for around in done])
        if price < least:
            best, least = axis, price
    return best


def vectorizable_axes(kernel: Kernel) -> list[Axis]:
    """Axes whose loops are independent or innermost folds, all of them: a row may be walked several times."""

    def in_order(loop: Loop) -> bool:
        inner = any(isinstance(s, Loop) for s in loop.body)
        return bool(loop.ordered or loop.carries or (loop.folds and inner))

    # Along an axis vectors are all full, or how many lanes of the last one are is known.
    known = [a for a in axes_of(kernel) if not a.symbolic or a.size % MOST_LANES == 0]
    found = dict.fromkeys([axis for axis in known if axis.extent > 1])
    barred = {loop.axis for loop in kernel_loops(kernel) if in_order(loop)}
    return [axis for axis in found if axis not in barred]


def point_count(axes: Sequence[Axis]) -> int:
    """The number of points of the loops along these axes."""
    return math.prod([a.extent for a in axes])


def is_arithmetic(s: Var | Store | Fold) -> bool:
    """True for a value that is computed: vectors do it for all their elements at once."""
    return isinstance(s, Var) and s.op not in ("const", "size", "index", "load")


def access_cost(a: MemoryAccess, axis: Axis, width: int, turns: bool) -> float:
    """The cost of an access with vectors along an axis: a strided one is taken apart element by element, but for loads
    that can be turned in a square of registers."""
    around = a.axes
    times = point_count(around)
    if axis not in around:
        return times
    stride = a.offset.coefficient(axis)
    indirect = any(varies_along(k, axis) for k in a.offset.values())
    each = 1.0 if stride in (0, 1) and not indirect else 1.5 if stride == -1 else 4.0 * width
    if turns and each > 2.0 and not indirect and contiguous_axis(a, axis, width) is not None:
        each = 2.0
    return times / axis.extent * -(-axis.extent // width) * each


# How many of each axis side by side.


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
    folding = [loop.axis for loop in kernel_loops(kernel) if loop.folds]
    if lane is None:
        return KernelSchedule()
    lanes = preferred_lanes(kernel, lane, machine)
    schedule = KernelSchedule().with_axis(lane, lanes=lanes)
    vectors = -(-lane.size // lanes)
    if not folding:
        across = transposed_axis(kernel, lane, lanes)
        if across is not None:
            return schedule.with_axis(across, tile=min(lanes, across.extent) if not across.symbolic else lanes)
        most = 2 if sum(len(loop.body) for loop in kernel_loops(kernel)) > FULL_BODY else 4
        return schedule.with_axis(lane, tile=tile_divisor(vectors, most, 2) if vectors > 1 else 1)
    if lane in folding:
        return schedule.with_axis(lane, tile=tile_divisor(vectors, 4, 2) if vectors > 1 else 1)
    schedule = schedule.with_axis(lane, tile=next((n for n in COLUMN_VECTORS if vectors % n == 0), 2))
    schedule = tile_rows(kernel, lane, schedule, machine)
    for axis in folding:
        few = not axis.symbolic and axis.extent <= 4
        schedule = schedule.with_axis(axis, tile=max(axis.extent, 1) if few else tile_divisor(axis.size, 4, 2))
    return schedule


def contiguous_axis(access: MemoryAccess, lane: Axis, width: int) -> Axis | None:
    """The other axis along which a load runs evenly that does not along the lanes."""
    if access.is_store or access.offset.coefficient(lane) in (0, 1):
        return None
    others = [a for a in access.axes if a is not lane and a.extent >= width]
    return next((a for a in others if access.offset.coefficient(a) == 1), None)


def transposed_axis(kernel: Kernel, lane: Axis, lanes: int) -> Axis | None:
    """The axis that goes with the lanes into squares that are turned in registers."""
    found = [contiguous_axis(a, lane, lanes) for a in memory_accesses(kernel.body)]
    return next((a for a in found if a is not None), None)


def tile_rows(kernel: Kernel, lane: Axis, schedule: KernelSchedule, machine: Target) -> KernelSchedule:
    """Tile the axes that let the vectors that were loaded be used again."""
    vectors = [a.offset for a in memory_accesses(kernel.body) if a.offset.coefficient(lane)]
    others = [axis for axis in parallel_axes(kernel) if axis is not lane]
    reused = [axis for axis in others if any(not index.coefficient(axis) for index in vectors)]
    most = (TILE_ROWS if machine.registers >= 32 else TILE_ROWS_16_REGISTERS)[schedule[lane].tile]
    for axis in reversed(reused):
        room = most if axis.symbolic else min(most, axis.extent)
        tile = tile_divisor(axis.size, room, min(max(most // 2, 2), room))
        schedule = schedule.with_axis(axis, tile=tile)
        most //= tile
        if most < 2:
            break
    return schedule


def preferred_lanes(kernel: Kernel, lane: Axis, machine: Target) -> int:
    """The lanes of a vector of the widest thing that moves along the axis."""
    sizes = [a.buffer.dtype.itemsize for a in memory_accesses(kernel.body) if a.offset.coefficient(lane)]
    return machine.lanes(max([4, *sizes]))


def schedule_row(draft: KernelWriter) -> KernelSchedule:
    """Choose the lanes of a row that stays in registers, and tile the axis around it where the row is short."""
    row = draft.axes[draft.rows[0]]
    vectors = -(-row.extent // draft.row_lanes)
    schedule = KernelSchedule().with_axis(row, lanes=draft.row_lanes, tile=vectors)
    if not draft.grid:
        return schedule
    axis = draft.axes[draft.grid[-1]]
    return schedule.with_axis(axis, tile=tile_divisor(axis.size, max(4 // vectors, 1), 1))
