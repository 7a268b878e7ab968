"""What every program links with: entering and leaving, the fork-join over threads, the first error, reading arguments.

A program is `i32 entry(ptr table, ptr context)`: `table` holds one base pointer per slot, `context` is laid out as
`CONTEXT` says. It returns 0, or 1 after `ws_fail`. Its floating-point state is set by `ws_run`, which calls it.
"""

from __future__ import annotations

import mmap
from functools import cache

from wholestep.backends.cpu.fork_join import THREADS
from wholestep.backends.cpu.gather import GATHER, GATHER_HEAD
from wholestep.backends.cpu.pages import DONTNEED
from wholestep.backends.cpu.target import Target


def _layout(*names: str) -> dict[str, int]:
    """The byte offset of each word of a record of eight-byte words."""
    return {name: 8 * place for place, name in enumerate(names)}


CONTEXT = _layout(
    "threads",  # how many shares `ws_parallel` makes; set by `ws_run`
    "pool",  # the pool's memory, or null
    "stop",  # not 0: end after the trip of the outermost loop; written by another thread while the program runs
    "trips",  # trips of the outermost loop that are complete; written by the program
    "status",  # 0, or 1 where `ws_fail` was called
    "site",  # which place failed first, and what was wrong there
    "value",
    "axis",
    "size",
    "position",
    "lock",  # held while a failure is written
    "notes",  # where notes for the thread that reads files ahead are left, or null
)
CONTEXT_BYTES = 128

POOL = {
    "owner": 0,  # 1 while a program has the threads
    "threads": 8,  # how many threads a program gets, its own included
    "spins": 128,  # how many pauses a thread waits before it sleeps
    "stop": 136,  # 1: the workers return for good
}
"""What programs write and what waiting workers read lie on different pairs of cache lines."""
POOL_BYTES = 256
"""The workers follow the head of the pool, each on two pairs of cache lines: what is asked of it, what it answers."""

WORKER = _layout("state", "function", "arguments", "low", "high", "bell") | {"done": 128, "asleep": 136, "own": 192}
WORKER_BYTES = 256
"""`state` is odd while the worker has nothing to do; an even number is a share that it, or the caller, may claim.

A worker that has had nothing for a while sets `asleep` and waits at its `bell`; who sets `asleep` back to 0 rings.
`own` is room for what the system keeps of the bell.
"""

NOTES = {"count": 0, "bell": 8, "own": 64, "first": 128}
"""Notes about what will be read: how many there were, whom to ring for, and the first of those that are kept."""
NOTES_KEPT = 64
NOTE = _layout("start", "nbytes", "number") | {"size": 64}
"""A note is valid once its number is one more than how many there were before it; with 0 bytes it was taken back."""
NOTES_BYTES = NOTES["first"] + NOTES_KEPT * NOTE["size"]

CALL = _layout("ask", "program", "table", "context")
"""What a call needs, in one record, so that Python hands over one pointer."""

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

PAGES = """\
declare i32 @ws_madvise(ptr, i64, i32)

; Leave a note that these bytes of a file will be read soon.
define void @ws_soon(ptr %context, ptr %at, i64 %nbytes) {
entry:
  %notes.at = getelementptr i8, ptr %context, i64 $CONTEXT.notes
  %notes = load ptr, ptr %notes.at
  %none = icmp eq ptr %notes, null
  %empty = icmp sle i64 %nbytes, 0
  %idle = or i1 %none, %empty
  br i1 %idle, label %end, label %write
write:
  %before = atomicrmw add ptr %notes, i64 1 monotonic, align 8
  %place = urem i64 %before, $NOTES_KEPT
  %first = getelementptr i8, ptr %notes, i64 $NOTES.first
  %note = getelementptr [$NOTE_BYTES x i8], ptr %first, i64 %place
  %number.at = getelementptr i8, ptr %note, i64 $NOTE.number
  store atomic i64 0, ptr %number.at seq_cst, align 8
  store ptr %at, ptr %note
  %nbytes.at = getelementptr i8, ptr %note, i64 $NOTE.nbytes
  store i64 %nbytes, ptr %nbytes.at
  %number = add i64 %before, 1
  store atomic i64 %number, ptr %number.at seq_cst, align 8
  %bell.at = getelementptr i8, ptr %notes, i64 $NOTES.bell
  %bell = load ptr, ptr %bell.at
  %ignored = call i32 @ws_ring(ptr %bell, i64 1, ptr null)
  br label %end
end:
  ret void
}

; Let go of the pages that hold these bytes of a file, and take back the note about them if it was not read yet.
define void @ws_done(ptr %context, ptr %at, i64 %nbytes) {
entry:
  %notes.at = getelementptr i8, ptr %context, i64 $CONTEXT.notes
  %notes = load ptr, ptr %notes.at
  %none = icmp eq ptr %notes, null
  br i1 %none, label %tell, label %begin
begin:
  %first = getelementptr i8, ptr %notes, i64 $NOTES.first
  br label %look
look:
  %i = phi i64 [ 0, %begin ], [ %i.next, %on ]
  %note = getelementptr [$NOTE_BYTES x i8], ptr %first, i64 %i
  %start = load ptr, ptr %note
  %same = icmp eq ptr %start, %at
  br i1 %same, label %take, label %on
take:
  %nbytes.at = getelementptr i8, ptr %note, i64 $NOTE.nbytes
  store i64 0, ptr %nbytes.at
  br label %on
on:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, $NOTES_KEPT
  br i1 %more, label %look, label %tell
tell:
  %low = ptrtoint ptr %at to i64
  %high = add i64 %low, %nbytes
  %page = and i64 %low, -$PAGE
  %size = sub i64 %high, %page
  %start.page = inttoptr i64 %page to ptr
  %done = call i32 @ws_madvise(ptr %start.page, i64 %size, i32 $DONTNEED)
  ret void
}
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
def text(target: Target) -> str:
    """The support functions for a target, as LLVM text."""
    words = {f"CONTEXT.{name}": at for name, at in CONTEXT.items()}
    words |= {f"POOL.{name}": at for name, at in POOL.items()}
    words |= {f"WORKER.{name}": at for name, at in WORKER.items()}
    words |= {f"CALL.{name}": at for name, at in CALL.items()}
    # Worker k, from 1, has share k: the records begin one before the first.
    words |= {"POOL_FIRST": POOL_BYTES - WORKER_BYTES, "WORKER_BYTES": WORKER_BYTES}
    words |= {f"NOTES.{name}": at for name, at in NOTES.items()} | {f"NOTE.{name}": at for name, at in NOTE.items()}
    words |= {"NOTES_KEPT": NOTES_KEPT, "NOTE_BYTES": NOTE["size"], "PAGE": mmap.PAGESIZE, "DONTNEED": DONTNEED}
    words |= {"HEAD_BYTES": 8 * len(GATHER_HEAD)}
    lines = [
        f"  %{name}.p = getelementptr i64, ptr %ask, i64 {place}\n  %{name}.v = load i64, ptr %{name}.p\n"
        for place, name in enumerate(GATHER_HEAD)
        if place
    ]
    whole = CONTROL[target.arch] + THREADS + PAGES + GATHER.replace("$HEAD ", "".join(lines) + " ", 1)
    for name in sorted(words, key=len, reverse=True):
        whole = whole.replace(f"${name}", str(words[name]))
    return whole
