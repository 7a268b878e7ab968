"""The function that calls kernels and routines: declarations, symbols, and the error exit."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.llvm_builder import InstructionBuilder
from wholestep.backends.cpu.size_table import SizeOperands, SizeTable
from wholestep.dims import Dim, Size
from wholestep.lower.program.program import FailureSite, LoweredProgram

SIZE_TABLE_POINTER = "%sizes"
"""The table of sizes in a function that uses it."""


class HostFunction(InstructionBuilder):
    """The interface of the entry function that routines depend on."""

    def __init__(self, plan: LoweredProgram, sizes: SizeTable) -> None:
        super().__init__()
        self.plan = plan
        self.sizes = SizeOperands(sizes, SIZE_TABLE_POINTER)
        self.declared: set[str] = set()
        self.symbols: set[str] = set()
        self.routines: dict[str, tuple[str, str]] = {}

    def number(self, n: Size) -> str:
        """Return a number of bytes or steps as an operand. A program with loops reads it from the table of sizes, so
        that its text does not depend on the number of layers."""
        if not self.plan.has_loops or isinstance(n, Dim):
            return self.sizes.name(n)
        at = self.let(f"getelementptr i8, ptr {SIZE_TABLE_POINTER}, i64 {self.sizes.known.added(n)}")
        return self.let(f"load i64, ptr {at}, align 8")

    def routine(self, key: str, write: Callable[[str], str]) -> str:
        """Return the name of a routine, which is written at its first use."""
        if key not in self.routines:
            name = f"r{len(self.routines)}"
            self.routines[key] = name, write(name)
        return self.routines[key][0]

    def fail_if(self, bad: str, number: int, position: str, value: str, site: FailureSite) -> None:
        """Emit an exit with an error under a condition."""
        wrong, right = self.label("wrong"), self.label("right")
        self.do(f"br i1 {bad}, label %{wrong}, label %{right}")
        self.enter(wrong)
        axis, size = site.facts[:2] if site.kind == "index" else (0, 0)
        facts = f"i64 {number - 1}, i64 {position}, i64 {value}, i64 {axis}, i64 {self.sizes.name(size)}"
        self.do(f"call void @ws_fail(ptr %context, {facts})")
        self.do("ret i32 1")
        self.enter(right)
