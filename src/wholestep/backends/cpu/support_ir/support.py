"""Support library of compiled programs: floating-point state, fork-join, first error, argument reading, page hints.

A program is `i32 entry(ptr table, ptr context)`: `table` holds one base pointer per slot, `context` is laid out as
`CONTEXT` says. It returns 0, or 1 after `ws_fail`. Its floating-point state is set by `ws_run`, which calls it.
"""

from __future__ import annotations

from functools import cache

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.support_ir.fork_join import THREADS
from wholestep.backends.cpu.support_ir.gather import call_entry, gather_function
from wholestep.backends.cpu.support_ir.page_hints import PAGE_HINT_DECLARATIONS, prefetch_function, release_function
from wholestep.backends.cpu.support_ir.record_layouts import CALL, CONTEXT, POOL, POOL_BYTES, WORKER, WORKER_BYTES

DECLARATIONS = """\
declare void @ws_parallel(ptr, ptr, ptr, i64)
declare void @ws_fail(ptr, i64, i64, i64, i64, i64)
"""
"""What a program may call.

`ws_parallel(context, function, arguments, n)` runs `void function(ptr arguments, i64 low, i64 high)` over shares of
[0, n), in as many threads as the context says, and returns when all are done; it does not nest.
`ws_fail(context, site, position, value, axis, size)` records a failure; of several the one with the smallest
(site, position) stays, so that the error does not depend on the threads.
"""

EXPORTS = ("ws_run", "ws_call", "ws_gather", "ws_worker", "ws_spin", "ws_parallel", "ws_fail", "ws_soon", "ws_done")
"""What the runtime takes from the object of this text; it must bring `ws_sleep`, `ws_ring`, `ws_yield`, `ws_madvise`.

`ws_madvise(pages, nbytes, advice)` is the call of that name where the system is Linux, and does nothing elsewhere.
`ws_sleep(bell, -1)` waits until somebody rings, or for no reason; `ws_ring(bell, 1, null)` rings. They take the
arguments of every system's semaphore: those that one does not have it does not see.
"""

CONTROL = {
    "x86_64": """\
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
; 0x9fc0: flush to zero, denormals are zero, round to nearest, no traps
define i64 @ws_enter() {
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %old = load i32, ptr %p
  store i32 40896, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  %r = zext i32 %old to i64
  ret i64 %r
}
define void @ws_leave(i64 %old) {
  %p = alloca i32
  %w = trunc i64 %old to i32
  store i32 %w, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}
""",
    "aarch64": """\
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
; bit 24: flush to zero, inputs included; round to nearest, no traps
define i64 @ws_enter() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 16777216)
  ret i64 %old
}
define void @ws_leave(i64 %old) {
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}
""",
}


@cache
def support_module(target: CpuTarget) -> str:
    """Return the support functions for a target, as LLVM text."""
    records = {"CONTEXT": CONTEXT, "POOL": POOL, "WORKER": WORKER, "CALL": CALL}
    words = {f"{record}.{name}": at for record, fields in records.items() for name, at in fields.items()}
    # Worker k, from 1, has share k: the records begin one before the first.
    words |= {"POOL_FIRST": POOL_BYTES - WORKER_BYTES, "WORKER_BYTES": WORKER_BYTES}
    threads = THREADS
    for name in sorted(words, key=len, reverse=True):
        threads = threads.replace(f"${name}", str(words[name]))
    built = [prefetch_function(), release_function(), gather_function(), call_entry()]
    return "".join([CONTROL[target.arch], threads, PAGE_HINT_DECLARATIONS, *built])
