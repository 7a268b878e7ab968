"""LLVM text of a plan: one function for each distinct kernel, and the entry function that calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.function import FunctionText, kernel_function, module_text
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.entry_function import EntryFunction, KernelFunction, entry_text
from wholestep.backends.cpu.rebase_launches import rebase_launches
from wholestep.backends.cpu.size_table import SizeTable
from wholestep.backends.cpu.target.blocking import DEFAULT_CACHES, Caches
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.dims import Size
from wholestep.kernel.lang import Kernel, Var, walk
from wholestep.kernel.text import Stride, strideless_text
from wholestep.lower.program.program import LoweredProgram

MODULE_CHARACTERS = 1 << 16
"""The approximate size of a module in characters; LLVM's memory grows with the size of a module."""


class LlvmSource(NamedTuple):
    """The LLVM text of a program, in modules, and the external symbols that it calls."""

    modules: tuple[str, ...]
    symbols: tuple[str, ...]
    sizes: tuple[Size, ...] = ()
    """The table that it must be given: numbers, and expressions of symbolic sizes."""

    @property
    def text(self) -> str:
        """All modules in one text."""
        return "\n".join(self.modules)


def machine_model(target: CpuTarget) -> CpuMachine:
    """Return the machine model that lowering uses."""
    # Cores with vectors of 64 bytes have a second cache of at least 1 MiB, others mostly half of that.
    caches = Caches(second=1 << 20) if target.vector_bytes == 64 else DEFAULT_CACHES
    return CpuMachine(vector=target.vector_bytes, registers=target.registers, caches=caches, dot_bf16=target.dot_bf16)


def llvm_source(
    plan: LoweredProgram,
    target: CpuTarget,
    printer: type[EntryFunction] = EntryFunction,
    written: Callable[[str], object] = lambda module: None,
) -> LlvmSource:
    """The text of a plan; kernels that are equal up to names, first offsets in buffers, and strides of plain loops are
    one function.

    `printer` writes the entry function. Each module of kernels or routines is passed to `written` before the next one
    begins; the last module holds the entry function. In a program with loops, the trip count of a kernel's outermost
    loop is an argument of the function where all of its steps are full.
    """
    plan = rebase_launches(plan)
    functions: dict[Kernel, KernelFunction] = {}
    seen: dict[str, str] = {}
    modules: list[str] = []
    waiting: list[FunctionText] = []
    symbols: set[str] = set()
    sizes = SizeTable()
    free = {kernel: plan.has_loops and has_full_steps(kernel) for kernel in plan.kernels()}
    texts = {kernel: strideless_text(kernel, free[kernel]) for kernel in free}
    given = differing_strides(texts.values())
    for kernel, (key, strides) in texts.items():
        own = [strides[n] for n in given[key]]
        if key not in seen:
            seen[key] = f"k{len(seen)}"
            waiting.append(kernel_function(kernel, seen[key], target, sizes, free[kernel], own))
            symbols |= {s.attr for s in walk(kernel.body) if isinstance(s, Var) and s.op == "call"}
            if sum(len(f.text) for f in waiting) > MODULE_CHARACTERS:
                modules.append(module_text(waiting))
                written(modules[-1])
                waiting = []
        functions[kernel] = KernelFunction(seen[key], tuple([nbytes for _, nbytes in own]))
    if waiting:
        modules.append(module_text(waiting))
        written(modules[-1])
    entry = entry_text(printer(plan, functions, sizes))
    if entry.routines:
        modules.append("\n".join([*sorted(entry.declared), entry.routines]))
        written(modules[-1])
    kernels = [f"declare void @{name}(ptr, i64, i64)" for name in seen.values()]
    modules.append("\n".join([*sorted(entry.declared), *kernels, entry.text]))
    return LlvmSource(tuple(modules), tuple(sorted(symbols | entry.symbols)), tuple(sizes.entries))


def differing_strides(kernels: Iterable[tuple[str, tuple[Stride, ...]]]) -> dict[str, list[int]]:
    """The positions of the strides in which kernels of one text differ, by their text.

    >>> from wholestep.kernel.lang import Axis
    >>> i, j = Axis("i", 4), Axis("j", 4)
    >>> differing_strides([("k", ((i, 64), (j, 8))), ("k", ((i, 96), (j, 8)))])
    {'k': [0]}
    """
    found: dict[str, list[set[int]]] = {}
    for text, strides in kernels:
        values = found.setdefault(text, [set() for _ in strides])
        for known, (_, nbytes) in zip(values, strides, strict=True):
            known.add(nbytes)
    return {text: [n for n, known in enumerate(values) if len(known) > 1] for text, values in found.items()}


def has_full_steps(kernel: Kernel) -> bool:
    """True where all steps of a kernel's outermost loop are full."""
    axis = kernel.outer
    return axis is not None and not axis.symbolic and axis.extent % axis.block == 0
