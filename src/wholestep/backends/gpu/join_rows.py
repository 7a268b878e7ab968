"""Kernels joined row by row: the workgroup of a row of one kernel also runs that row of the kernels that read it.

for i in 256: y[i] = dot(x[i], w)        for i in 256: for j in 64: z[i, j] = y[i] * v[j]
-->
for i in 256: (y[i] = dot(x[i], w); for j in 64: z[i, j] = y[i] * v[j])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.backends.gpu.join_kernels import KERNELS, LAUNCH, SmallKernel, joined_kernel
from wholestep.backends.gpu.share_loops import THREADS
from wholestep.kernel.lang import Axis, Buffer, Kernel, Loop, walk
from wholestep.kernel.schedule import replace_parts
from wholestep.kernel.verify import is_verified
from wholestep.kernel.workgroups import find_workgroup, item_trips
from wholestep.lower.program.steps import MemRef


class PlacedKernel(NamedTuple):
    """A kernel and the places of its buffers."""

    kernel: Kernel
    refs: tuple[MemRef, ...]


def joined_rows(kernels: Sequence[PlacedKernel]) -> PlacedKernel | None:
    """One kernel that runs each row of the first of these, a point of its grid, and then that row of the others, with
    one buffer for each place. It has the workgroups of the first kernel, or work items where the first has none.

    None where a row is not verified to read only its own row of the earlier kernels, or where a kernel's row takes
    longer than a launch.
    """
    first = find_workgroup(kernels[0].kernel)
    extents = [a.extent for a in first.grid]
    found = [row_kernel(k.kernel, extents, bool(first.threads)) for k in kernels]
    small = [one for one in found if one is not None]
    if len(small) < len(found) or len(small) > KERNELS or not extents:
        return None
    made = joined_kernel(small, new_rows(extents), bool(first.threads))
    refs = [ref for k in kernels for ref in k.refs]
    written = {ref for ref, b in zip(refs, made.buffers, strict=True) if b.written}
    held: dict[tuple[MemRef, object, object], Buffer] = {}
    new: dict[Buffer, Buffer] = {}
    for ref, b in zip(refs, made.buffers, strict=True):
        new[b] = held.setdefault((ref, b.dtype, b.room), Buffer(b.name, b.dtype, b.room, ref in written))
    if any(ref in written for ref, n in Counter([ref for ref, *_ in held]).items() if n > 1):  # as of two kinds
        return None
    joined = replace_parts(made, {}, new)
    joined = Kernel(made.name, tuple(held.values()), joined.body, joined.scratch)
    return PlacedKernel(joined, tuple([ref for ref, *_ in held])) if is_verified(joined) else None


def new_rows(extents: Sequence[int]) -> list[Axis]:
    """Axes of the rows of a joined kernel."""
    return [Axis(f"i{n}", extent) for n, extent in enumerate(extents)]


def row_kernel(kernel: Kernel, extents: Sequence[int], threads: bool) -> SmallKernel | None:
    """The kernel with the axis whose steps the `threads` of a row share. None where its grid does not begin with axes
    of these extents, or where a work item takes longer than a launch more than one of the kernel by itself."""
    group = find_workgroup(kernel)
    symbolic = any(s.axis.symbolic for s in walk(kernel.body) if isinstance(s, Loop))
    if symbolic or [a.extent for a in group.grid[: len(extents)]] != list(extents):
        return None
    if [a.extent for a in group.threads] not in ([], [THREADS] if threads else []):
        return None
    inner = group.grid[len(extents) :]
    spread = max(inner, key=lambda a: a.extent, default=None) if threads and not group.threads else None
    alone = trips = item_trips(kernel)
    for axis in inner[::-1]:
        trips = (1 + trips) * (-(-axis.extent // THREADS) if axis is spread else axis.extent)
    return SmallKernel(kernel, spread, trips) if trips <= alone + LAUNCH else None
