"""Lateness: whether a program may fail when it has already written what its caller keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from wholestep.lower.plan import COPIES, Call, Check, Launch, Ref, Repeat, Step, While, parts
from wholestep.lower.streaming import SIZED


def fails_late(steps: Sequence[Step], resident: Collection[int]) -> bool:
    """Whether a program may be left after it has written resident memory, as in the second trip of a loop."""
    return Lateness(resident).follow(steps)


class Lateness:
    """Goes through steps in the order in which they run, loops twice."""

    def __init__(self, resident: Collection[int]) -> None:
        self.resident = resident
        self.written = False
        self.around = 0
        """How many loops are around."""

    def follow(self, steps: Sequence[Step]) -> bool:
        """Whether one of the steps may fail when something resident has been written."""
        return any([self.late(step) for step in steps])

    def late(self, step: Step) -> bool:
        if isinstance(step, Check):
            return self.written
        if isinstance(step, Launch | Call):
            before = self.written
            self.written = before or any(ref.slot in self.resident for ref in self.touched(step))
            return before and isinstance(step, Call) and step.routine not in SIZED
        if not isinstance(step, Repeat | While):
            return any([self.follow(part) for part in parts(step)])
        self.around += 1
        found = any([self.follow(part) for _ in range(2) for part in parts(step)])
        self.around -= 1
        return found

    def touched(self, step: Launch | Call) -> Iterator[Ref]:
        """What a step may write. A routine that can fail writes when it has not; outside of loops that is the last."""
        if isinstance(step, Call) and step.routine not in SIZED and self.around:
            return iter(step.refs)
        return written(step)


def written(step: Launch | Call) -> Iterator[Ref]:
    """The places that a kernel or a copy writes."""
    if isinstance(step, Launch):
        yield from (ref for ref, buffer in zip(step.refs, step.kernel.buffers, strict=True) if buffer.written)
    elif step.routine in COPIES:
        yield step.refs[0]
