"""Target: the device that a program is lowered for, and the decisions that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wholestep.dims import Size
from wholestep.errors import UnsupportedError
from wholestep.kernel.lang import Kernel
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.program.steps import Step

DraftKernel = Callable[[Sequence[int] | None, Sequence[int] | None], KernelWriter]
"""Draft a kernel with its independent loops, and those over its rows, in these orders; None leaves them as they are."""


@dataclass(frozen=True)
class Target:
    """A device that runs scalar loops in the order written, and the base class of all others.

    `vector` is the bytes of a vector, `registers` how many vectors there are, and `row_vectors` up to how many of them
    a row may fill to be worked on in registers.
    """

    name: str = "scalar"
    vector: int = 0
    registers: int = 16
    row_vectors: int = 0

    def lanes(self, itemsize: int) -> int:
        """The number of elements of this many bytes in one vector."""
        return max(self.vector // itemsize, 1)

    def row_lanes(self, extent: Size, itemsize: int) -> int:
        """The lanes of a row that stays in registers from its first read to its last; 0 where it does not."""
        lanes = self.lanes(itemsize)
        return lanes if isinstance(extent, int) and 0 < extent <= self.row_vectors * lanes else 0

    def schedule(self, draft: DraftKernel) -> tuple[KernelWriter, Kernel]:
        """Choose the order of a kernel's loops, and schedule them; the draft says what the kernel's buffers are."""
        found = draft(None, None)
        return found, found.kernel()

    def schedule_in_order(self, kernel: Kernel) -> Kernel:
        """Schedule a kernel whose loops stay in their order."""
        return kernel

    def worth_sharing(self, kernel: Kernel) -> bool:
        """Test whether a kernel does enough for its outermost loop to be shared among threads."""
        return False

    def library_rules(self) -> Mapping[str, Any]:
        """The rules (`OpaqueRule`) of internal operations that are calls of the target's libraries, by name."""
        return {}

    def is_evictable(self, nbytes: int) -> bool:
        """Test whether a value of this many bytes may leave memory for a file."""
        return False

    def place_offload(
        self, steps: Sequence[Step], files: frozenset[int], rates: Any, new_loop: Callable[[], int]
    ) -> tuple[Step, ...]:
        """Add to a program whose slots `files` lie in files what brings their rows to memory and lets them go."""
        if files:
            raise UnsupportedError(
                f"compile: programs for the target {self.name} keep no values in files",
                hint="leave stream= and the spilling of memory_budget out",
            )
        return tuple(steps)
