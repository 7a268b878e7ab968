"""The entry function of a profiled program: each thread reads the clock before and after each kernel and routine.

The record of a run is an array of 64-bit words in the last slot of the table: `RECORD_HEAD` words, then for each step
its number of runs and its nanoseconds, then a list of events; events beyond the capacity are dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from wholestep.backends.cpu.entry_function import EntryFunction, parallel_steps
from wholestep.backends.cpu.size_table import SizeTable
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, RoutineCall, Step, walk_steps

RECORD_HEAD = 2
"""Words before the sums: the number of events, and the capacity of the list."""
EVENT_WORDS = 4
"""Words of an event: twice the number of the step, plus 1 for a thread's share of it; the thread; begin; end."""
CLOCK_SYMBOL, THREAD_SYMBOL = "clock.now", "clock.thread"
"""External symbols: the system's clock and the identity of a thread."""

POSIX = """
define internal i64 @now() {
  %room = alloca [2 x i64]
  %code = call i32 @"clock.now"(i32 CLOCK, ptr %room)
  %seconds = load i64, ptr %room
  %rest.at = getelementptr i64, ptr %room, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}
declare i32 @"clock.now"(i32, ptr)
declare i64 @"clock.thread"()
define internal i64 @thread() {
  %number = call i64 @"clock.thread"()
  ret i64 %number
}
"""
"""clock_gettime with a clock that only goes forward, and pthread_self."""
FORWARD = {"darwin": 8}
"""CLOCK_UPTIME_RAW, since macOS counts CLOCK_MONOTONIC in microseconds; 1 is CLOCK_MONOTONIC elsewhere."""
WINDOWS = """
define internal i64 @now() {
  %room = alloca i64
  %code = call i32 @"clock.now"(ptr %room)
  %ticks = load i64, ptr %room
  ret i64 %ticks
}
declare i32 @"clock.now"(ptr)
declare i32 @"clock.thread"()
define internal i64 @thread() {
  %number = call i32 @"clock.thread"()
  %wide = zext i32 %number to i64
  ret i64 %wide
}
"""
"""QueryPerformanceCounter, in its own ticks, and GetCurrentThreadId."""

NOTES = """
define internal void @event(ptr %record, i64 %what, i64 %begin, i64 %end) {
entry:
  %n = atomicrmw add ptr %record, i64 1 monotonic
  %capacity.at = getelementptr i64, ptr %record, i64 1
  %capacity = load i64, ptr %capacity.at
  %fits = icmp ult i64 %n, %capacity
  br i1 %fits, label %keep, label %done
keep:
  %words = mul i64 %n, EVENT
  %first = add i64 %words, EVENTS
  %at = getelementptr i64, ptr %record, i64 %first
  store i64 %what, ptr %at
  %thread = call i64 @thread()
  %thread.at = getelementptr i64, ptr %at, i64 1
  store i64 %thread, ptr %thread.at
  %begin.at = getelementptr i64, ptr %at, i64 2
  store i64 %begin, ptr %begin.at
  %end.at = getelementptr i64, ptr %at, i64 3
  store i64 %end, ptr %end.at
  br label %done
done:
  ret void
}
define internal void @ended(ptr %record, i64 %step, i64 %begin) noinline {
  %end = call i64 @now()
  %words = mul i64 %step, 2
  %first = add i64 %words, HEAD
  %runs.at = getelementptr i64, ptr %record, i64 %first
  %runs = load i64, ptr %runs.at
  %runs.new = add i64 %runs, 1
  store i64 %runs.new, ptr %runs.at
  %time.at = getelementptr i64, ptr %runs.at, i64 1
  %time = load i64, ptr %time.at
  %took = sub i64 %end, %begin
  %time.new = add i64 %time, %took
  store i64 %time.new, ptr %time.at
  call void @event(ptr %record, i64 WHAT, i64 %begin, i64 %end)
  ret void
}
"""
SHARE = """
define internal void @NAME(ptr %args, i64 %low, i64 %high) {
  %record.at = getelementptr ptr, ptr %args, i64 WIDTH
  %record = load ptr, ptr %record.at
  %what.at = getelementptr ptr, ptr %args, i64 NEXT
  %what = load i64, ptr %what.at
  %begin = call i64 @now()
  call void @KERNEL(ptr %args, i64 %low, i64 %high)
  %end = call i64 @now()
  call void @event(ptr %record, i64 %what, i64 %begin, i64 %end)
  ret void
}
"""
"""Runs a thread's share of a kernel; the record is passed behind the kernel's own pointers."""


def timed_steps(plan: LoweredProgram) -> list[Launch | RoutineCall]:
    """Return the steps that are timed, in the order of their numbers."""
    return [step for step in walk_steps(plan.steps) if isinstance(step, Launch | RoutineCall)]


def record_words(steps: int, capacity: int) -> int:
    """Return the number of words of a record."""
    return RECORD_HEAD + 2 * steps + EVENT_WORDS * capacity


def notes_text(steps: int, platform: str) -> str:
    """Return the functions that write a record, for a system by Python's name."""
    clock = WINDOWS if platform == "win32" else POSIX.replace("CLOCK", str(FORWARD.get(platform, 1)))
    facts = {
        "%n, EVENT": f"%n, {EVENT_WORDS}",
        "%words, EVENTS": f"%words, {record_words(steps, 0)}",
        "HEAD": str(RECORD_HEAD),
    }
    notes = NOTES.replace("i64 WHAT", "i64 %words")
    for name, value in facts.items():
        notes = notes.replace(name, value)
    return clock + notes


class ProfiledEntry(EntryFunction):
    """An entry function that keeps a record."""

    spare = 2

    def __init__(self, plan: LoweredProgram, names: Mapping[int, str], sizes: SizeTable) -> None:
        super().__init__(plan, names, sizes)
        self.numbers = {id(step): n for n, step in enumerate(timed_steps(plan))}
        self.slot = 2 + len(plan.slots) + plan.has_loops
        self.symbols |= {CLOCK_SYMBOL, THREAD_SYMBOL}
        self.routine("stamps", lambda name: notes_text(len(self.numbers), sys.platform))

    def frame(self, steps: Sequence[Step]) -> None:
        super().frame(steps)
        at = self.let(f"getelementptr i8, ptr %table, i64 {8 * self.slot}")
        self.lines.append(f"  %record = load ptr, ptr {at}")

    def step(self, step: Step) -> None:
        if id(step) not in self.numbers:
            super().step(step)
            return
        begin = self.let("call i64 @now()")
        super().step(step)
        self.do(f"call void @ended(ptr %record, i64 {self.numbers[id(step)]}, i64 {begin})")

    def function(self, step: Launch) -> str:
        """Return the function of a kernel; a parallel one is wrapped to record each thread's share."""
        kernel, width = super().function(step), len(step.refs)
        if not (step.parallel and parallel_steps(step) != 1):
            return kernel
        for place, value in ((width, "ptr %record"), (width + 1, f"i64 {2 * self.numbers[id(step)] + 1}")):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * place}")
            self.do(f"store {value}, ptr {at}")
        text = SHARE.replace("KERNEL", kernel).replace("WIDTH", str(width)).replace("NEXT", str(width + 1))
        return self.routine(f"share {kernel} {width}", lambda name: text.replace("NAME", name))
