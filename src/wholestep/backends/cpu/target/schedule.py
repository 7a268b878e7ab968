"""The CPU's schedule: loop order, vector lanes and register tiles of each kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wholestep.dims import Size
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.collapse_loops import collapse_loops
from wholestep.kernel.dependence import varies_along
from wholestep.kernel.lang import Axis, Fold, Kernel, Loop, Statement, Store, Var, axes_of, loop_points, walk
from wholestep.kernel.schedule import KernelSchedule
from wholestep.lower.cost.roofline import statements_in_loops, vector_instructions
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import DraftKernel, Target

SHARED_POINTS = 1 << 15
"""Loop points from which on sharing a kernel among threads pays for waking them."""
FEWEST_POINTS, SHARED_WORK, WORD = 1 << 10, 1 << 17, 4
"""Fewer loop points pay for it if there are these, and so many operations on words of so many bytes. Measured."""

MOST_LANES = 64
"""No vector has more lanes."""

COLUMN_VECTORS = (2, 3, 4, 5, 1)
"""Numbers of vectors side by side in a contraction, the best first."""
TILE_ROWS = {1: 14, 2: 10, 3: 7, 4: 6, 5: 4}
"""Up to how many rows go with so many vectors: with 32 registers, and with 16. Measured."""
TILE_ROWS_16_REGISTERS = {1: 8, 2: 6, 3: 4, 4: 3, 5: 2}

LONG_REDUCTION = 512
"""Over so many terms a panel of columns goes outermost, so that it stays in cache while the rows go by."""


STREAMED_TERMS = 64
"""Sums of so many products of one row read the other operand as fast as memory gives it. Measured."""
SHARE_POINTS = 1 << 16
"""Loop points of such sums that are worth a thread of their own: fewer take as long as waking it. Measured."""

TURNED_HALVES = 32
"""The bytes of vectors of which halves are turned as well as squares."""
SAME_SET_BYTES = 2048
"""Rows that lie a multiple of this apart share few sets of the first cache: twice as many would push each other out."""
LINE = 64
"""The bytes of a line of the caches."""
COLUMNS_FROM = 1 << 15
"""The bytes of a copy from which on the order of its axes matters: less is in the first cache whatever it is."""
FULL_BODY = 40
"""Two steps of a body of more operations than this, side by side, fill the registers."""


def worth_sharing(kernel: Kernel) -> bool:
    """Return whether a kernel does enough for several threads: by its points, or by its work where these are fewer."""
    points = loop_points(kernel) if kernel.outer is not None else 0
    if points >= SHARED_POINTS or points < FEWEST_POINTS:
        return points >= SHARED_POINTS
    return sum(vector_instructions(kernel, WORD)) >= SHARED_WORK


def kernel_loops(kernel: Kernel) -> Iterator[Loop]:
    """Every loop of a kernel, outer ones first."""
    return (s for s in walk(kernel.body) if isinstance(s, Loop))


def schedule_kernel(draft: DraftKernel, machine: Target) -> tuple[KernelWriter, Kernel]:
    """Write a kernel with its loops in the best order, and give its axes lanes and tiles."""
    found = draft(None, None)
    whole = found.kernel()
    if found.row_lanes:
        return found, schedule_row(found).apply(whole)
    kernel = collapse_loops(whole, MOST_LANES)
    lane = best_lane(kernel, machine)
    if lane is None:
        columns = column_order(whole, machine)
        if columns:
            return order_columns(draft, found, columns, machine)
        found, kernel, lane = rotate_reduction(draft, found, kernel, machine)
    order = sorted(found.grid, key=lambda a: found.axes[a] is lane)
    terms = math.prod([loop.axis.extent for loop in kernel_loops(kernel) if loop.folds or loop.carries])
    panels = terms >= LONG_REDUCTION or turned_terms(kernel, lane, machine) is not None
    if lane is not None and len(order) > 1 and found.axes[order[-1]] is lane and panels:
        if found.axes[order[-2]] in reused_axes(kernel, lane):
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
        turned = collapse_loops(other.kernel(), MOST_LANES)
        lane = best_lane(turned, machine, arithmetic=True)
        if lane is not None:
            return other, turned, lane
    return found, kernel, None


# Copies whose rows are short: kernels of convolutions, [out, in, 3, 3], that become [3, 3, in, out].


def column_order(kernel: Kernel, machine: Target) -> list[Axis]:
    """The axes of a large copy of which stores are contiguous along one, and loads in short runs along others, in the
    order in which the lines of what is read are used whole while they are in the first cache; empty for other kernels.

    The axis of the stores stands before the runs: a vector of it reads a line for each lane, which the runs use up.
    """
    axes, accesses = parallel_axes(kernel), list(memory_accesses(kernel.body))
    loads, stores = [a for a in accesses if not a.is_store], [a for a in accesses if a.is_store]
    plain = not any(a.conditional or a.offset.values() for a in accesses)
    if len(loads) != 1 or len(stores) != 1 or not plain or any(a.symbolic for a in axes):
        return []
    offset, size = loads[0].offset, loads[0].buffer.dtype.itemsize
    lane = next((a for a in axes if stores[0].offset.coefficient(a) == 1), None)
    lanes = machine.lanes(max(size, 4))
    if lane is None or loads[0].axes != tuple(axes) or lane.extent < lanes or point_count(axes) * size < COLUMNS_FROM:
        return []
    steps = {a: abs(offset.coefficient(a)) * (lanes if a is lane else 1) for a in axes}
    runs = [a for a in axes if a is not lane and 0 < steps[a] * size < LINE]
    order = sorted(axes, key=lambda a: -steps[a])
    return order if runs and all(order.index(lane) < order.index(a) for a in runs) else []


def order_columns(
    draft: DraftKernel, found: KernelWriter, columns: Sequence[Axis], machine: Target
) -> tuple[KernelWriter, Kernel]:
    """Write a copy with its axes in this order, and vectors along that of its stores."""
    names = {found.axes[a].name: a for a in found.grid}
    ordered = draft([names[a.name] for a in columns], found.rows)
    kernel = ordered.kernel()
    store = next(a for a in memory_accesses(kernel.body) if a.is_store)
    lane = next(a for a in axes_of(kernel) if store.offset.coefficient(a) == 1)
    return ordered, KernelSchedule().with_axis(lane, lanes=preferred_lanes(kernel, lane, machine)).apply(kernel)


# Which axis runs along the lanes of a vector.


def best_lane(kernel: Kernel, machine: Target, *, arithmetic: bool = False) -> Axis | None:
    """The axis along which vectors cost least; None where a scalar loop does. Arithmetic is counted only if said."""
    found = list(memory_accesses(kernel.body))
    sizes = [a.buffer.dtype.itemsize for a in found]
    width = min([machine.lanes(size) for size in sizes if size >= 4], default=machine.lanes(4))
    done = [around for s, around in statements_in_loops(kernel.body) if arithmetic and is_arithmetic(s)]
    best: Axis | None = None
    least: float = sum(map(point_count, [*[a.axes for a in found], *done]))
    axes = vectorizable_axes(kernel)
    chained = [a for a in axes if turned_terms(kernel, a, machine) is not None]
    turns = bool(chained) or not any(loop.folds or loop.carries for loop in kernel_loops(kernel))
    for axis in chained or axes:
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
    lanes = preferred_lanes(kernel, lane, machine) if lane in folding else unfolded_lanes(kernel, lane, machine)
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
    turned = turned_terms(kernel, lane, machine)
    if turned is None:
        schedule = schedule.with_axis(lane, tile=tile_columns(kernel, lane, vectors, machine))
    else:
        schedule = tile_turned(kernel, lane, turned, schedule, machine)
    schedule = tile_rows(kernel, lane, schedule, machine)
    for axis in folding:
        if axis is turned:
            continue
        few = not axis.symbolic and axis.extent <= 4
        schedule = schedule.with_axis(axis, tile=max(axis.extent, 1) if few else tile_divisor(axis.size, 4, 2))
    return schedule


def contiguous_axis(access: MemoryAccess, lane: Axis, width: int) -> Axis | None:
    """The other axis along which a load runs evenly that does not along the lanes."""
    if access.is_store or access.offset.coefficient(lane) in (0, 1):
        return None
    others = [a for a in access.axes if a is not lane and a.extent >= width]
    return next((a for a in others if access.offset.coefficient(a) == 1), None)


def turned_terms(kernel: Kernel, lane: Axis | None, machine: Target) -> Axis | None:
    """The terms of sums of products along which an operand is contiguous that is strided along an axis, all other
    accesses being even along it: squares of such an operand are turned in registers, and sums stay chains."""
    loops = [loop for loop in kernel_loops(kernel) if loop.folds]
    if lane is None or lane.extent < machine.operands.lane:
        return None
    if any(fold.op != "fma" for loop in loops for fold in loop.folds):
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
    """Choose how much of an operand is turned at a time: squares, or, where one row is multiplied and vectors have 32
    bytes, lines of cache, or halves of squares of two vectors, whose sums go on side by side."""
    lanes, vectors = schedule[lane].lanes, -(-lane.size // schedule[lane].lanes)
    if machine.vector != TURNED_HALVES or reused_axes(kernel, lane) or not isinstance(vectors, int):
        return schedule.with_axis(turned, tile=lanes)
    stride = max([a.offset.coefficient(lane) * a.buffer.dtype.itemsize for a in memory_accesses(kernel.body)])
    if vectors > 1 and stride >= SAME_SET_BYTES and stride % SAME_SET_BYTES:
        return schedule.with_axis(turned, tile=lanes // 2).with_axis(lane, tile=2)
    return schedule.with_axis(turned, tile=2 * lanes if turned.extent >= 2 * lanes else lanes)


def transposed_axis(kernel: Kernel, lane: Axis, lanes: int) -> Axis | None:
    """The axis that goes with the lanes into squares that are turned in registers."""
    found = [contiguous_axis(a, lane, lanes) for a in memory_accesses(kernel.body)]
    return next((a for a in found if a is not None), None)


def tile_columns(kernel: Kernel, lane: Axis, vectors: Size, machine: Target) -> int:
    """The number of vectors of columns side by side."""
    products = all(fold.op == "fma" for loop in kernel_loops(kernel) for fold in loop.folds)
    if isinstance(vectors, int) and vectors > 1 and products and not reused_axes(kernel, lane):
        most = streamed_columns(kernel, lane, vectors, machine)
        if most > 1:
            return tile_divisor(vectors, most, 2)
    if isinstance(vectors, int) and vectors > 3 and machine.registers < 32 and products:
        return 2
    return next((n for n in COLUMN_VECTORS if vectors % n == 0), 2)


def streamed_columns(kernel: Kernel, lane: Axis, vectors: int, machine: Target) -> int:
    """Up to how many vectors of columns go side by side in sums of products that no row uses again: as many as there
    are registers for, since memory is read in long runs then and no sum waits for its last product, and as leave each
    thread enough of a long sum; 0 for short sums."""
    folding = [loop for loop in kernel_loops(kernel) if loop.folds]
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
    most = (TILE_ROWS if many else TILE_ROWS_16_REGISTERS)[schedule[lane].tile]
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
    """The lanes of a vector of the widest thing that moves along the axis."""
    sizes = [a.buffer.dtype.itemsize for a in memory_accesses(kernel.body) if a.offset.coefficient(lane)]
    return machine.lanes(max([4, *sizes]))


def unfolded_lanes(kernel: Kernel, lane: Axis, machine: Target) -> int:
    """The lanes along an axis that nothing is summed over: a row shorter than a vector has one of its own length, or is
    scalars where an ordered loop may read it again at once, since a load waits long for what a masked store wrote."""
    lanes = preferred_lanes(kernel, lane, machine)
    if lane.symbolic or lane.extent >= lanes:
        return lanes
    if lane.extent.bit_count() == 1:
        return lane.extent
    return 1 if any(loop.ordered for loop in kernel_loops(kernel)) else lanes


def schedule_row(draft: KernelWriter) -> KernelSchedule:
    """Choose the lanes of a row that stays in registers, and tile the axis around it where the row is short."""
    row = draft.axes[draft.rows[0]]
    vectors = -(-row.extent // draft.row_lanes)
    schedule = KernelSchedule().with_axis(row, lanes=draft.row_lanes, tile=vectors)
    if not draft.grid:
        return schedule
    axis = draft.axes[draft.grid[-1]]
    return schedule.with_axis(axis, tile=tile_divisor(axis.size, max(4 // vectors, 1), 1))
