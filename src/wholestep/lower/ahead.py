"""Ahead: what comes back from the scratch file is asked for so early that the disk has read it when it is needed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from wholestep.lower.cost import Rates, total
from wholestep.lower.plan import BACK, OUT, Branch, Call, Repeat, Step, While
from wholestep.lower.streaming import WANTED


def ahead(steps: Sequence[Step], rates: Rates) -> tuple[Step, ...]:
    """The steps with advice for every value that comes back: as late as the predicted time to read it allows.

    The disk reads one value after another, so the last is placed first, and each has been read when the next begins. A
    value is asked for after it was written and after it came back before.
    """
    own = [inside(step, rates) for step in steps]
    coming = [i for i, step in enumerate(own) if isinstance(step, Call) and step.routine == BACK]
    if not coming:
        return tuple(own)
    memory = rates._replace(disk_write=math.inf, disk_read=math.inf)
    starts = list(accumulate([total((step,), memory) for step in own], initial=0.0))
    asked: dict[int, list[Call]] = {}
    busy = starts[-1]
    for i in reversed(coming):
        back = own[i]
        assert isinstance(back, Call)
        busy = min(starts[i], busy) - 1e6 * back.params[0] / rates.disk_read
        at = max(free_from(own, i), bisect_right(starts, busy) - 1)
        busy = max(busy, starts[at])
        if at < i:
            asked.setdefault(at, []).insert(0, Call(WANTED, (back.refs[1],), (back.params[0], 0), back.where))
    return tuple([new for i, step in enumerate(own) for new in (*asked.get(i, ()), step)])


def inside(step: Step, rates: Rates) -> Step:
    """A step with the same done to the lists of steps in it."""
    if isinstance(step, Repeat):
        return replace(step, body=ahead(step.body, rates))
    if isinstance(step, While):
        return replace(step, test=ahead(step.test, rates), body=ahead(step.body, rates))
    if isinstance(step, Branch):
        return replace(step, cases=tuple([ahead(case, rates) for case in step.cases]))
    return step


def free_from(steps: Sequence[Step], i: int) -> int:
    """The first step before which the value that comes back at i may be asked for."""
    back = steps[i]
    assert isinstance(back, Call)
    for j in range(i - 1, -1, -1):
        step = steps[j]
        if isinstance(step, Call) and (step.routine, step.refs[:1]) == (OUT, back.refs[1:]):
            return j + 1
        if isinstance(step, Call) and (step.routine, step.refs[1:]) == (BACK, back.refs[1:]):
            return j + 1
    return i
