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
    """The reductions that run in two stages: of at least `elements`, to fewer than `results`, or fewer than `sums` of
    products; with more there is enough to share among threads already. An axis is cut into at most `chunks`. Rows of
    up to `columns` elements, `far` elements in all, are added up in two stages too: they come from memory whole then.

    Where `terms` are given, it is one result that has at least `elements`; all results together have at most `chunks`
    parts, of about so many terms or more, which lie in order, and a product has at least `products` terms for each
    result, and `terms` times as many parts. Else one axis is reduced after the other, the last first.
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
    """The limits of the order in which operands of contractions lie.

    Elements are contiguous along the last axis of the result where that has at least `lane` of them. An operand that up
    to `rows` rows read is read where it lies, if its terms are contiguous and at least `terms` many: kernels transpose
    squares of it in registers.
    """

    lane: int = 4
    rows: int = 15
    terms: int = 16


DEFAULT_OPERANDS = OperandLimits()


class LookLimits(NamedTuple):
    """The operations in which each element of a result looks for itself at all elements that may concern it, so that
    none waits for another: at most `line` in one loop, and at most `total` in all.

    Scatters, sorts and running sums of integers are such. Of other scatters those with up to `few` places go in order,
    and more places are sorted first.
    """

    line: int
    total: int
    few: int

    def allow(self, line: Size, results: Size) -> bool:
        """Test whether each of so many results may look at a line of so many elements."""
        return isinstance(line * results, int) and line <= self.line and line * results <= self.total


class AttentionLimits(NamedTuple):
    """The blocks of attention: steps take so many leading axes that they have up to `scores` scores, and
    blocks are of at least `block` queries and keys.

    With `narrow`, products are of operands in the dtype that attention is given, as matrix units take them; elsewhere
    they are of the dtype that arithmetic is carried out in.
    """

    scores: int = 1 << 18
    block: int = 0
    narrow: bool = False


CORE_ATTENTION = AttentionLimits()
"""Scores of 1 MiB of float32, of which each core has its share in its second cache."""


class ReuseLimits(NamedTuple):
    """The values that share memory with no other one, those of up to `unshared` bytes, and how many tasks apart others
    are at least that lie in one place: what is written where something else lay waits until nobody reads that.
    """

    unshared: int = 0
    apart: int = 1


FREE_REUSE = ReuseLimits()


@dataclass(frozen=True)
class Target:
    """A device that runs scalar loops in the order written, and the base class of all others.

    `vector` is the bytes of a vector, `registers` how many vectors there are, and `row_vectors` up to how many of them
    a row may fill to be worked on in registers. `spaces` are the memory spaces of its kernels, `barriers` tells whether
    the threads of a workgroup can wait for each other, `launches_beside` whether kernels that wait for nothing run
    beside each other, and `reuse` limits how values share memory for that. `index_bits` is the width of the integers
    that indices are computed in, `doubles` whether there is float64 at all, and `split` says which reductions run in
    two stages, since threads share the first. `operands` limits the orders in which
    contractions read, `attention` the blocks of attention, `rates` are assumed where none are measured, and
    `functions` are the operations that formulas stand for, since the device has no library for them.
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
        """Raise UnsupportedError for a kernel that wants what the device does not have."""
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

    def block_contraction(self, kernel: Kernel, new_loop: Callable[[], int]) -> BlockedContraction | None:
        """The blocks of a scheduled kernel that is a large contraction; None where it stays one kernel."""
        return None

    def panel_columns(self, itemsize: int) -> int:
        """The columns, of elements of this many bytes, that a tile of a contraction reads at a time; 0 where any number
        is as good.
        """
        return 0

    def packs_operands(self, rows: int, columns: int, terms: int, dtype: DType) -> bool:
        """Test whether a contraction of these extents is blocked and packs what it reads, in whatever order it lies."""
        return False

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
        """Add to a program whose slots `files` lie in files what brings their rows to memory and lets them go."""
        if files:
            raise UnsupportedError(
                f"compile: programs for the target {self.name} keep no values in files",
                hint="leave stream= and the spilling of memory_budget out",
            )
        return tuple(steps)


SCALAR = Target()
"""The device that runs scalar loops, and nothing else."""
