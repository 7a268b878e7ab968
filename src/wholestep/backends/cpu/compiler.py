"""From a graph to machine code for this processor: plan, one function for each kernel that differs, one entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.function import Function, function_text, module_text
from wholestep.backends.cpu.entry import Printer, entry_text
from wholestep.backends.cpu.sizes import SizeTable
from wholestep.backends.cpu.target import Target
from wholestep.dims import Size
from wholestep.kernel.lang import Kernel, Var, walk
from wholestep.kernel.text import canonical
from wholestep.lower.plan import Plan
from wholestep.lower.target import Machine

MODULE = 1 << 16
"""About how many characters of text LLVM is given at once: its memory grows with them."""


class Source(NamedTuple):
    """The LLVM text of a program, in modules, and what it calls outside itself."""

    modules: tuple[str, ...]
    symbols: tuple[str, ...]
    sizes: tuple[Size, ...] = ()
    """The table that it must be given: numbers, and expressions of symbolic sizes."""

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.modules)


def machine(target: Target) -> Machine:
    """What lowering asks of a processor."""
    return Machine(target.vector_bytes, target.registers)


Print = Callable[[Plan, dict[int, str], SizeTable], Printer]
"""What writes the entry function of a plan."""


def source(plan: Plan, target: Target, printer: Print = Printer) -> Source:
    """The text of a plan: kernels that are equal up to names are one function. `printer` writes what calls them.

    In a program with loops the length of a kernel's outermost loop is left to its caller, where it comes out even.
    """
    names: dict[int, str] = {}
    seen: dict[str, str] = {}
    modules: list[str] = []
    waiting: list[Function] = []
    symbols: set[str] = set()
    sizes = SizeTable()
    for kernel in plan.kernels():
        free = plan.looped and even(kernel)
        key = canonical(kernel, free)
        if key not in seen:
            seen[key] = f"k{len(seen)}"
            waiting.append(function_text(kernel, seen[key], target, sizes, free))
            symbols |= called(kernel)
            if sum(len(f.text) for f in waiting) > MODULE:
                modules.append(module_text(waiting))
                waiting = []
        names[id(kernel)] = seen[key]
    if waiting:
        modules.append(module_text(waiting))
    entry = entry_text(printer(plan, names, sizes))
    kernels = [f"declare void @{name}(ptr, i64, i64)" for name in seen.values()]
    modules.append("\n".join([*sorted(entry.declared), *kernels, entry.text]))
    return Source(tuple(modules), tuple(sorted(symbols | entry.symbols)), tuple(sizes.entries))


def even(kernel: Kernel) -> bool:
    """Whether all steps of a kernel's outermost loop are full."""
    axis = kernel.outer
    return axis is not None and not axis.symbolic and axis.extent % axis.block == 0


def called(kernel: Kernel) -> set[str]:
    """The external functions that a kernel calls."""
    return {s.attr for s in walk(kernel.body) if isinstance(s, Var) and s.op == "call"}
