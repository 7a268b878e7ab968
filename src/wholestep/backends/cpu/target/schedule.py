"""The CPU's schedule: loop order and vector lanes of each kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wholestep.backends.cpu.target.short_axes import WrittenKernel, split_divided_axes, unroll_short_axis
from wholestep.backends.cpu.target.tiles import (
    LINE,
    MAX_INTERLEAVED,
    MAX_PICK_STRIDE,
    MAX_SHARED_STRIDE,
    contiguous_axis,
    folds_products,
    parallel_axes,
    point_count,
    preferred_lanes,
    reused_axes,
    schedule_row,
    tile_axes,
    transposed_axis,
    turned_terms,
)
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.collapse_loops import collapse_loops
from wholestep.kernel.dependence import varies_along
from wholestep.kernel.lang import Axis, Fold, Kernel, Loop, Store, Var, axes_of, loop_points
from wholestep.kernel.schedule import KernelSchedule
from wholestep.lower.cost.roofline import statements_in_loops, usual_kernel, vector_instructions
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import DraftKernel, Target

SHARED_POINTS = 1 << 15
"""Loop points from which on sharing a kernel among threads pays for waking them."""
FEWEST_POINTS, SHARED_WORK, WORD = 1 << 10, 1 << 17, 4
"""Fewer loop points pay for it from the first number on, if they do at least the second number of operations on words
of the third number of bytes. Measured."""

MOST_LANES = 64
"""The most lanes of a vector."""

LONG_REDUCTION = 512
"""The terms from which on the loop over panels of columns is outermost, so that a panel stays in cache for all rows."""
CHOICE_BYTES = 32
"""The bytes of vectors by which every processor decides whether they lie along the terms of products: with 4 columns of
float32 they do not, which is two to three times as fast also where vectors have 64 bytes. Measured."""
COLUMNS_FROM = 1 << 15
"""The bytes of a copy from which on the order of its axes matters: a smaller copy fits in the first cache."""


def worth_sharing(kernel: Kernel) -> bool:
    """Return whether a kernel does enough for several threads: by its points, or by its work where these are fewer."""
    points = loop_points(kernel) if kernel.outer is not None else 0
    if points >= SHARED_POINTS or points < FEWEST_POINTS:
        return points >= SHARED_POINTS
    return sum(vector_instructions(kernel, WORD)) >= SHARED_WORK


def schedule_kernel(draft: DraftKernel, machine: Target) -> tuple[KernelWriter, Kernel]:
    """Write a kernel with its loops in the best order, and give its axes lanes and tiles."""
    written = split_divided_axes(draft, machine)
    found, whole = unroll_short_axis(draft, written, lambda other: least_cost(other, machine))
    if found.row_lanes:
        return found, schedule_row(found).apply(whole)
    kernel = collapse_loops(whole, MOST_LANES)
    lane = best_lane(kernel, machine)
    columns = column_order(whole, machine) if lane is None or gathers_lanes(kernel, lane, machine) else []
    if columns:
        return order_columns(draft, found, columns, machine)
    if lane is None:
        found, kernel, lane = rotate_reduction(draft, found, kernel, machine)
    order = sorted(found.grid, key=lambda a: found.axes[a] is lane)
    terms = math.prod([loop.axis.extent for loop in kernel.loops if loop.folds or loop.carries])
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
        lane = best_lane(turned, machine)
        if lane is not None:
            return other, turned, lane
    return found, kernel, None


# Copies whose rows are short: kernels of convolutions, [out, in, 3, 3], that become [3, 3, in, out].


def column_order(kernel: Kernel, machine: Target) -> list[Axis]:
    """The loop order of a large copy with stores contiguous along one axis and loads in short runs along others, such
    that each loaded cache line is fully used while it is in the first cache; empty for other kernels.

    The axis of the stores comes before the runs: a vector along it reads a cache line for each lane, and the runs read
    the other elements of these lines.
    """
    axes, accesses = parallel_axes(kernel), memory_accesses(kernel.body)
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


def gathers_lanes(kernel: Kernel, lane: Axis, machine: Target) -> bool:
    """Test whether vectors along the lane are stored whole, and loaded element by element."""
    accesses = memory_accesses(kernel.body)
    strides = {a.is_store: a.offset.coefficient(lane) for a in accesses}
    apart = abs(strides.get(False, 0)) > MAX_PICK_STRIDE and strides.get(True) == 1
    return apart and transposed_axis(kernel, lane, preferred_lanes(kernel, lane, machine)) is None


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


# The axis along the lanes of a vector.


def best_lane(kernel: Kernel, machine: Target) -> Axis | None:
    """The axis along which vectors cost least; None where a scalar loop costs less.

    Vectors along the terms of products change bits, so that every processor has them for the same kernels.
    """
    if not folds_products(kernel):
        return cheapest_lane(kernel, machine, ())
    terms = [loop.axis for loop in kernel.loops if loop.folds]
    usual = cheapest_lane(kernel, replace(machine, vector=CHOICE_BYTES), ())
    return usual if usual in terms else cheapest_lane(kernel, machine, terms)


def cheapest_lane(kernel: Kernel, machine: Target, without: Sequence[Axis]) -> Axis | None:
    """The axis along which a machine's vectors cost least, but for some axes; None where a scalar loop costs less."""
    return cheapest_vectors(kernel, machine, without)[0]


def least_cost(written: WrittenKernel, machine: Target) -> float:
    """The cost of a kernel with vectors along its row in registers, or along the axis along which they cost least."""
    kernel = collapse_loops(written.kernel, MOST_LANES)
    row = written.writer.row_axis
    return VectorCosts(kernel, machine).along(row) if row is not None else cheapest_vectors(kernel, machine, ())[1]


def cheapest_vectors(kernel: Kernel, machine: Target, without: Sequence[Axis]) -> tuple[Axis | None, float]:
    """The axis along which a machine's vectors cost least, but for some axes, and the cost; None where a scalar loop
    costs less."""
    costs = VectorCosts(kernel, machine)
    best: Axis | None = None
    least = costs.scalar()
    axes = [a for a in vectorizable_axes(costs.usual) if a not in without]
    chained = [a for a in axes if turned_terms(kernel, a, machine) is not None]
    costs.turns |= bool(chained)
    for axis in chained or axes:
        price = costs.along(axis)
        if price < least:
            best, least = axis, price
    return best, least


class VectorCosts:
    """The costs of a kernel with a machine's vectors along one axis or another. Operations count as accesses do."""

    def __init__(self, kernel: Kernel, machine: Target) -> None:
        self.accesses = memory_accesses(kernel.body)
        sizes = [a.buffer.dtype.itemsize for a in self.accesses]
        self.width = min([machine.lanes(size) for size in sizes if size >= 4], default=machine.lanes(4))
        self.usual = usual_kernel(kernel)  # vectors skip a rare case that no lane has
        found = [(s, around) for s, around in statements_in_loops(self.usual.body) if is_arithmetic(s)]
        self.operations = [around for _, around in found]
        self.across = [around for s, around in found if isinstance(s, Var) and s.op == "across"]
        self.beside = {**neighbouring_stores(self.accesses), **neighbouring_loads(self.accesses)}
        self.turns = not any(loop.folds or loop.carries for loop in kernel.loops)
        """True if squares of strided elements may be transposed in registers."""

    def scalar(self) -> float:
        """The cost without vectors."""
        return sum(map(point_count, [*[a.axes for a in self.accesses], *self.operations]))

    def along(self, axis: Axis) -> float:
        """The cost with vectors along an axis; a reduction across their lanes halves them time and again."""
        steps = -(-axis.extent // self.width) / axis.extent
        price = sum([access_cost(a, axis, self.width, self.turns, self.beside) for a in self.accesses])
        price += sum([point_count(around) * (steps if axis in around else 1.0) for around in self.operations])
        halvings = 2 * math.log2(self.width)
        return price + sum([point_count(around) / axis.extent * halvings for around in self.across])


def neighbouring_stores(accesses: Sequence[MemoryAccess]) -> dict[object, int]:
    """The stores to adjacent elements that follow each other, such as those of the two parts of a complex number, each
    with the number of them."""
    runs: list[list[MemoryAccess]] = []
    for a in (a for a in accesses if a.is_store):
        last = runs[-1][-1] if runs else None
        if last is not None and a.buffer is last.buffer and a.path == last.path and a.offset == last.offset + 1:
            runs[-1].append(a)
        else:
            runs.append([a])
    return {a.source: len(run) for run in runs for a in run}


def neighbouring_loads(accesses: Sequence[MemoryAccess]) -> dict[object, int]:
    """The loads of a buffer at constant distances from each other, each with the number of them."""
    groups: dict[object, list[MemoryAccess]] = {}
    for a in accesses:
        if not a.is_store:
            groups.setdefault((a.buffer, a.path, a.offset + -a.offset.const), []).append(a)
    return {a.source: len(group) for group in groups.values() for a in group}


def vectorizable_axes(kernel: Kernel) -> list[Axis]:
    """The axes all of whose loops are independent or innermost folds; an axis may have several loops."""

    def in_order(loop: Loop) -> bool:
        inner = any(isinstance(s, Loop) for s in loop.body)
        return bool(loop.ordered or loop.carries or (loop.folds and inner))

    # All vectors along an axis are full, or the number of valid lanes of the last one is known.
    known = [a for a in axes_of(kernel) if not a.symbolic or a.size % MOST_LANES == 0]
    found = dict.fromkeys([axis for axis in known if axis.extent > 1])
    barred = {loop.axis for loop in kernel.loops if in_order(loop)}
    return [axis for axis in found if axis not in barred]


def is_arithmetic(s: Var | Store | Fold) -> bool:
    """True for a value that is computed: vectors do it for all their elements at once."""
    return isinstance(s, Var) and s.op not in ("const", "size", "index", "load")


def access_cost(a: MemoryAccess, axis: Axis, width: int, turns: bool, beside: Mapping[object, int]) -> float:
    """The cost of an access with vectors along an axis: a strided one accesses element by element, except loads that
    can be transposed in a square of registers, or shuffled out of a few vectors, their own or shared ones, and as many
    stores to neighbouring elements as their stride, such as those of the parts of complex numbers."""
    around = a.axes
    times = point_count(around)
    if axis not in around:
        return times
    stride = a.offset.coefficient(axis)
    indirect = any(varies_along(k, axis) for k in a.offset.values())
    each = 1.0 if stride in (0, 1) and not indirect else 1.5 if stride == -1 else 4.0 * width
    apart = 0 if indirect or a.conditional else abs(stride)
    if a.is_store and 1 < apart <= MAX_INTERLEAVED and beside[a.source] % apart == 0:
        each = 2.0 + math.log2(apart)  # a whole vector that was shuffled as often
    elif not a.is_store and 1 < apart <= MAX_PICK_STRIDE and beside[a.source] == 1:
        each = apart + 1.0  # whole vectors and a shuffle
    elif not a.is_store and 1 < apart <= MAX_SHARED_STRIDE and beside[a.source] > 1:
        each = apart / beside[a.source] + math.log2(apart)  # as many vectors for all that share them
    if turns and each > 2.0 and not indirect and contiguous_axis(a, axis, width) is not None:
        each = 2.0
    return times / axis.extent * -(-axis.extent // width) * each
