"""Support library of compiled programs: floating-point state, fork-join, first error, argument reading, page hints.

A program is `i32 entry(ptr table, ptr context)`: `table` holds one base pointer per slot, `context` is laid out as
`CONTEXT` says. It returns 0, or 1 after `ws_fail`. Its floating-point state is set by `ws_run`, which calls it.
"""

from __future__ import annotations

from functools import cache

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.support_ir.fork_join import fork_join_functions
from wholestep.backends.cpu.support_ir.gather import call_entry, gather_function
from wholestep.backends.cpu.support_ir.page_hints import prefetch_function, release_function

DECLARATIONS = """\
declare void @ws_parallel(ptr, ptr, ptr, i64)
declare void @ws_fail(ptr, i64, i64, i64, i64, i64)
"""
"""The functions that a program may call.

`ws_parallel(context, function, arguments, n)` runs `void function(ptr arguments, i64 low, i64 high)` over shares of
[0, n), in as many threads as the context says, and returns when all are done; it does not nest.
`ws_fail(context, site, position, value, axis, size)` records a failure; of several the one with the smallest
(site, position) stays, so that the error does not depend on the threads.
"""

EXPORTS = ("ws_run", "ws_call", "ws_gather", "ws_worker", "ws_spin", "ws_parallel", "ws_fail", "ws_soon", "ws_done")
"""The functions that the runtime takes from the object of this text.

It must bring `ws_sleep`, `ws_ring`, `ws_yield` and `ws_madvise`.

`ws_madvise(pages, nbytes, advice)` is the system call `madvise` on Linux, and does nothing on other systems.
`ws_sleep(bell, -1)` waits until the semaphore is posted, or wakes spuriously; `ws_ring(bell, 1, null)` posts it. They
take the arguments of every system's semaphore, and ignore those that their own system lacks.
"""

EXTERNAL = """\
declare i32 @ws_sleep(ptr, i64)
declare i32 @ws_ring(ptr, i64, ptr)
declare i32 @ws_yield()
declare i32 @ws_madvise(ptr, i64, i32)
declare i64 @llvm.umin.i64(i64, i64)
"""
"""The external functions that every target needs."""


INTRINSICS = {
    "x86_64": """\
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
""",
    "aarch64": """\
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
""",
}
PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
"""The instruction of a thread that spins."""
X86_FLUSH = 0x9FC0
"""Flush to zero, denormals are zero, round to nearest, no traps."""
AARCH64_FLUSH = 1 << 24
"""Flush to zero, inputs included; round to nearest, no traps."""


def control_functions(arch: str) -> list[str]:
    """Return `i64 ws_enter()`, which gives the floating-point state that it replaces, and `void ws_leave(old)`."""
    enter = FunctionBuilder("i64", "ws_enter", (), exported=True)
    leave = FunctionBuilder("void", "ws_leave", (("i64", "old"),), exported=True)
    if arch == "aarch64":
        old = enter.let("call i64 @llvm.aarch64.get.fpcr()")
        enter.do(f"call void @llvm.aarch64.set.fpcr(i64 {AARCH64_FLUSH})")
        leave.do("call void @llvm.aarch64.set.fpcr(i64 %old)")
        return [enter.text(f"ret i64 {old}"), leave.text("ret void")]
    place, room = enter.let("alloca i32"), leave.let("alloca i32")
    enter.do(f"call void @llvm.x86.sse.stmxcsr(ptr {place})")
    old = enter.let(f"zext i32 {enter.load('i32', place)} to i64")
    enter.store("i32", str(X86_FLUSH), place)
    enter.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {place})")
    leave.store("i32", leave.let("trunc i64 %old to i32"), room)
    leave.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {room})")
    return [enter.text(f"ret i64 {old}"), leave.text("ret void")]


@cache
def support_module(target: CpuTarget) -> str:
    """Return the support functions for a target, as LLVM text."""
    hints = [prefetch_function(), release_function(), gather_function(), call_entry()]
    parts = [*control_functions(target.arch), *fork_join_functions(PAUSE[target.arch]), *hints]
    return "".join([EXTERNAL, INTRINSICS[target.arch], *parts])
