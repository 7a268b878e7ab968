"""Failure points: a test of whether a program may fail after it has written resident memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from wholestep.lower.program.steps import (
    SIZED_ROUTINES,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    WhileLoop,
    nested_steps,
    touched_ranges,
)


def fails_late(steps: Sequence[Step], resident: Collection[int]) -> bool:
    """Return whether a program may fail after it has written resident memory, as in the second trip of a loop."""
    return FailureOrder(resident).follow(steps)


class FailureOrder:
    """A walk over steps in the order of execution, with two trips of each loop."""

    def __init__(self, resident: Collection[int]) -> None:
        self.resident = resident
        self.written = False
        self.around = 0
        """The number of surrounding loops."""

    def follow(self, steps: Sequence[Step]) -> bool:
        """Return whether one of the steps may fail after resident memory was written."""
        return any([self.stored_late(step) for step in steps])

    def stored_late(self, step: Step) -> bool:
        if isinstance(step, StatusCheck):
            return self.written
        if isinstance(step, Launch | RoutineCall):
            before = self.written
            self.written = before or any(ref.slot in self.resident for ref in self.touched(step))
            return before and isinstance(step, RoutineCall) and step.fallible
        if not isinstance(step, ForLoop | WhileLoop):
            return any([self.follow(part) for part in nested_steps(step)])
        self.around += 1
        found = any([self.follow(part) for _ in range(2) for part in nested_steps(step)])
        self.around -= 1
        return found

    def touched(self, step: Launch | RoutineCall) -> Iterator[MemRef]:
        """The buffers that a step may write before a later failure. A fallible routine writes only if it succeeds, so
        that its writes count inside loops alone.
        """
        if isinstance(step, RoutineCall) and step.routine not in SIZED_ROUTINES:
            return iter(step.refs if self.around or not step.fallible else ())
        return (ref for ref, _, read in touched_ranges(step) if not read)
