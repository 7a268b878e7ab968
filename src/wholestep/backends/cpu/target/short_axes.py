"""Short axes: an axis whose index is divided is split, and a short last axis is unrolled, also one that is reduced, so
that vectors lie along the axis before it.

    for i in 200: y[i] = select(i % 2 == 0, x[i / 2], 0)
    -->
    for i in 100: for j in 2: y[2*i + j] = select(j == 0, x[i], 0)
    -->
    for i in 100: y[2*i] = x[i]; y[2*i + 1] = 0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.backends.cpu.target.tiles import MAX_PICK_STRIDE, MAX_SHARED_STRIDE, point_count
from wholestep.kernel.lang import Kernel
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import DraftKernel, Target

UNROLLED_POINTS = 1 << 15
"""The points from which on axes longer than the shortest are unrolled."""
MOST_SPLITS = 4
"""The most axes of a kernel that are split."""
FEWEST_STEPS = 64
"""The fewest steps of a first axis that stays first: threads share its steps."""


class WrittenKernel(NamedTuple):
    """A kernel and its writer."""

    writer: KernelWriter
    kernel: Kernel


def split_divided_axes(draft: DraftKernel, machine: Target) -> WrittenKernel:
    """Write a kernel, and again with an axis split as long as the index along one is divided."""
    writer = draft(None, None)
    written, order = WrittenKernel(writer, writer.kernel()), writer.grid
    for _ in range(MOST_SPLITS if is_map(writer) else 0):
        found = divided_axis(writer, machine)
        if found is None:
            break
        writer.split_axis(*found)
        writer = draft(None, None)
        written, order = WrittenKernel(writer, writer.kernel()), long_axis_first(writer)
    if order == writer.grid:
        return written
    writer = draft(order, None)
    return WrittenKernel(writer, writer.kernel())


def long_axis_first(writer: KernelWriter) -> list[int]:
    """The order of a grid in which the first axis, whose steps threads share, is no short one; the last axis stays."""
    *outer, last = writer.grid
    if not outer or writer.axes[outer[0]].extent >= FEWEST_STEPS:
        return writer.grid
    longest = max(outer, key=lambda a: writer.axes[a].extent)
    return [longest, *[a for a in outer if a != longest], last]


def is_map(writer: KernelWriter) -> bool:
    """True for a kernel without reductions over rows and without a contraction."""
    return not writer.rows and writer.group.kind == "map"


def divided_axis(writer: KernelWriter, machine: Target) -> tuple[int, int] | None:
    """An axis of the grid whose index is divided, and the extent of the inner part that makes quotients affine; None
    where there is none, or where the inner part is too short for a vector and too long to be unrolled."""
    axes = {writer.axes[a]: a for a in writer.grid}
    for index, n in writer.builder.divisions:
        for axis, coefficient in index.terms.items():
            inner = n // coefficient if coefficient > 0 and n % coefficient == 0 else 0
            if axis not in axes or axis.symbolic or not 1 < inner < axis.extent or axis.extent % inner:
                continue
            last = axes[axis] == writer.grid[-1]
            if not last or inner <= MAX_PICK_STRIDE or inner >= machine.lanes(4):
                return axes[axis], inner
    return None


def unroll_short_axis(
    draft: DraftKernel, written: WrittenKernel, cost: Callable[[WrittenKernel], float]
) -> WrittenKernel:
    """Write a kernel with its short row in registers unrolled, or with its short last axis, where that costs less."""
    writer = written.writer
    reduced = writer.row_lanes > 0
    grid = writer.grid if reduced else writer.grid[:-1]
    if not grid or not (reduced or is_map(writer)):
        return written
    extent = writer.group.sizes[writer.rows[0] if reduced else writer.grid[-1]]
    if not isinstance(extent, int) or extent > most_unrolled(writer):
        return written
    other = draft(grid, [] if reduced else None)
    unrolled = WrittenKernel(other, other.kernel())
    return min(written, unrolled, key=cost)


def most_unrolled(writer: KernelWriter) -> int:
    """The most elements of a row or of a last axis that are unrolled: a longer text pays in a large kernel. A row has
    at most two vectors, which are reduced in the same order as unrolled elements are: its bits stay."""
    large = point_count([*writer.axes.values()]) >= UNROLLED_POINTS
    longest = MAX_SHARED_STRIDE if large else MAX_PICK_STRIDE
    return min(longest, 2 * writer.row_lanes) if writer.row_lanes else longest
