"""State of a function under emission: unrolled values, enclosing loops and their induction variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from wholestep.backends.cpu.codegen.llvm_types import shuffle_mask
from wholestep.backends.cpu.codegen.uniformity import Uniformity, VaryingAxes, vector_lanes
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_builder import InstructionBuilder
from wholestep.backends.cpu.size_table import SizeOperands, SizeTable
from wholestep.kernel.lang import Axis
from wholestep.kernel.text import Stride


class UnrolledValue:
    """The registers of a value, one for each copy along the axes it varies along, the innermost axis counting fastest.

    `splats` has the same for splat vectors. A name is None until `make` has emitted that copy.
    """

    __slots__ = ("axes", "lanes", "make", "names", "splats")

    def __init__(self, axes: VaryingAxes, lanes: int, count: int) -> None:
        self.axes = axes
        self.lanes = lanes
        self.names: list[str | None] = [None] * count
        self.splats: dict[int, list[str | None]] = {}
        self.make: Callable[[int], None] | None = None

    def name(self, copy: int, lanes: int) -> str:
        """Return the register of one copy, emitting it at its first use."""
        names = self.splats[lanes] if lanes and not self.lanes else self.names
        found = names[copy]
        if found is None:
            assert self.make is not None
            self.make(copy)
            found = names[copy]
            assert found is not None
        return found


class InductionVariables:
    """The strength-reduced induction variables of a loop: an offset for each stride, and the pointers computed from
    them."""

    def __init__(self) -> None:
        self.offsets: dict[int | str, str] = {}
        """The induction variable of each stride: a number, or the register of an argument."""
        self.pointers: dict[tuple[str, int | str], str] = {}
        self.lines: list[str] = []


class LoopCopy:
    """One emitted copy of a loop's body: `count` unrolled steps from element `base` on, relative to the induction
    variable, the last of them with `live` lanes."""

    __slots__ = ("axis", "base", "count", "induction", "live_lanes", "rows", "unrolled")

    def __init__(
        self,
        axis: Axis,
        base: int,
        count: int,
        live: int,
        motion: InductionVariables | None,
        rows: InductionVariables | None = None,
    ) -> None:
        self.axis = axis
        self.base = base
        self.count = count
        self.live_lanes = live
        self.induction = motion
        self.rows = rows
        """The induction variables of the loop over the rows of its tile, the innermost loop."""
        self.unrolled = True


class FunctionWriter(InstructionBuilder):
    """The text of one kernel function under emission."""

    def __init__(
        self, facts: Uniformity, target: CpuTarget, sizes: SizeTable, strides: Mapping[Stride, str] | None = None
    ) -> None:
        super().__init__()
        self.uniformity = facts
        self.strides = strides or {}
        """The registers of the strides that are arguments."""
        self.target = target
        self.sizes = SizeOperands(sizes, "%sizes")
        self.declared: set[str] = set()
        self.constants: dict[tuple[str, str, int], str] = {}
        """The registers of vectors that are made at the head of the function, by element type, literal and lanes."""
        self.head: list[str] = []
        self.sink = False
        self.stack = 0
        """The bytes on the stack that its row loops share."""
        self.scopes: dict[Axis, LoopCopy] = {}
        self.projections: dict[tuple[VaryingAxes, VaryingAxes, tuple[int, ...]], list[int]] = {}

    def call(self, result: str, function: str, types: str, arguments: str) -> str:
        """Call a function, which is declared with the module."""
        self.declared.add(f"declare {result} @{function}({types})")
        return self.let(f"call {result} @{function}({arguments})")

    def run(self, function: str, types: str, arguments: str) -> None:
        """Call a function without a result, which is declared with the module."""
        self.declared.add(f"declare void @{function}({types})")
        self.do(f"call void @{function}({arguments})")

    def splat(self, scalar: str, element: str, lanes: int) -> str:
        """Emit a splat."""
        kind = f"<{lanes} x {element}>"
        first = self.let(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def kept_constant(self, element: str, literal: str, lanes: int) -> str:
        """Return a splat of a constant that is made once, at the head of the function."""
        key = (element, literal, lanes)
        if key not in self.constants:
            body, self.lines = self.lines, self.head
            # Empty assembly hides from LLVM that this is a constant, which it would write into each use.
            scalar = self.let(f'call {element} asm "", "=r,0"({element} {literal})')
            self.constants[key] = self.splat(scalar, element, lanes)
            self.lines = body
        return self.constants[key]

    def shuffle(self, kind: str, x: str, y: str, *picks: int) -> str:
        """Emit a shuffle of two vectors."""
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, {shuffle_mask(*picks)}")

    @property
    def converts_half(self) -> bool:
        """True where the processor converts float16: on x86, with AVX2."""
        return self.target.arch == "aarch64" or self.target.vector_bytes > 16

    def copies_at_once(self, lanes: int) -> int:
        """Return the number of copies emitted together, limited by the vector registers."""
        each = max(4 * lanes // self.target.vector_bytes, 1)
        return max(-(-self.target.registers // 8) // each, 1)

    # -- copies ------------------------------------------------------------------------------------------------------

    def counts(self, axes: VaryingAxes) -> tuple[int, ...]:
        """Return the unroll factor of each axis."""
        scopes = self.scopes
        return tuple([scopes[a].count for a in axes])

    def copies(self, axes: VaryingAxes) -> int:
        """Return the number of copies of a value that varies along these axes."""
        total = 1
        for a in axes:
            total *= self.scopes[a].count
        return total

    def project(self, outer: VaryingAxes, inner: VaryingAxes) -> list[int]:
        """Return, for each copy along `outer`, the index of its copy along `inner`, a subset of `outer`."""
        counts = self.counts(outer)
        key = (outer, inner, counts)
        found = self.projections.get(key)
        if found is None:
            weights, weight = dict.fromkeys(outer, 0), 1
            for a in reversed(inner):
                weights[a], weight = weight, weight * self.scopes[a].count
            steps = [[i * weights[a] for i in range(n)] for a, n in zip(outer, counts, strict=True)]
            found = self.projections[key] = [sum(at) for at in product(*steps)]
        return found

    def element_offsets(self, axes: VaryingAxes, strides: dict[Axis, int], start: int = 0) -> list[int]:
        """Return, for each copy, `start` plus the strides times its first element along each axis."""
        found = [start]
        for a in axes:
            step = strides.get(a, 0) * a.lanes
            found = [x + i * step for x in found for i in range(self.scopes[a].count)]
        return found

    def live_lanes(self, axes: VaryingAxes) -> list[int]:
        """Return, for each copy, the number of lanes within the extent; meaningless for scalars."""
        lanes = vector_lanes(axes)
        found = [lanes]
        for a in axes:
            scope = self.scopes[a]
            n = scope.count
            if a.lanes > 1:
                found = [scope.live_lanes if i == n - 1 else x for x in found for i in range(n)]
            else:
                found = [x for x in found for _ in range(n)]
        return found

    # -- induction variables -----------------------------------------------------------------------------------------

    def induction_offset(self, motion: InductionVariables, stride: int | str) -> str:
        """Return the induction variable of a loop for a stride."""
        found = motion.offsets.get(stride)
        if found is None:
            found = motion.offsets[stride] = self.fresh()
        return found

    def pointer(self, base: str, strides: dict[Axis, int]) -> str:
        """Return a pointer advanced by the enclosing loops; loop-invariant parts of the sum are hoisted."""
        copies = self.scopes.items()
        for axis, motion in [*[(a, c.induction) for a, c in copies], *[(a, c.rows) for a, c in copies]]:
            number = strides.get(axis)
            if number and motion is not None:
                stride = self.strides.get((axis, number), number)
                key = (base, stride)
                found = motion.pointers.get(key)
                if found is None:
                    found = motion.pointers[key] = self.fresh()
                    offset = self.induction_offset(motion, stride)
                    place = f"getelementptr i8, ptr {base}, i64 {offset}"
                    if self.target.folds_offsets:
                        # LLVM's strength reduction would add constants to this by operations that it cannot show not to
                        # wrap around. A freeze is opaque to it.
                        motion.lines.append(f"  {found}.at = {place}")
                        place = f"freeze ptr {found}.at"
                    motion.lines.append(f"  {found} = {place}")
                base = found
        return base

    def offset_pointer(self, pointer: str, distance: int, forward: bool = False) -> str:
        """Emit a pointer plus a constant number of bytes; `forward` where the pointer never lies before its buffer, so
        that the sum does not wrap around."""
        if not distance:
            return pointer
        fact = "nuw " if forward and distance > 0 and self.target.folds_offsets else ""
        return self.let(f"getelementptr {fact}i8, ptr {pointer}, i64 {distance}")
