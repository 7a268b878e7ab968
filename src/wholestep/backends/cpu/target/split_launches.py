"""Split launches: a launch over a long range becomes a loop of launches over parts of it, to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from wholestep.backends.cpu.target.schedule import worth_sharing
from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.dependence import ValueRanges
from wholestep.kernel.lang import Axis, Buffer, Kernel, Var, walk
from wholestep.kernel.schedule import replace_parts
from wholestep.lower.program.steps import COPY_ROUTINES, ForLoop, Launch, MemRef, RoutineCall, Step

PIECE_BYTES = 8 << 20
"""The approximate number of bytes of files that one piece touches: enough for sequential reads of a disk."""
MOST_SPREAD = 2
"""The most bytes of a buffer that a piece may span, as a multiple of the piece's own share of the buffer."""


class OuterMotion(NamedTuple):
    """The strides of a kernel's buffers along its outer axis, in elements."""

    axis: Axis
    strides: tuple[int, ...]

    def nbytes(self, kernel: Kernel, which: Collection[int]) -> int:
        """The bytes that one step along the axis takes of the buffers with these numbers."""
        return sum(self.strides[i] * kernel.buffers[i].dtype.itemsize for i in which)


def split_step(
    step: Launch | RoutineCall, files: Collection[int], new_loop: Callable[[], int]
) -> tuple[Step, ...] | None:
    """A launch or copy in pieces; None where it is short, or where no cut lets each piece touch a part of the files."""
    if any(ref.moves for ref in step.refs if ref.slot in files):
        return None
    return split_launch(step, files, new_loop) if isinstance(step, Launch) else split_copy(step, new_loop)


def split_copy(step: RoutineCall, new_loop: Callable[[], int]) -> tuple[Step, ...] | None:
    """A copy of many bytes as many copies."""
    if step.routine not in COPY_ROUTINES or step.params[0] < 2 * PIECE_BYTES:
        return None
    trips, rest = divmod(step.params[0], PIECE_BYTES)
    loop = new_loop()
    body = RoutineCall(
        step.routine, tuple([ref.moved(loop, PIECE_BYTES) for ref in step.refs]), (PIECE_BYTES,), step.where
    )
    left = RoutineCall(
        step.routine, tuple([ref.shifted(trips * PIECE_BYTES) for ref in step.refs]), (rest,), step.where
    )
    return (ForLoop(loop, trips, (body,)), *[left] * bool(rest))


def split_launch(step: Launch, files: Collection[int], new_loop: Callable[[], int]) -> tuple[Step, ...] | None:
    """A launch as a loop over equal pieces of its range, and a launch over the remainder."""
    kernel, found = step.kernel, outer_motion(step.kernel)
    if found is None:
        return None
    axis, apart = found.axis, {ref: i for i, ref in enumerate(step.refs) if ref.slot in files}
    each = found.nbytes(kernel, apart.values()) * axis.block
    whole = axis.extent // axis.block
    if not each:
        return None
    # A divisor of the whole, where one is not much less than the most.
    most = max(PIECE_BYTES // each, 1)
    count = next((n for n in range(min(most, whole), most // 2, -1) if whole % n == 0), most)
    if 2 * count > whole:
        return None
    trips, extent = whole // count, count * axis.block
    part = truncate_kernel(kernel, found, extent)
    if any(part.buffers[i].size > MOST_SPREAD * found.strides[i] * extent for i in apart.values()):
        return None
    by = [s * extent * b.dtype.itemsize for s, b in zip(found.strides, kernel.buffers, strict=True)]
    loop = new_loop()
    made = Launch(
        part, tuple([r.moved(loop, n) for r, n in zip(step.refs, by, strict=True)]), worth_sharing(part), step.nodes
    )
    rest = axis.extent - trips * extent
    if not rest:
        return (ForLoop(loop, trips, (made,)),)
    last = truncate_kernel(kernel, found, rest)
    refs: tuple[MemRef, ...] = tuple([r.shifted(n * trips) for r, n in zip(step.refs, by, strict=True)])
    return ForLoop(loop, trips, (made,)), Launch(last, refs, worth_sharing(last), step.nodes)


def outer_motion(kernel: Kernel) -> OuterMotion | None:
    """The strides of a kernel along its outer axis; None where a value depends on the index, or a stride is not
    constant.
    """
    axis = kernel.outer
    if axis is None:
        return None
    strides: dict[Buffer, int] = {}
    for s in walk(kernel.body):
        if isinstance(s, Var) and (
            (s.op == "index" and s.attr.coefficient(axis)) or (s.op == "across" and s.attr[1] is axis)
        ):
            return None
    for access in memory_accesses(kernel.body):
        by = access.offset.coefficient(axis)
        if strides.setdefault(access.buffer, by) != by or by < 0 or (by and access.offset.values()):
            return None
    return OuterMotion(axis, tuple([strides.get(b, 0) for b in kernel.buffers]))


def truncate_kernel(kernel: Kernel, found: OuterMotion, extent: int) -> Kernel:
    """The kernel with an outer axis of this extent, and with buffers that end at its last access."""
    axis = found.axis
    shorter = replace_parts(kernel, {axis: Axis(axis.name, extent, lanes=axis.lanes, tile=axis.tile, ahead=axis.ahead)})
    last: dict[Buffer, int] = {}
    values = ValueRanges()
    for access in memory_accesses(shorter.body):
        if found.strides[shorter.buffers.index(access.buffer)]:
            last[access.buffer] = max(last.get(access.buffer, 0), int(values.index(access.offset)[1]))
    return replace_parts(shorter, {}, {b: Buffer(b.name, b.dtype, at + 1, b.written) for b, at in last.items()})
