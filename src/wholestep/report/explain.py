"""Explanation of a plan: the cost of each kernel and the operations fused into it, on one line each."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep.dims import Size, most, spelled_out
from wholestep.errors import show
from wholestep.kernel.lang import Kernel, axes_of
from wholestep.lower.cost.roofline import count_kernel, steps_with_counts
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch


def describe_loops(kernel: Kernel) -> str:
    """The loops of a kernel: extents, with vectors and tiles."""
    words = []
    for axis in axes_of(kernel):
        vector = f" by {axis.lanes}" if axis.lanes > 1 else ""
        words.append(f"{axis.size}{vector}{f' x{axis.tile}' if axis.tile > 1 else ''}")
    return ", ".join(words) or "one point"


def report_lines(plan: LoweredProgram) -> Iterator[str]:
    """The report, line by line."""
    launches = [(step, n) for step, n in steps_with_counts(plan.steps) if isinstance(step, Launch)]
    work = [count_kernel(launch.kernel) for launch, _ in launches]
    flops = sum(c.flops * n for c, (_, n) in zip(work, launches, strict=True))
    moved = sum(c.moved * n for c, (_, n) in zip(work, launches, strict=True))
    yield f"kernels     {len(plan.kernels())} in {len(launches)} launches, {work_and_traffic(flops, moved)} moved"
    share = most(plan.arena) / plan.bound if plan.bound else 1.0
    yield f"arena       {spelled_out(plan.arena)} bytes, {share:.2f} times the least that these kernels need"
    if plan.file:
        yield f"file        {plan.file:,} bytes of scratch"
    for note in plan.notes:
        yield f"  {note}"
    for left in plan.skipped_rewrites:
        yield f"  {left}"
    for decision in plan.decisions:
        yield f"  {str(decision).strip()}"
    for (launch, n), c in zip(launches, work, strict=True):
        names = [node.op.name for node in launch.nodes]
        fused = ", ".join([f"{k} {names.count(k)}" if names.count(k) > 1 else k for k in dict.fromkeys(names)])
        threads = ", shared" if launch.parallel else ""
        often = f" x{n}" if n != 1 else ""
        yield f"  {launch.kernel.name or 'kernel'}{often}: {work_and_traffic(c.flops, c.moved)}{threads}"
        yield f"    loops {describe_loops(launch.kernel)}"
        if fused:
            yield f"    fuses {fused}"
        where = next((node.where for node in launch.nodes if node.where is not None), None)
        if where is not None:
            yield f"    from  {show(where)}"


def work_and_traffic(flops: Size, moved: Size) -> str:
    """Arithmetic and bytes in words."""
    return f"{spelled_out(flops)} flops, {spelled_out(moved)} bytes"
