"""Target: the device that a program is lowered for, and the decisions that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wholestep.dims import Size
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Value
from wholestep.kernel.lang import DType, Kernel, Space
from wholestep.kernel.workgroups import has_barrier
from wholestep.lower.blocking.block_launches import BlockedContraction
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.program.steps import Step

Expansion = Callable[..., Sequence[Value] | None]
"""(operands, **params) -> the results of operations that replace a node; None where it stays."""

DraftKernel = Callable[[Sequence[int] | None, Sequence[int] | None], KernelWriter]
"""Draft a kernel with its independent loops, and those over its rows, in these orders; None leaves them as they are."""


class SplitLimits(NamedTuple):
    """The limits of reductions in two stages: of at least `elements` elements to fewer than `results` results, or to
    fewer than `sums` for sums of products; threads can share more results. An axis is cut into at most `chunks`. Rows
    of up to `columns` elements, `far` elements in all, are summed in two stages too, so that memory is read in whole
    rows.

    Where `terms` are given, each result has at least `elements`; all results together have at most `chunks` parts, of
    about `terms` terms or more, which are contiguous, and a product has at least `products` terms for each result, and
    `terms` times as many parts. Else the axes are reduced one after the other, the last first.
    """

    elements: int
    results: int
    sums: int
    chunks: int
    terms: int = 0
    products: int = 0
    columns: int = 0
    far: int = 0


class OperandLimits(NamedTuple):
    """The limits of the memory order of contractions' operands.

    Elements are contiguous along the last axis of the result where that has at least `lane` of them. An operand that up
    to `rows` rows read is read in place if its terms are contiguous and at least `terms` in number: kernels transpose
    squares of it in registers.
    """

    lane: int = 4
    rows: int = 15
    terms: int = 16


DEFAULT_OPERANDS = OperandLimits()


class LookLimits(NamedTuple):
    """The limits of scatters, sorts and running sums of integers in which each element of a result reads all elements
    that it may depend on, so that no element waits for another: at most `line` in one loop, and at most `total` in all.

    Of other scatters, those with up to `few` updates apply them in order; more updates are sorted first.
    """

    line: int
    total: int
    few: int

    def allow(self, line: Size, results: Size) -> bool:
        """Test whether each of `results` results may read a line of `line` elements."""
        return isinstance(line * results, int) and line <= self.line and line * results <= self.total


class AttentionLimits(NamedTuple):
    """The blocks of attention: a step takes as many leading axes as have up to `scores` scores, and a block has at
    least `block` queries and keys.

    With `narrow`, the operands of products keep the dtype of attention's operands, as matrix units require; otherwise
    they have the dtype of the arithmetic.
    """

    scores: int = 1 << 18
    block: int = 0
    narrow: bool = False


CORE_ATTENTION = AttentionLimits()
"""Scores of 1 MiB of float32, of which each core has its share in its second cache."""


class ReuseLimits(NamedTuple):
    """The limits of memory reuse: values of up to `unshared` bytes share memory with no other value, and values at one
    address are at least `apart` tasks apart, since a write to reused memory waits for the last read of the old value.
    """

    unshared: int = 0
    apart: int = 1


FREE_REUSE = ReuseLimits()


@dataclass(frozen=True)
class Target:
    """A device that runs scalar loops in the order written, and the base class of all others.

    `vector` is the bytes of a vector, `registers` the number of vector registers, and `row_vectors` the most of them
    that a row may fill to stay in registers. `spaces` are the memory spaces of its kernels, `barriers` tells whether
    the threads of a workgroup can wait for each other, `launches_beside` whether independent kernels run concurrently,
    and `reuse` limits the sharing of memory for that. `index_bits` is the width of the integers that indices are
    computed in, `doubles` tells whether the device has float64, and `split` limits the reductions in two stages, the
    first of which threads share. `operands` limits the memory order of contractions' operands, `attention` the blocks
    of attention, `rates` are assumed where none are measured, and `functions` are the operations that are expanded into
    formulas, since the device has no library for them.
    """

    name: str = "scalar"
    vector: int = 0
    registers: int = 16
    row_vectors: int = 0
    spaces: frozenset[Space] = frozenset({"global"})
    barriers: bool = False
    launches_beside: bool = False
    reuse: ReuseLimits = FREE_REUSE
    index_bits: int = 64
    doubles: bool = True
    split: SplitLimits | None = None
    looks: LookLimits | None = None
    operands: OperandLimits = DEFAULT_OPERANDS
    attention: AttentionLimits = CORE_ATTENTION
    rates: Rates = DEFAULT_RATES
    functions: Mapping[str, Expansion] = field(default_factory=dict, hash=False)

    def check_kernel(self, kernel: Kernel) -> None:
        """Raise UnsupportedError for a kernel that uses memory spaces, barriers or sizes that the device lacks."""
        missing = [f"{b.space} memory, {b}" for b in kernel.scratch if b.space not in self.spaces]
        missing += ["a barrier"] if has_barrier(kernel) and not self.barriers else []
        missing += [
            f"{b} with {b.size} elements, more than indices of {self.index_bits} bits count"
            for b in (*kernel.buffers, *kernel.scratch)
            if b.size >= 1 << (self.index_bits - 1)
        ]
        if missing:
            raise UnsupportedError(
                f"compile: the target {self.name} cannot run the kernel {kernel.name}, which has {missing[0]}",
                hint="write it without: `spaces`, `barriers` and `index_bits` of the target say what it has",
            )

    def lanes(self, itemsize: int) -> int:
        """The number of elements of this many bytes in one vector."""
        return max(self.vector // itemsize, 1)

    def row_lanes(self, extent: Size, itemsize: int) -> int:
        """The lanes of a row that stays in registers from its first read to its last; 0 for a row that does not."""
        lanes = self.lanes(itemsize)
        return lanes if isinstance(extent, int) and 0 < extent <= self.row_vectors * lanes else 0

    def schedule(self, draft: DraftKernel) -> tuple[KernelWriter, Kernel]:
        """Choose the order of a kernel's loops, and schedule them; `draft` writes the kernel in a given loop order."""
        found = draft(None, None)
        return found, found.kernel()

    def schedule_in_order(self, kernel: Kernel) -> Kernel:
        """Schedule a kernel whose loops stay in their order."""
        return kernel

    def block_contraction(self, kernel: Kernel, new_loop: Callable[[], int]) -> BlockedContraction | None:
        """The blocks of a scheduled kernel that is a large contraction; None where it stays one kernel."""
        return None

    def panel_columns(self, itemsize: int) -> int:
        """The columns, of elements of this many bytes, that a tile of a contraction reads at a time; 0 where any number
        is as good.
        """
        return 0

    def packs_operands(self, rows: int, columns: int, terms: int, dtype: DType, batched: bool = False) -> bool:
        """Test whether a contraction of these extents, or each of a batch, is blocked and packs its operands, in any
        memory order."""
        return False

    def portable(self) -> Target:
        """The same target for source that other compilers read, without instructions that its language has no words
        for."""
        return self

    def worth_sharing(self, kernel: Kernel) -> bool:
        """Test whether a kernel does enough for its outermost loop to be shared among threads."""
        return False

    def expansions(self) -> Mapping[str, Expansion]:
        """The expansion of each operation that the target's libraries compute, or its `functions`, by name."""
        return self.functions

    def library_rules(self) -> Mapping[str, Any]:
        """The rules (`OpaqueRule`) of internal operations that are calls of the target's libraries, by name."""
        return {}

    def is_evictable(self, nbytes: int) -> bool:
        """Test whether a value of this many bytes may leave memory for a file."""
        return False

    def place_offload(
        self, steps: Sequence[Step], files: frozenset[int], rates: Rates, new_loop: Callable[[], int]
    ) -> tuple[Step, ...]:
        """Add the prefetches and releases of the rows of the slots `files`, which are in files, to a program."""
        if files:
            raise UnsupportedError(
                f"compile: programs for the target {self.name} keep no values in files",
                hint="leave stream= and the spilling of memory_budget out",
            )
        return tuple(steps)


SCALAR = Target()
"""The device that runs scalar loops, and nothing else."""
