"""Rebased launches: where all accesses to a buffer begin further on, the launch does, and the kernel reads from 0.

So the rounds of a loop that is written out, each of which reads another slice of one array, are one function.
"""

from __future__ import annotations

import math
from dataclasses import replace

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.dependence import ValueRanges
from wholestep.kernel.lang import Buffer, Kernel
from wholestep.kernel.schedule import replace_parts
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, Step, map_nested


def rebase_launches(plan: LoweredProgram) -> LoweredProgram:
    """The plan with the common offsets of its kernels' accesses in the references of their launches.

    k(b0, b1): b1[i] = b0[i + 512]; k(s2[0], s0[0])
    -->
    k(b0, b1): b1[i] = b0[i]; k(s2[2048], s0[0])
    """
    made: dict[Kernel, tuple[Kernel, dict[Buffer, int]]] = {}

    def launch(step: Launch) -> Launch:
        kernel = step.kernel
        if kernel not in made:
            made[kernel] = rebase_kernel(kernel)
        new, offsets = made[kernel]
        if not offsets:
            return step
        pairs = zip(step.refs, kernel.buffers, strict=True)
        refs = [ref.shifted(offsets.get(buffer, 0) * buffer.dtype.itemsize) for ref, buffer in pairs]
        return replace(step, kernel=new, refs=tuple(refs))

    def rebased(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple([launch(s) if isinstance(s, Launch) else map_nested(s, rebased) for s in steps])

    return replace(plan, steps=rebased(plan.steps))


def rebase_kernel(kernel: Kernel) -> tuple[Kernel, dict[Buffer, int]]:
    """The kernel with accesses that begin at element 0 of each buffer, and the offset subtracted for each buffer."""
    ranges: dict[Buffer, list[tuple[float, float]]] = {}
    values = ValueRanges()
    for access in memory_accesses(kernel.body):
        if access.buffer.space == "global" and isinstance(access.buffer.room, int):
            ranges.setdefault(access.buffer, []).append(values.index(access.offset))
    offsets = {buffer: min([low for low, _ in found]) for buffer, found in ranges.items()}
    whole = {buffer: int(low) for buffer, low in offsets.items() if low > 0 and math.isfinite(low)}
    if not whole:
        return kernel, {}
    buffers: dict[Buffer, Buffer] = {}
    for buffer, low in whole.items():
        end = min(buffer.size, max([high for _, high in ranges[buffer]]) + 1)
        buffers[buffer] = Buffer(buffer.name, buffer.dtype, int(end) - low, buffer.written)
    return replace_parts(kernel, {}, buffers, whole), whole
