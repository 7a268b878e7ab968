"""From a graph to machine code for this processor: plan, one function for each kernel that differs, one entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.function import Function, function_text, module_text
from wholestep.backends.cpu.entry import Printer, entry_text
from wholestep.backends.cpu.sizes import SizeTable
from wholestep.backends.cpu.target import Target
from wholestep.dims import Dim
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
    sizes: tuple[Dim, ...] = ()
    """The expressions of symbolic sizes that it must be given the numbers of, in a table."""

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
    """The text of a plan: kernels that are equal up to names are one function. `printer` writes what calls them."""
    names: dict[int, str] = {}
    seen: dict[str, str] = {}
    modules: list[str] = []
    waiting: list[Function] = []
    symbols: set[str] = set()
    sizes = SizeTable()
    for kernel in plan.kernels():
        key = canonical(kernel)
        if key not in seen:
            seen[key] = f"k{len(seen)}"
            waiting.append(function_text(kernel, seen[key], target, sizes))
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
    return Source(tuple(modules), tuple(sorted(symbols | entry.symbols)), sizes.sizes)


def called(kernel: Kernel) -> set[str]:
    """The external functions that a kernel calls."""
    return {s.attr for s in walk(kernel.body) if isinstance(s, Var) and s.op == "call"}
