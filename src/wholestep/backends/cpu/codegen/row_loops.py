"""Row loops: long code behind a tile of registers is emitted once, for a row at a time, from values on the stack."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wholestep.backends.cpu.codegen.llvm_types import llvm_type, simd_type
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes, vector_lanes
from wholestep.backends.cpu.codegen.unrolled_values import UnrolledValues
from wholestep.backends.cpu.codegen.writer import InductionVariables, LoopCopy
from wholestep.kernel.lang import Axis, Store, Var

MIN_INSTRUCTIONS = 256
"""The least number of instructions, over all rows, that become a loop; fewer are emitted unrolled."""
STACK_BYTES = 2048
"""The most bytes of a tile on the stack: on Windows a function with a page of stack needs a stack probe."""
STACK, ALIGNMENT = "%rows", 8
"""The stack address of the tile's values, and the alignment of each value in bytes."""


class RowLoop:
    """A loop over the rows of a tile, along its outermost axis, some at a time, for the last statements of a body."""

    def __init__(self, values: UnrolledValues, axis: Axis, rows: int, operands: Sequence[Var]) -> None:
        self.values, self.w = values, values.w
        self.axis, self.whole, self.rows = axis, values.w.scopes[axis], rows
        self.count = self.whole.count // rows
        self.motion = InductionVariables()
        self.held = {v: values.known[v] for v in operands}
        self.places: dict[Var, int] = {}
        self.size = 0
        for v in operands:
            self.spill(v)
        self.w.stack = max(self.w.stack, self.size)

    def kind(self, v: Var) -> str:
        """The type of a copy."""
        return simd_type(llvm_type(v.dtype).register, vector_lanes(self.w.uniformity.axes_of[v]))

    def spill(self, v: Var) -> None:
        """Write all copies of a value to the stack."""
        kind, self.places[v] = self.kind(v), self.size
        for name in self.values.names(v, self.w.uniformity.axes_of[v]):
            self.w.do(f"store {kind} {name}, ptr {self.w.offset_pointer(STACK, self.size)}, align {ALIGNMENT}")
            self.size += bytes_of_copy(self.values, v)

    def enter(self, step: str) -> None:
        """Load the values of the rows of one step, and let them stand for the values of the whole tile."""
        w, whole = self.w, self.whole
        w.scopes[self.axis] = LoopCopy(self.axis, whole.base, self.rows, whole.live_lanes, whole.induction, self.motion)
        for v, place in self.places.items():
            kind = self.kind(v)
            nbytes, each = bytes_of_copy(self.values, v), w.copies(w.uniformity.axes_of[v])
            first = w.let(f"getelementptr [{each * nbytes} x i8], ptr {w.offset_pointer(STACK, place)}, i64 {step}")
            at = [w.offset_pointer(first, copy * nbytes) for copy in range(each)]
            self.values.define(v, [w.let(f"load {kind}, ptr {x}, align {ALIGNMENT}") for x in at])

    def leave(self) -> None:
        """Restore the values of the whole tile."""
        self.w.scopes[self.axis] = self.whole
        self.values.known.update(self.held)


def row_loop(values: UnrolledValues, run: Sequence[Var | Store]) -> RowLoop | None:
    """The loop over rows for statements whose copies together are long code; None where they are short, or where a copy
    depends on another one."""
    w, facts = values.w, values.w.uniformity
    axes = axes_of_run(values, run)
    instructions = w.copies(axes) * sum(isinstance(s, Var) and s.op != "const" for s in run)
    if instructions < MIN_INSTRUCTIONS or not axes or axes[0].lanes > 1:
        return None
    axis, *inner = axes
    rows = rows_at_once(w.scopes[axis].count, prod(w.counts(tuple(inner))), w.copies_at_once(vector_lanes(axes)))
    own = {s for s in run if isinstance(s, Var)}
    read = {x for s in run for x in s.reads()}.union(values.memory.guards)
    operands = [v for v in values.known if v in read and v not in own and axis in facts.axes_of[v]]
    fit = rows < w.scopes[axis].count and all(is_in_rows(s, axis, facts.axes_of) for s in own)
    fit = fit and not any(llvm_type(v.dtype).kind == "b" for v in operands)
    fit = fit and sum(w.copies(facts.axes_of[v]) * bytes_of_copy(values, v) for v in operands) <= STACK_BYTES
    return RowLoop(values, axis, rows, operands) if fit else None


def bytes_of_copy(values: UnrolledValues, v: Var) -> int:
    """The bytes of a copy of a value, up to the alignment."""
    size = llvm_type(v.dtype).size * max(vector_lanes(values.w.uniformity.axes_of[v]), 1)
    return -(-size // ALIGNMENT) * ALIGNMENT


def axes_of_run(values: UnrolledValues, run: Sequence[Var | Store]) -> VaryingAxes:
    """The unrolled axes that statements vary along, outermost first."""
    facts, found = values.w.uniformity.axes_of, set[Axis]()
    for s in run:
        found.update(facts[s] if isinstance(s, Var) else values.memory.along(s, values.memory.guards))
    return tuple([a for a in values.w.scopes if a in found])


def rows_at_once(count: int, each: int, wanted: int) -> int:
    """The least number of rows that divides all of them and has as many copies as are emitted together."""
    return next((n for n in range(1, count) if count % n == 0 and n * each >= wanted), count)


def is_in_rows(v: Var, axis: Axis, axes_of: dict[Var, VaryingAxes]) -> bool:
    """True where the copies of a value along an axis are independent of each other."""
    if v.op == "across":
        return v.attr[1] is not axis
    lanes = [a for a in axes_of[v] if a.lanes > 1]
    return v.op != "load" or not lanes or abs(v.attr[1].coefficient(lanes[0])) < 2
