"""Pieces: one launch over a long range as many over a part of it each, which do the very same to every element."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from wholestep.kernel.independence import reach
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Store, Var, walk
from wholestep.kernel.parse import parse
from wholestep.lower.plan import COPIES, Call, Launch, Ref, Repeat, Step
from wholestep.lower.schedule import worth_sharing
from wholestep.lower.work import Context

PIECE = 8 << 20
"""About how many bytes of files one piece touches: enough for a disk to be read in one go."""
SPARSE = 2
"""Up to how many times its own share of a buffer a piece may span."""


class Motion(NamedTuple):
    """How a kernel walks through its buffers: elements for each step along the outer axis."""

    axis: Axis
    strides: tuple[int, ...]

    def nbytes(self, kernel: Kernel, which: Collection[int]) -> int:
        """The bytes that one step along the axis takes of the buffers with these numbers."""
        return sum(self.strides[i] * kernel.buffers[i].dtype.itemsize for i in which)


def pieces(step: Launch | Call, files: Collection[int], context: Context) -> tuple[Step, ...] | None:
    """A launch or copy in pieces; None where it is short, or cannot be cut so that each touches a part of the files."""
    if any(ref.moves for ref in step.refs if ref.slot in files):
        return None
    return launch_pieces(step, files, context) if isinstance(step, Launch) else copy_pieces(step, context)


def copy_pieces(step: Call, context: Context) -> tuple[Step, ...] | None:
    """A copy of many bytes as many copies."""
    if step.routine not in COPIES or step.params[0] < 2 * PIECE:
        return None
    trips, rest = divmod(step.params[0], PIECE)
    loop = context.loop()
    body = Call(step.routine, tuple([ref.moved(loop, PIECE) for ref in step.refs]), (PIECE,), step.where)
    left = Call(step.routine, tuple([ref.shifted(trips * PIECE) for ref in step.refs]), (rest,), step.where)
    return (Repeat(loop, trips, (body,)), *[left] * bool(rest))


def launch_pieces(step: Launch, files: Collection[int], context: Context) -> tuple[Step, ...] | None:
    """A launch as a loop over equal pieces of its range, and what is left over."""
    kernel, found = step.kernel, motion(step.kernel)
    if found is None:
        return None
    axis, apart = found.axis, {ref: i for i, ref in enumerate(step.refs) if ref.slot in files}
    each = found.nbytes(kernel, apart.values()) * axis.block
    whole = axis.extent // axis.block
    count = max(chosen(whole, max(PIECE // each, 1)), 1) if each else whole
    if not each or 2 * count > whole:
        return None
    trips, extent = whole // count, count * axis.block
    part = shortened(kernel, found, extent)
    if any(part.buffers[i].size > SPARSE * found.strides[i] * extent for i in apart.values()):
        return None
    by = [s * extent * b.dtype.itemsize for s, b in zip(found.strides, kernel.buffers, strict=True)]
    loop = context.loop()
    made = Launch(
        part, tuple([r.moved(loop, n) for r, n in zip(step.refs, by, strict=True)]), worth_sharing(part), step.nodes
    )
    rest = axis.extent - trips * extent
    if not rest:
        return (Repeat(loop, trips, (made,)),)
    last = shortened(kernel, found, rest)
    refs: tuple[Ref, ...] = tuple([r.shifted(n * trips) for r, n in zip(step.refs, by, strict=True)])
    return Repeat(loop, trips, (made,)), Launch(last, refs, worth_sharing(last), step.nodes)


def chosen(whole: int, most: int) -> int:
    """Up to how many steps a piece has: a divisor of the whole, where one is not much less than the most."""
    return next((n for n in range(min(most, whole), most // 2, -1) if whole % n == 0), most)


def motion(kernel: Kernel) -> Motion | None:
    """How a kernel walks along its outer axis; None where a value knows the place, or a buffer is not walked evenly."""
    axis = kernel.outer
    if axis is None:
        return None
    strides: dict[Buffer, int] = {}
    for s in walk(kernel.body):
        if isinstance(s, Var) and (
            (s.op == "index" and s.attr.coefficient(axis)) or (s.op == "across" and s.attr[1] is axis)
        ):
            return None
    for buffer, index in accesses(kernel):
        by = index.coefficient(axis)
        if strides.setdefault(buffer, by) != by or by < 0 or (by and index.values()):
            return None
    return Motion(axis, tuple([strides.get(b, 0) for b in kernel.buffers]))


def accesses(kernel: Kernel) -> Iterator[tuple[Buffer, Index]]:
    """What each load and store of a kernel touches."""
    for s in walk(kernel.body):
        if isinstance(s, Store):
            yield s.buffer, s.index
        elif isinstance(s, Var) and s.op == "load":
            yield s.attr


def shortened(kernel: Kernel, found: Motion, extent: int) -> Kernel:
    """The same kernel with an outer axis of this extent, and buffers of the size that it then touches."""
    made = parse(str(kernel))
    axis = made.outer
    assert axis is not None
    axis.extent = extent
    last: dict[Buffer, int] = {}
    for buffer, index in accesses(made):
        if found.strides[made.buffers.index(buffer)]:
            last[buffer] = max(last.get(buffer, 0), int(reach(index)[1]))
    for buffer, at in last.items():
        buffer.resize(at + 1)
    return made
