"""The entry function of a profiled program: each thread reads the clock before and after each kernel and routine.

The record of a run is an array of 64-bit words in the last slot of the table: `RECORD_HEAD` words, then for each step
its number of runs and its nanoseconds, then a list of events; events beyond the capacity are dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from wholestep.backends.cpu.entry_function import EntryFunction, KernelFunction, parallel_steps
from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.size_table import SizeTable
from wholestep.kernel.lang import Kernel
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, RoutineCall, Step, walk_steps

RECORD_HEAD = 2
"""Words before the sums: the number of events, and the capacity of the list."""
EVENT_WORDS = 4
"""Words of an event: twice the number of the step, plus 1 for a thread's share of it; the thread; begin; end."""
CLOCK_SYMBOL, THREAD_SYMBOL = "clock.now", "clock.thread"
"""External symbols: the system's clock and the identity of a thread."""

FORWARD_CLOCK = {"darwin": 8}
"""The argument of clock_gettime for a monotonic clock, by system; CLOCK_MONOTONIC, 1, on all others. macOS has
CLOCK_UPTIME_RAW, since it counts CLOCK_MONOTONIC in microseconds."""


def timed_steps(plan: LoweredProgram) -> list[Launch | RoutineCall]:
    """Return the steps that are timed, in the order of their numbers."""
    return [step for step in walk_steps(plan.steps) if isinstance(step, Launch | RoutineCall)]


def record_words(steps: int, capacity: int) -> int:
    """Return the number of words of a record."""
    return RECORD_HEAD + 2 * steps + EVENT_WORDS * capacity


def clock_functions(platform: str) -> list[str]:
    """Return `i64 now()` and `i64 thread()` for a system by Python's name, and their declarations.

    They are clock_gettime and pthread_self, or QueryPerformanceCounter, in its own ticks, and GetCurrentThreadId.
    """
    now, thread = FunctionBuilder("i64", "now", ()), FunctionBuilder("i64", "thread", ())
    if platform == "win32":
        declared = 'declare i32 @"clock.now"(ptr)\ndeclare i32 @"clock.thread"()\n'
        room = now.let("alloca i64")
        now.let(f'call i32 @"clock.now"(ptr {room})')
        time = now.load("i64", room)
        narrow = thread.let('call i32 @"clock.thread"()')
        number = thread.let(f"zext i32 {narrow} to i64")
    else:
        declared = 'declare i32 @"clock.now"(i32, ptr)\ndeclare i64 @"clock.thread"()\n'
        room = now.let("alloca [2 x i64]")
        now.let(f'call i32 @"clock.now"(i32 {FORWARD_CLOCK.get(platform, 1)}, ptr {room})')
        seconds, rest = now.load("i64", room), now.load("i64", room, "1")
        time = now.let(f"add i64 {now.let(f'mul i64 {seconds}, 1000000000')}, {rest}")
        number = thread.let('call i64 @"clock.thread"()')
    return [declared, now.text(f"ret i64 {time}"), thread.text(f"ret i64 {number}")]


def event_function(steps: int) -> str:
    """Return `void event(record, what, begin, end)`: append an event where there is room."""
    f = FunctionBuilder("void", "event", (("ptr", "record"), ("i64", "what"), ("i64", "begin"), ("i64", "end")))
    number = f.let("atomicrmw add ptr %record, i64 1 monotonic")

    def keep() -> None:
        first = f.let(f"mul i64 {number}, {EVENT_WORDS}")
        event = f.at("%record", f.let(f"add i64 {first}, {record_words(steps, 0)}"), 8)
        for word, value in enumerate(("%what", f.let("call i64 @thread()"), "%begin", "%end")):
            f.store("i64", value, event, str(word))

    f.when(f.let(f"icmp ult i64 {number}, {f.load('i64', '%record', '1')}"), keep)
    return f.text("ret void")


def ended_function() -> str:
    """Return `void ended(record, step, begin)`: add a run to the sums of a step, and append its event."""
    f = FunctionBuilder("void", "ended", (("ptr", "record"), ("i64", "step"), ("i64", "begin")))
    end, words = f.let("call i64 @now()"), f.let("mul i64 %step, 2")
    sums = f.at("%record", f.let(f"add i64 {words}, {RECORD_HEAD}"), 8)
    f.store("i64", f.let(f"add i64 {f.load('i64', sums)}, 1"), sums)
    took = f.let(f"sub i64 {end}, %begin")
    f.store("i64", f.let(f"add i64 {f.load('i64', sums, '1')}, {took}"), sums, "1")
    f.do(f"call void @event(ptr %record, i64 {words}, i64 %begin, i64 {end})")
    return f.text("ret void")


def share_function(name: str, kernel: str, width: int) -> str:
    """Return a kernel that records the share of a thread; the record is passed behind the words that it reads."""
    f = FunctionBuilder("void", name, (("ptr", "args"), ("i64", "low"), ("i64", "high")))
    record, what = f.load("ptr", "%args", str(width)), f.load("i64", "%args", str(width + 1))
    begin = f.let("call i64 @now()")
    f.do(f"call void @{kernel}(ptr %args, i64 %low, i64 %high)")
    end = f.let("call i64 @now()")
    f.do(f"call void @event(ptr {record}, i64 {what}, i64 {begin}, i64 {end})")
    return f.text("ret void")


def notes_text(steps: int, platform: str) -> str:
    """Return the functions that write a record, for a system by Python's name."""
    return "".join([*clock_functions(platform), event_function(steps), ended_function()])


class ProfiledEntry(EntryFunction):
    """An entry function that keeps a record."""

    spare = 2

    def __init__(self, plan: LoweredProgram, functions: Mapping[Kernel, KernelFunction], sizes: SizeTable) -> None:
        super().__init__(plan, functions, sizes)
        self.numbers = {id(step): n for n, step in enumerate(timed_steps(plan))}
        self.slot = 2 + len(plan.slots) + plan.has_loops
        self.symbols |= {CLOCK_SYMBOL, THREAD_SYMBOL}
        self.parts.append(notes_text(len(self.numbers), sys.platform))

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
        kernel, width = super().function(step), self.words(step)
        if not (step.parallel and parallel_steps(step) != 1):
            return kernel
        for place, value in ((width, "ptr %record"), (width + 1, f"i64 {2 * self.numbers[id(step)] + 1}")):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * place}")
            self.do(f"store {value}, ptr {at}")
        return self.inner_function(f"share {kernel} {width}", lambda name: share_function(name, kernel, width))
