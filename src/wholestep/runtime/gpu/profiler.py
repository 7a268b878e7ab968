"""Profiled programs on a card: its clock is read before and after each launch and copy, none of which is in a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from wholestep.ir.graph import NDArray
from wholestep.lower.program.steps import ForLoop, Launch, RoutineCall
from wholestep.runtime.backend import ProfileRecord, TimedEvent
from wholestep.runtime.gpu.card_steps import DeviceSteps, NumberedLaunch, launches_and_copies
from wholestep.runtime.gpu.driver import DeviceClock
from wholestep.runtime.gpu.executable import CardExecutable, CardInstance

MAX_EVENTS = 1 << 17
"""The capacity of a record in events; later events count in the sums alone."""
READ_EVERY = 2048
"""The number of launches after which the clock is read, so that a long run does not fill a card with stamps."""


class ProfiledInstance(CardInstance):
    """A program on resident arrays of its own, whose launches and copies are timed."""

    def __init__(self, program: CardExecutable, state: Sequence[Any], clock: DeviceClock) -> None:
        super().__init__(program, state)
        self.clock = clock
        self.numbers = {id(step): n for n, step in enumerate(launches_and_copies(self.code.program.steps))}
        self.restart()

    def restart(self) -> None:
        """Discard all timings."""
        self.runs, self.nanoseconds = [0] * len(self.numbers), [0.0] * len(self.numbers)
        self.stamped: list[int] = []
        self.events: list[TimedEvent] = []
        self.missing = 0
        self.clock.restart()

    def launch(self, step: NumberedLaunch) -> None:
        self.timed(step, super().launch)

    def copy(self, step: RoutineCall) -> None:
        self.timed(step, super().copy)

    def repeat_steps(self, step: DeviceSteps) -> None:
        self.run(step.steps)

    def repeat_trips(self, step: ForLoop, begin: int, end: int) -> None:
        self.run_trips(step, begin, end)

    def timed(self, step: Any, work: Callable[[Any], None]) -> None:
        """Run a step between two stamps of the clock."""
        self.clock.stamp()
        work(step)
        self.clock.stamp()
        self.stamped.append(self.numbers[id(step)])
        if len(self.stamped) == READ_EVERY:
            self.read()

    def read(self) -> None:
        """Read the clock, and add the new timings to the sums and events."""
        times = self.clock.read()
        for number, begin, end in zip(self.stamped, times[::2], times[1::2], strict=True):
            self.runs[number] += 1
            self.nanoseconds[number] += end - begin
            if len(self.events) < MAX_EVENTS:
                self.events.append(TimedEvent(number, False, 0, begin, end))
            else:
                self.missing += 1
        self.stamped.clear()


class ProfiledCardProgram:
    """A program on copies of its resident arrays; `timed` are the steps of the plan that each launch and copy runs."""

    def __init__(
        self,
        program: CardExecutable,
        timed: Sequence[tuple[Launch | RoutineCall, ...]],
        state: Sequence[Any],
        clock: DeviceClock,
    ) -> None:
        memory = program.memory
        copies = [memory.allocate(x.shape, x.dtype) for x in state]
        for made, x in zip(copies, state, strict=True):
            memory.copy(made, x)
        self.timed = timed
        self.instance = ProfiledInstance(program, copies, clock)
        assert len(timed) == len(self.instance.numbers)

    def __call__(self, arrays: Sequence[NDArray]) -> ProfileRecord:
        """Run once on the state after the last run, and return the timing."""
        made = self.instance
        made.restart()
        before = time.perf_counter()
        made(arrays)
        seconds = time.perf_counter() - before
        made.read()
        return ProfileRecord(seconds, tuple(made.runs), tuple(made.nanoseconds), tuple(made.events), made.missing)
