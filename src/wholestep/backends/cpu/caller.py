"""What the text of a program calls: functions written once, declarations, symbols, and the way out where one fails."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.lines import Lines
from wholestep.backends.cpu.sizes import Sizes, SizeTable
from wholestep.dims import Dim, Size
from wholestep.lower.plan import Plan, Site

SIZES = "%sizes"
"""The table of sizes in a function that uses it."""


class Caller(Lines):
    """The entry function, as far as a routine has to know it."""

    def __init__(self, plan: Plan, sizes: SizeTable) -> None:
        super().__init__()
        self.plan = plan
        self.sizes = Sizes(sizes, SIZES)
        self.declared: set[str] = set()
        self.symbols: set[str] = set()
        self.routines: dict[str, tuple[str, str]] = {}

    def number(self, n: Size) -> str:
        """A number of bytes or of steps. In a program with loops it comes from the table: how many layers there are
        then shows in no line of the code."""
        if not self.plan.looped or isinstance(n, Dim):
            return self.sizes.name(n)
        at = self.let(f"getelementptr i8, ptr {SIZES}, i64 {self.sizes.known.added(n)}")
        return self.let(f"load i64, ptr {at}, align 8")

    def routine(self, key: str, write: Callable[[str], str]) -> str:
        """The name of a function that is written once, when it is first needed."""
        if key not in self.routines:
            name = f"r{len(self.routines)}"
            self.routines[key] = name, write(name)
        return self.routines[key][0]

    def fail_if(self, bad: str, number: int, position: str, value: str, site: Site) -> None:
        """Leave the program with an error where a condition holds."""
        wrong, right = self.label("wrong"), self.label("right")
        self.do(f"br i1 {bad}, label %{wrong}, label %{right}")
        self.enter(wrong)
        axis, size = site.facts[:2] if site.kind == "index" else (0, 0)
        facts = f"i64 {number - 1}, i64 {position}, i64 {value}, i64 {axis}, i64 {self.sizes.name(size)}"
        self.do(f"call void @ws_fail(ptr %context, {facts})")
        self.do("ret i32 1")
        self.enter(right)
