"""The target of graphics cards: workgroups with shared memory and barriers, and kernels in rows of work items."""

from __future__ import annotations

from dataclasses import dataclass

from wholestep.backends.gpu.share_loops import share_loops
from wholestep.kernel.lang import Kernel, Space
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.target import DraftKernel, Target


@dataclass(frozen=True)
class CardTarget(Target):
    """A card: a point of a kernel's grid is a work item, or a workgroup whose threads share the loops of the point."""

    name: str = "card"
    spaces: frozenset[Space] = frozenset({"global", "shared", "private"})
    barriers: bool = True

    def schedule(self, draft: DraftKernel) -> tuple[KernelWriter, Kernel]:
        found = draft(None, None)
        return found, share_loops(found.kernel())

    def schedule_in_order(self, kernel: Kernel) -> Kernel:
        return share_loops(kernel)


OPENCL = CardTarget("opencl")
"""Cards that OpenCL reaches."""

WEBGPU = CardTarget("webgpu", index_bits=32)
"""Cards that WebGPU reaches."""
