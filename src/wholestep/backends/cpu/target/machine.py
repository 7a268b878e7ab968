"""The CPU as lowering sees it: vectors, registers, threads, LAPACK, and files for buffers that exceed memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wholestep.backends.cpu.target.argsort import SORT_EXPANSIONS
from wholestep.backends.cpu.target.blocking import (
    DEFAULT_CACHES,
    Caches,
    block_sizes,
    packs_turned,
    panel_columns,
)
from wholestep.backends.cpu.target.library_calls import LIBRARY_RULES
from wholestep.backends.cpu.target.linalg import LAPACK_EXPANSIONS
from wholestep.backends.cpu.target.prefetch_placement import place_prefetches
from wholestep.backends.cpu.target.row_streaming import is_evictable, stream_rows
from wholestep.backends.cpu.target.schedule import MOST_LANES, best_lane, schedule_kernel, worth_sharing
from wholestep.backends.cpu.target.tiles import tile_axes
from wholestep.kernel.collapse_loops import collapse_loops, join_grid
from wholestep.kernel.lang import DType, Kernel
from wholestep.lower.blocking.block_launches import BlockedContraction
from wholestep.lower.blocking.blocked_contraction import block_contraction
from wholestep.lower.blocking.contraction_nest import find_contraction
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.program.steps import Step
from wholestep.lower.target import DraftKernel, Expansion, SplitLimits, Target

REDUCTION_SPLIT = SplitLimits(elements=1 << 15, results=16, sums=1024, chunks=64, columns=4096, far=1 << 22)


@dataclass(frozen=True)
class CpuMachine(Target):
    """A processor with vectors of `vector` bytes, `registers` of them, and threads that share kernels out; `dot_bf16`
    tells whether it multiplies pairs of bfloat16 numbers."""

    name: str = "cpu"
    vector: int = 32
    row_vectors: int = 16
    split: SplitLimits | None = REDUCTION_SPLIT
    caches: Caches = DEFAULT_CACHES
    dot_bf16: bool = False

    def schedule(self, draft: DraftKernel) -> tuple[KernelWriter, Kernel]:
        return schedule_kernel(draft, self)

    def schedule_in_order(self, kernel: Kernel) -> Kernel:
        kernel = collapse_loops(kernel, MOST_LANES)
        return tile_axes(kernel, best_lane(kernel, self), self).apply(kernel)

    def block_contraction(self, kernel: Kernel, new_loop: Callable[[], int]) -> BlockedContraction | None:
        nest = find_contraction(join_grid(kernel))
        sizes = None if nest is None else block_sizes(nest, self, self.caches, self.dot_bf16)
        return None if nest is None or sizes is None else block_contraction(nest, sizes, new_loop, worth_sharing)

    def panel_columns(self, itemsize: int) -> int:
        return panel_columns(self, itemsize)

    def packs_operands(self, rows: int, columns: int, terms: int, dtype: DType, batched: bool = False) -> bool:
        return packs_turned(rows, columns, terms, dtype, batched, self)

    def portable(self) -> CpuMachine:
        return replace(self, dot_bf16=False)

    def worth_sharing(self, kernel: Kernel) -> bool:
        return worth_sharing(kernel)

    def expansions(self) -> Mapping[str, Expansion]:
        return {**LAPACK_EXPANSIONS, **SORT_EXPANSIONS, **self.functions}

    def library_rules(self) -> Mapping[str, Any]:
        return LIBRARY_RULES

    def is_evictable(self, nbytes: int) -> bool:
        return is_evictable(nbytes)

    def place_offload(
        self, steps: Sequence[Step], files: frozenset[int], rates: Rates, new_loop: Callable[[], int]
    ) -> tuple[Step, ...]:
        return stream_rows(place_prefetches(steps, rates), files, new_loop)
