"""A kernel as an LLVM function, and many of them as a module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.facts import facts
from wholestep.backends.cpu.codegen.memory import ZEROS
from wholestep.backends.cpu.codegen.nest import Nest
from wholestep.backends.cpu.codegen.values import Values
from wholestep.backends.cpu.codegen.writer import Writer
from wholestep.backends.cpu.sizes import SizeTable
from wholestep.backends.cpu.target import Target
from wholestep.kernel.lang import Kernel, Loop


class Function(NamedTuple):
    """The text of one function, and the declarations that it needs in its module."""

    text: str
    declarations: frozenset[str]


def function_text(
    kernel: Kernel, name: str, target: Target, sizes: SizeTable | None = None, free: bool = False
) -> Function:
    """`void name(ptr args, i64 lo, i64 hi)`: `args` points to one pointer for each buffer, and one to the table of
    sizes where the kernel names any; the steps of the kernel's outer axis from lo to before hi are done, or everything
    where it has none. Where they are all full, a `free` function is the same for any number of them."""
    found = facts(kernel)
    w = Writer(found, target, sizes or SizeTable())
    bases = {buffer: f"%p{n}" for n, buffer in enumerate(kernel.buffers)}
    for n, buffer in enumerate(kernel.buffers):
        where = w.let(f"getelementptr i8, ptr %args, i64 {8 * n}")
        w.do(f"{bases[buffer]} = load ptr, ptr {where}, align 8")
    nest = Nest(w, Values(w, bases))
    if kernel.outer is None:
        nest.body(kernel.body)
    else:
        nest.body(kernel.body[:-1])
        last = kernel.body[-1]
        assert isinstance(last, Loop)
        nest.free(last) if free else nest.shared(last)
    w.do("ret void")
    sink = ["  %sink = alloca [8 x i8], align 8"] if w.sink else []
    if w.sizes.lines:
        sink.append(f"  %sizes.at = getelementptr i8, ptr %args, i64 {8 * len(kernel.buffers)}")
        sink += ["  %sizes = load ptr, ptr %sizes.at, align 8", *w.sizes.lines]
    head = f"define void @{name}(ptr %args, i64 %lo, i64 %hi) {attributes(target)} {{"
    return Function("\n".join([head, "entry:", *sink, *w.lines, "}", ""]), frozenset(w.declared))


def attributes(target: Target) -> str:
    """What LLVM may know of every function."""
    return f'nounwind "prefer-vector-width"="{8 * target.vector_bytes}"'


def module_text(functions: Iterable[Function]) -> str:
    """Functions and what they need, as one module without a triple or data layout."""
    found = list(functions)
    declared = sorted(set().union(*[f.declarations for f in found]))
    zeros = f"{ZEROS} = internal constant [8 x i8] zeroinitializer, align 8"
    return "\n".join([zeros, *declared, *[f.text for f in found]])
