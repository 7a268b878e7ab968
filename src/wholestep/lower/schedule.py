"""Schedule: the order of a kernel's loops, and how much of each is worked on side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wholestep.dims import Size
from wholestep.kernel.build import axes_read
from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, axes_of, trips, walk
from wholestep.lower.collapse import LANES, collapsed
from wholestep.lower.target import Machine
from wholestep.lower.write import Writer, Written

WORTH = 1 << 15
"""Loop points from which on sharing a kernel among threads pays for waking them."""

BESIDE = (2, 3, 4, 5, 1)
"""Numbers of vectors side by side in a contraction, the best first."""
ROWS = {1: 14, 2: 10, 3: 7, 4: 6, 5: 4}
"""Up to how many rows go with so many vectors: with 32 registers, and with 16. Measured."""
ROWS_FEW = {1: 8, 2: 5, 3: 3, 4: 3, 5: 2}

LONG = 512
"""Over so many terms a panel of columns goes outermost, so that it stays in cache while the rows go by."""

Write = Callable[[Sequence[int] | None, Sequence[int] | None], Writer]
"""A kernel with its independent loops, and those over its rows, in these orders."""


class Access(NamedTuple):
    """A load or store: its index, the axes of the loops around it, and how often it happens."""

    store: bool
    index: Index  # type: ignore[assignment]  # an access is no sequence: nobody asks it for positions
    around: tuple[Axis, ...]
    times: int
    itemsize: int


def worth_sharing(kernel: Kernel) -> bool:
    """Whether a kernel does enough for several threads."""
    return kernel.outer is not None and trips(kernel) >= WORTH


def accesses(body: Sequence[Statement], around: tuple[Axis, ...] = ()) -> Iterator[Access]:
    """Every load and store of a body."""
    times = math.prod([a.extent for a in around])
    for s in body:
        if isinstance(s, Loop):
            yield from accesses(s.body, (*around, s.axis))
        elif isinstance(s, Store):
            yield Access(True, s.index, around, times, s.buffer.dtype.itemsize)
        elif s.op == "load":
            yield Access(False, s.attr[1], around, times, s.attr[0].dtype.itemsize)


def loops(kernel: Kernel) -> Iterator[Loop]:
    """Every loop of a kernel, outer ones first."""
    return (s for s in walk(kernel.body) if isinstance(s, Loop))


def scheduled(write: Write, machine: Machine) -> Written:
    """The kernel, written with its loops in the best order and its axes given lanes and tiles."""
    writer = write(None, None)
    made = writer.written()
    if writer.in_registers:
        side_by_side(writer, machine)
        return made
    made = made._replace(kernel=collapsed(made.kernel))
    lane = best_lane(made.kernel, machine)
    if lane is None:
        writer, made, lane = turned(write, writer, made, machine)
    order = sorted(writer.grid, key=lambda a: writer.axes[a] is lane)
    if len(order) > 1 and writer.axes[order[-1]] is lane and folded(made.kernel) >= LONG:
        order[-2:] = reversed(order[-2:])
    if order != writer.grid:
        made = write(order, writer.rows).written()
        names = {a.name: a for a in axes_of(made.kernel)}
        lane = names.get(lane.name) if lane is not None else None
    tiled(made.kernel, lane, machine)
    return made


def turned(write: Write, writer: Writer, made: Written, machine: Machine) -> tuple[Writer, Written, Axis | None]:
    """A reduction over several axes with another one innermost, the longest along which vectors pay, if there is one.

    Else it is a chain of scalars, which is slow, and as far off as it is long.
    """
    for row in sorted(writer.rows[:-1], key=lambda a: -writer.axes[a].extent):
        other = write(None, [*[a for a in writer.rows if a != row], row])
        found = other.written()
        found = found._replace(kernel=collapsed(found.kernel))
        lane = best_lane(found.kernel, machine, [*accesses(found.kernel.body), *arithmetic(found.kernel.body)])
        if lane is not None:
            return other, found, lane
    return writer, made, None


def folded(kernel: Kernel) -> int:
    """How many terms a contraction sums up."""
    return math.prod([loop.axis.extent for loop in loops(kernel) if loop.folds or loop.carries])


# Which axis runs along the lanes of a vector.


def arithmetic(body: Sequence[Statement], around: tuple[Axis, ...] = ()) -> Iterator[Access]:
    """What else a body does, as accesses to one place: vectors do it for all their elements at once."""
    times = math.prod([a.extent for a in around])
    for s in body:
        if isinstance(s, Loop):
            yield from arithmetic(s.body, (*around, s.axis))
        elif isinstance(s, Var) and s.op not in ("const", "size", "index", "load"):
            yield Access(False, Index(), around, times, 0)


def best_lane(kernel: Kernel, machine: Machine, counted: Sequence[Access] = ()) -> Axis | None:
    """The axis along which vectors cost least; None where a scalar loop does. Only accesses are counted unless said."""
    found = counted or list(accesses(kernel.body))
    width = min([machine.lanes_of(a.itemsize) for a in found if a.itemsize >= 4], default=machine.lanes_of(4))
    best, least = None, plain_cost(found)
    turns = not any(loop.folds or loop.carries for loop in loops(kernel))
    for axis in candidates(kernel):
        price = cost(found, axis, width, turns)
        if price < least:
            best, least = axis, price
    return best


def candidates(kernel: Kernel) -> list[Axis]:
    """Axes whose loops are independent or innermost folds, all of them: a row may be walked several times."""

    def in_order(loop: Loop) -> bool:
        inner = any(isinstance(s, Loop) for s in loop.body)
        return bool(loop.ordered or loop.carries or (loop.folds and inner))

    found = {loop.axis: None for loop in loops(kernel) if loop.axis.extent > 1 and even(loop.axis)}
    barred = {loop.axis for loop in loops(kernel) if in_order(loop)}
    return [axis for axis in found if axis not in barred]


def even(axis: Axis) -> bool:
    """Whether vectors along an axis are all full, or how many lanes of the last one are is known."""
    return not axis.symbolic or axis.size % LANES == 0


def plain_cost(found: Sequence[Access]) -> float:
    """What the accesses cost one by one."""
    return float(sum(a.times for a in found))


def cost(found: Sequence[Access], axis: Axis, width: int, turns: bool) -> float:
    """What the accesses cost with vectors along an axis: strided ones are taken apart element by element, but for loads
    that can be turned in a square of registers."""
    steps = -(-axis.extent // width)
    total = 0.0
    for a in found:
        if axis not in a.around:
            total += a.times
            continue
        stride = a.index.coefficient(axis)
        indirect = any(varies(k, axis) for k in a.index.values())
        each = 1.0 if stride in (0, 1) and not indirect else 1.5 if stride == -1 else 4.0 * width
        if turns and each > 2.0 and not indirect and even_axis(a, axis, width) is not None:
            each = 2.0
        total += a.times / axis.extent * steps * each
    return total


def varies(value: Var, axis: Axis) -> bool:
    """Whether a value may differ from lane to lane along an axis."""
    stack, seen = [value], {value}
    while stack:
        here = stack.pop()
        if here.op in ("fold", "carry", "carried") or axis in axes_read(here):
            return True
        fresh = [v for v in here.reads() if v not in seen]
        seen.update(fresh)
        stack += fresh
    return False


# How many of each axis side by side.


def divisor(size: Size, most: int, least: int) -> int:
    """The largest divisor of a size in [least, most], or the most where there is none; of a symbolic size that is not
    known to have one the largest power of two, as batches mostly are multiples of it."""
    fitting = [n for n in range(most, least - 1, -1) if size % n == 0]
    if fitting:
        return fitting[0]
    return min(most, size) if isinstance(size, int) else 1 << (most.bit_length() - 1)


def grid_of(kernel: Kernel) -> list[Axis]:
    """The axes of the independent loops, outermost first."""
    out: list[Axis] = []
    body: Sequence[Statement] = kernel.body
    while True:
        inner = [s for s in body if isinstance(s, Loop)]
        if len(inner) != 1 or inner[0].folds or inner[0].carries or inner[0].ordered:
            return out
        out.append(inner[0].axis)
        body = inner[0].body


def as_written(made: Written, machine: Machine) -> Written:
    """A kernel whose loops stay in their order, with lanes and tiles."""
    made = made._replace(kernel=collapsed(made.kernel))
    tiled(made.kernel, best_lane(made.kernel, machine), machine)
    return made


def tiled(kernel: Kernel, lane: Axis | None, machine: Machine) -> None:
    """Give the axes their lanes and tiles."""
    folding = [loop.axis for loop in loops(kernel) if loop.folds]
    if lane is None:
        return
    lane.lanes = width_of(kernel, lane, machine)
    vectors = -(-lane.size // lane.lanes)
    if not folding:
        across = transposed_axis(kernel, lane)
        if across is not None:
            across.tile = min(lane.lanes, across.extent) if not across.symbolic else lane.lanes
            return
        lane.tile = divisor(vectors, 2 if heavy(kernel) else 4, 2) if vectors > 1 else 1
        return
    if lane in folding:
        lane.tile = divisor(vectors, 4, 2) if vectors > 1 else 1
        return
    lane.tile = next((n for n in BESIDE if vectors % n == 0), 2)
    tile_rows(kernel, lane, machine)
    for axis in folding:
        few = not axis.symbolic and axis.extent <= 4
        axis.tile = max(axis.extent, 1) if few else divisor(axis.size, 4, 2)


def even_axis(access: Access, lane: Axis, width: int) -> Axis | None:
    """The other axis along which a load runs evenly that does not along the lanes."""
    if access.store or access.index.coefficient(lane) in (0, 1):
        return None
    fitting = [a for a in access.around if a is not lane and access.index.coefficient(a) == 1 and a.extent >= width]
    return fitting[0] if fitting else None


def transposed_axis(kernel: Kernel, lane: Axis) -> Axis | None:
    """The axis that goes with the lanes into squares that are turned in registers."""
    found = [even_axis(a, lane, lane.lanes) for a in accesses(kernel.body)]
    return next((a for a in found if a is not None), None)


def tile_rows(kernel: Kernel, lane: Axis, machine: Machine) -> None:
    """Tile the axis that lets the vectors that were loaded be used again."""
    reused = [a for a in grid_of(kernel) if a is not lane and reuses(kernel, lane, a)]
    if not reused:
        return
    most = ROWS[lane.tile] if machine.registers >= 32 else ROWS_FEW[lane.tile]
    for axis in reversed(reused):
        room = most if axis.symbolic else min(most, axis.extent)
        axis.tile = divisor(axis.size, room, min(max(most // 2, 2), room))
        most //= axis.tile
        if most < 2:
            break


def reuses(kernel: Kernel, lane: Axis, axis: Axis) -> bool:
    """Whether some vector that is loaded inside both loops is the same for each step of an axis."""
    return any(a.index.coefficient(lane) and not a.index.coefficient(axis) for a in accesses(kernel.body))


def width_of(kernel: Kernel, lane: Axis, machine: Machine) -> int:
    """The lanes of a vector of the widest thing that moves along the axis."""
    sizes = [a.itemsize for a in accesses(kernel.body) if a.index.coefficient(lane)]
    return machine.lanes_of(max([4, *sizes]))


def heavy(kernel: Kernel) -> bool:
    """Whether a body has so many operations that two of them side by side fill the registers."""
    return sum(len(loop.body) for loop in loops(kernel)) > 40


def side_by_side(writer: Writer, machine: Machine) -> None:
    """Rows that are short are worked on several at a time."""
    row = writer.axes[writer.rows[0]]
    if writer.grid:
        axis = writer.axes[writer.grid[-1]]
        axis.tile = divisor(axis.size, max(4 // row.tile, 1), 1)
