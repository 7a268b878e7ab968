"""The entry function with a look at the clock before and after each kernel and routine, in every thread involved.

What was seen goes into a record, an array of 64-bit words in a slot of the table behind all others: `HEAD` words, then
for each step how often it ran and its nanoseconds, then a list of events, of which those beyond the capacity are left
out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from wholestep.backends.cpu.entry import Printer, points
from wholestep.backends.cpu.sizes import SizeTable
from wholestep.lower.plan import Call, Launch, Plan, Step, every_step

HEAD = 2
"""Words before the sums: how many events there were, and how many there is room for."""
EVENT = 4
"""Words of an event: twice the number of the step, plus 1 for a thread's share of it; the thread; begin; end."""
NOW, THREAD = "clock.now", "clock.thread"
"""What the runtime must bring: the system's clock, and what tells one thread from another."""

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
"""A thread's share of a kernel; where to note it is passed behind the kernel's own pointers."""


def measured(plan: Plan) -> list[Launch | Call]:
    """The steps that are timed: their places in this list are their numbers."""
    return [step for step in every_step(plan.steps) if isinstance(step, Launch | Call)]


def words(steps: int, capacity: int) -> int:
    """How many words a record takes."""
    return HEAD + 2 * steps + EVENT * capacity


def notes_text(steps: int, platform: str) -> str:
    """The functions that write a record of so many steps, for a system by Python's name."""
    clock = WINDOWS if platform == "win32" else POSIX.replace("CLOCK", str(FORWARD.get(platform, 1)))
    facts = {"%n, EVENT": f"%n, {EVENT}", "%words, EVENTS": f"%words, {words(steps, 0)}", "HEAD": str(HEAD)}
    notes = NOTES.replace("i64 WHAT", "i64 %words")
    for name, value in facts.items():
        notes = notes.replace(name, value)
    return clock + notes


class Stamped(Printer):
    """Writes an entry function that keeps a record."""

    spare = 2

    def __init__(self, plan: Plan, names: Mapping[int, str], sizes: SizeTable) -> None:
        super().__init__(plan, names, sizes)
        self.numbers = {id(step): n for n, step in enumerate(measured(plan))}
        self.slot = 2 + len(plan.slots) + plan.looped
        self.symbols |= {NOW, THREAD}
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
        """A kernel that is shared out is called through what notes each thread's share."""
        kernel, width = super().function(step), len(step.refs)
        if not (step.parallel and points(step) != 1):
            return kernel
        for place, value in ((width, "ptr %record"), (width + 1, f"i64 {2 * self.numbers[id(step)] + 1}")):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * place}")
            self.do(f"store {value}, ptr {at}")
        text = SHARE.replace("KERNEL", kernel).replace("WIDTH", str(width)).replace("NEXT", str(width + 1))
        return self.routine(f"share {kernel} {width}", lambda name: text.replace("NAME", name))
