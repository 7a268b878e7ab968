"""Programs as one relocatable object that needs neither Python nor a library: a function for each of them.

A function is `i32 PREFIX_run_NAME(ptr block)`. It lays the table of pointers out on its stack, sets the floating-point
state, calls the program's entry, and returns 0, or the number of the place that failed, counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wholestep.backends.cpu.compiler import llvm_source
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.entry_function import ENTRY_SYMBOL, DirectEntry, EntryFunction
from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.llvm_jit import linked_object
from wholestep.backends.cpu.support_ir.record_layouts import CONTEXT
from wholestep.backends.cpu.support_ir.support import INTRINSICS, control_functions
from wholestep.lower.program.placed import PlacedProgram

PARALLEL = "ws_parallel"
"""The weak function that shares a kernel among threads; a strong definition at link time replaces it."""
FAILURE_FACTS = ("site", "position", "value", "axis", "size")


def exported_object(programs: Sequence[PlacedProgram], prefix: str, target: CpuTarget) -> bytes:
    """The object of some programs, whose functions begin with a prefix; raises CodeError as `object_code` does."""
    return linked_object(
        ((program_modules(p, prefix, target), (run_symbol(prefix, p), PARALLEL)) for p in programs), target
    )


def run_symbol(prefix: str, program: PlacedProgram) -> str:
    """The name of the function that runs a program."""
    return f"{prefix}_run_{program.name}"


def program_modules(program: PlacedProgram, prefix: str, target: CpuTarget) -> list[str]:
    """The LLVM text of a program: its kernels, its entry, and the function around that."""
    source = llvm_source(program.plan, target, EntryFunction if target.threads else DirectEntry)
    sizes = [int(n) for n in source.sizes]
    constants = program.constant_bytes()
    data = [
        f"@constants = internal constant [{len(constants)} x i8] {byte_literal(constants)}, align 64",
        f"@sizes = internal constant [{len(sizes)} x i64] [{', '.join(f'i64 {n}' for n in sizes)}], align 8",
        f"declare i32 @{ENTRY_SYMBOL}(ptr, ptr)",
    ]
    return [*source.modules, "\n".join([*data, *around_entry(program, run_symbol(prefix, program), target)])]


def byte_literal(data: bytes) -> str:
    """Bytes as an LLVM constant."""
    return 'c"' + "".join([f"\\{b:02X}" for b in data]) + '"' if any(data) else "zeroinitializer"


def around_entry(program: PlacedProgram, symbol: str, target: CpuTarget) -> Iterator[str]:
    """The functions of an object beside its kernels and its entry."""
    flushes = target.arch in INTRINSICS
    if flushes:
        yield INTRINSICS[target.arch]
        yield from control_functions(target.arch)
    yield first_failure()
    if target.threads:
        yield one_thread()
    f = FunctionBuilder("i32", symbol, (("ptr", "block"),), exported=True)
    places = ["@constants", *program.offsets, "@sizes"]
    table = f.let(f"alloca [{len(places) + 1} x i64], align 16")
    for slot, place in enumerate([program.arena, *places]):
        pointer = place if isinstance(place, str) else f.let(f"getelementptr i8, ptr %block, i64 {place}")
        f.do(f"store ptr {pointer}, ptr {f.field(table, 8 * slot)}")
    for word in ("stop", "status"):
        f.store("i64", "0", f.field("%block", CONTEXT[word]))
    saved = f.let("call i64 @ws_enter()") if flushes else ""
    code = f.let(f"call i32 @{ENTRY_SYMBOL}(ptr {table}, ptr %block)")
    if flushes:
        f.do(f"call void @ws_leave(i64 {saved})")
    site = f.let(f"trunc i64 {f.load_field('i64', '%block', CONTEXT['site'])} to i32")
    failed, fine = f.let(f"add i32 {site}, 1"), f.let(f"icmp eq i32 {code}, 0")
    yield f.text(f"ret i32 {f.let(f'select i1 {fine}, i32 0, i32 {failed}')}")


def first_failure() -> str:
    """`ws_fail` of a program that returns at its first failure: the failure's facts are written to the context record
    at the head of the block."""
    f = FunctionBuilder(
        "void", "ws_fail", (("ptr", "context"), *[("i64", name) for name in FAILURE_FACTS]), exported=True
    )
    for name in FAILURE_FACTS:
        f.store("i64", f"%{name}", f.field("%context", CONTEXT[name]))
    return f.text("ret void")


def one_thread() -> str:
    """`ws_parallel` in the thread that calls."""
    given = (("ptr", "context"), ("ptr", "function"), ("ptr", "arguments"), ("i64", "n"))
    f = FunctionBuilder("void", PARALLEL, given, exported=True)
    f.head = f.head.replace("define ", "define weak ")
    f.do("call void %function(ptr %arguments, i64 0, i64 %n)")
    return f.text("ret void")
