"""Cache reuse: the bytes of each kernel that come from memory, since the caches have evicted them."""

from __future__ import annotations

from wholestep.dims import Size, most
from wholestep.kernel.lang import Kernel
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates, distinct_bytes, total_microseconds
from wholestep.lower.program.steps import (
    COPY_ROUTINES,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    Step,
    Switch,
    nested_steps,
)

Key = tuple[int, Size, tuple[tuple[int, int], ...]]
"""A place in memory: a slot, an offset, and the number and current trip of each loop that it moves with."""


class CacheSimulation:
    """A simulation of the caches over a program's kernels, with a clock that counts the bytes that are touched.

    A place is missed if more bytes than the caches hold were touched since its last access, as with LRU eviction. Of a
    loop two trips are simulated, and the second one stands for all later trips.
    """

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.clock = 0.0
        self.last: dict[Key, float] = {}
        self.trips: dict[int, int] = {}
        self.sizes: dict[Kernel, list[int]] = {}
        self.missed: dict[int, float] = {}

    def through(self, steps: tuple[Step, ...], weight: float = 1.0) -> None:
        """Simulate steps, whose misses count with a weight: the fraction of all their runs that this run stands for."""
        for step in steps:
            if isinstance(step, Launch | RoutineCall):
                self.touch(step, weight)
            elif isinstance(step, ForLoop) and step.trips:
                self.around(step, weight)
            elif isinstance(step, Switch):
                self.through(max(step.cases, key=lambda case: total_microseconds(case, self.rates), default=()), weight)
            elif not isinstance(step, ForLoop):
                for inner in nested_steps(step):
                    self.through(inner, weight)

    def touch(self, step: Launch | RoutineCall, weight: float) -> None:
        """Simulate one kernel or copy."""
        places = self.places(step)
        old = [
            n
            for key, n in places.items()
            if self.clock - self.last.get(key, -self.rates.cached) + n > self.rates.cached
        ]
        self.missed[id(step)] = self.missed.get(id(step), 0.0) + weight * sum(old)
        self.clock += sum(places.values())
        self.last.update(dict.fromkeys(places, self.clock))

    def around(self, loop: ForLoop, weight: float) -> None:
        """Simulate a loop: places that do not move with it have the same age after the second trip and the last one."""
        self.trips[loop.loop] = 0
        self.through(loop.body, weight / loop.trips)
        if loop.trips == 1:
            return
        before = self.clock
        self.trips[loop.loop] = 1
        self.through(loop.body, weight * (loop.trips - 1) / loop.trips)
        rest = (loop.trips - 2) * (self.clock - before)
        self.clock += rest
        for key, then in self.last.items():
            if then > before and all(number != loop.loop for number, _ in key[2]):
                self.last[key] = then + rest

    def places(self, step: Launch | RoutineCall) -> dict[Key, int]:
        """The places that a step touches, with the bytes of each."""
        if isinstance(step, RoutineCall):
            return {self.key(ref): step.params[0] for ref in step.refs} if step.routine in COPY_ROUTINES else {}
        if step.kernel not in self.sizes:
            found = distinct_bytes(step.kernel)
            self.sizes[step.kernel] = [most(found.get(buffer, 0)) for buffer in step.kernel.buffers]
        places: dict[Key, int] = {}
        for ref, nbytes in zip(step.refs, self.sizes[step.kernel], strict=True):
            places[self.key(ref)] = places.get(self.key(ref), 0) + nbytes
        return places

    def key(self, ref: MemRef) -> Key:
        """A place in the trips that the loops are in."""
        return ref.slot, ref.offset, tuple([(loop, self.trips[loop]) for loop, _ in ref.moves])


def cache_misses(steps: tuple[Step, ...], rates: Rates = DEFAULT_RATES) -> dict[int, float]:
    """By the id of each kernel or copy, the bytes that a run of it brings from memory, when the program runs again."""
    walk = CacheSimulation(rates)
    walk.through(steps)
    walk.missed.clear()
    walk.through(steps)
    return walk.missed
