"""Prefetch placement: spilled values are prefetched early enough to hide the predicted time of the disk."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from wholestep.lower.cost.roofline import Rates, total_microseconds
from wholestep.lower.program.steps import PREFETCH_NOW, RELOAD_COPY, SPILL_COPY, RoutineCall, Step, map_nested


def place_prefetches(steps: Sequence[Step], rates: Rates) -> tuple[Step, ...]:
    """The steps with a prefetch for every reloaded value, as late as the predicted time to read it allows.

    The disk reads one value after another, so that the last prefetch is placed first, and each ends before the next one
    begins. The prefetch of a value comes after its spill and after its previous reload.
    """
    own = [map_nested(step, lambda nested: place_prefetches(nested, rates)) for step in steps]
    coming = [i for i, step in enumerate(own) if isinstance(step, RoutineCall) and step.routine == RELOAD_COPY]
    if not coming:
        return tuple(own)
    memory = rates._replace(disk_write=math.inf, disk_read=math.inf)
    starts = list(accumulate([total_microseconds((step,), memory) for step in own], initial=0.0))
    asked: dict[int, list[RoutineCall]] = {}
    busy = starts[-1]
    for i in reversed(coming):
        back = own[i]
        assert isinstance(back, RoutineCall)
        busy = min(starts[i], busy) - 1e6 * back.params[0] / rates.disk_read
        at = max(earliest_prefetch(own, i), bisect_right(starts, busy) - 1)
        busy = max(busy, starts[at])
        if at < i:
            asked.setdefault(at, []).insert(
                0, RoutineCall(PREFETCH_NOW, (back.refs[1],), (back.params[0], 0), back.where)
            )
    return tuple([new for i, step in enumerate(own) for new in (*asked.get(i, ()), step)])


def earliest_prefetch(steps: Sequence[Step], i: int) -> int:
    """The first step before which the value that step i reloads may be prefetched."""
    back = steps[i]
    assert isinstance(back, RoutineCall)
    for j in range(i - 1, -1, -1):
        step = steps[j]
        filed = {SPILL_COPY: step.refs[:1], RELOAD_COPY: step.refs[1:]} if isinstance(step, RoutineCall) else {}
        if isinstance(step, RoutineCall) and filed.get(step.routine) == back.refs[1:]:
            return j + 1
    return i
