"""A kernel as an LLVM function, and many of them as a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wholestep.backends.cpu.codegen.loops import LoopWriter
from wholestep.backends.cpu.codegen.memory import ZERO_BLOCK
from wholestep.backends.cpu.codegen.row_loops import STACK
from wholestep.backends.cpu.codegen.uniformity import analyze_uniformity
from wholestep.backends.cpu.codegen.unrolled_values import UnrolledValues
from wholestep.backends.cpu.codegen.writer import FunctionWriter
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.size_table import SizeTable
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.kernel.lang import Kernel, Loop
from wholestep.kernel.text import Stride


class FunctionText(NamedTuple):
    """The text of one function, and the declarations that it needs in its module."""

    text: str
    declarations: frozenset[str]


def kernel_function(
    kernel: Kernel,
    name: str,
    target: CpuTarget,
    sizes: SizeTable | None = None,
    free: bool = False,
    strides: Sequence[Stride] = (),
) -> FunctionText:
    """Emit `void name(ptr args, i64 lo, i64 hi)`.

    `args` points to words of eight bytes: a pointer for each buffer, one to the table of sizes where the kernel names
    any, and the number of bytes for each of these strides. The function runs steps [lo, hi) of the kernel's outer axis,
    or everything where it has none. A `free` function has only full steps, so that its text does not depend on their
    number. Raises UnsupportedError for a kernel of workgroups.
    """
    CpuMachine().check_kernel(kernel)
    found = analyze_uniformity(kernel)
    given = {stride: f"%stride{n}" for n, stride in enumerate(strides)}
    w = FunctionWriter(found, target, sizes or SizeTable(), given)
    bases = {buffer: f"%p{n}" for n, buffer in enumerate(kernel.buffers)}
    for n, buffer in enumerate(kernel.buffers):
        where = w.offset_pointer("%args", 8 * n, forward=True)
        w.do(f"{bases[buffer]} = load ptr, ptr {where}, align 8")
    for n, register in enumerate(given.values(), len(kernel.buffers) + 1):
        w.do(f"{register} = load i64, ptr {w.offset_pointer('%args', 8 * n, forward=True)}, align 8")
    nest = LoopWriter(w, UnrolledValues(w, bases))
    if kernel.outer is None:
        nest.body(kernel.body)
    else:
        nest.body(kernel.body[:-1])
        last = kernel.body[-1]
        assert isinstance(last, Loop)
        nest.parallel_full_steps(last) if free else nest.parallel_loop(last)
    w.do("ret void")
    sink = ["  %sink = alloca [8 x i8], align 8"] if w.sink else []
    if w.stack:
        sink.append(f"  {STACK} = alloca [{w.stack} x i8], align 64")
    if w.sizes.lines:
        sink.append(f"  %sizes.at = getelementptr i8, ptr %args, i64 {8 * len(kernel.buffers)}")
        sink += ["  %sizes = load ptr, ptr %sizes.at, align 8", *w.sizes.lines]
    attributes = f'nounwind "prefer-vector-width"="{8 * target.vector_bytes}"'
    head = f"define void @{name}(ptr %args, i64 %lo, i64 %hi) {attributes} {{"
    return FunctionText("\n".join([head, "entry:", *sink, *w.head, *w.lines, "}", ""]), frozenset(w.declared))


def module_text(functions: Iterable[FunctionText]) -> str:
    """Return functions and their declarations as one module without a triple or data layout."""
    found = list(functions)
    declared = sorted(set().union(*[f.declarations for f in found]))
    zeros = f"{ZERO_BLOCK} = internal constant [8 x i8] zeroinitializer, align 8"
    return "\n".join([zeros, *declared, *[f.text for f in found]])
