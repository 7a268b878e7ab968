"""A compiled program made once more, with a clock between its kernels, to see what takes how long."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.backends.cpu.compiler import source
from wholestep.backends.cpu.stamps import EVENT, HEAD, Stamped, measured, words
from wholestep.ir.graph import NDArray
from wholestep.lower.cost import repeated
from wholestep.lower.plan import Call, Launch, Plan, While
from wholestep.runtime import clock, pool
from wholestep.runtime.artefact import Slot
from wholestep.runtime.compiled import Compiled, artefact, entry_of, undisturbed
from wholestep.runtime.mapped import own_copy
from wholestep.runtime.native import NativeProgram

MOST = 1 << 17
"""How many events a record has room for: 4 MB; the sums go on beyond."""


class Event(NamedTuple):
    """A kernel, a routine, or a thread's share of a kernel, from when to when, in nanoseconds."""

    step: int
    share: bool
    thread: int
    begin: float
    end: float


class Record(NamedTuple):
    """What one run took."""

    seconds: float
    """From call to return."""
    runs: tuple[int, ...]
    """How often each step ran."""
    nanoseconds: tuple[float, ...]
    """How long each step took, all its runs together."""
    events: tuple[Event, ...]
    """In the order in which they ended."""
    missing: int
    """How many events there was no room for."""


class Recorder:
    """A program on copies of its resident arrays; `steps` are the kernels and routines that are timed."""

    @undisturbed()
    def __init__(self, program: Compiled, state: Sequence[NDArray]) -> None:
        plan, graph, target = program.plan, program.graph, program.target
        self.steps = measured(plan)
        self.capacity = int(min(MOST, events(plan)))
        entry = entry_of(graph, plan, source(plan, target, Stamped), target, program.resident)
        made = artefact(graph, entry, program.resident)
        nbytes = 8 * words(len(self.steps), self.capacity)
        room = Slot("arena", np.dtype(np.uint8), (nbytes,), nbytes)
        made = dataclasses.replace(made, slots=(*made.slots, room), microseconds=1e9)
        self.instance = NativeProgram(graph, made, streams=program.streams).instance(list(map(own_copy, state)))
        self.record = self.instance.memory(len(made.slots) - 1).view(np.int64)

    def __call__(self, arrays: Sequence[NDArray]) -> Record:
        """Run once on what the last run left, and say what it took."""
        self.record[: words(len(self.steps), 0)] = 0
        self.record[1] = self.capacity
        before = time.perf_counter()
        self.instance(arrays)
        seconds = time.perf_counter() - before
        return self.read(seconds)

    def read(self, seconds: float) -> Record:
        """What the last run wrote."""
        tick, first = clock.nanoseconds(), words(len(self.steps), 0)
        sums = self.record[HEAD:first].reshape(-1, 2)
        count = int(self.record[0])
        kept = self.record[first:].reshape(-1, EVENT)[:count].tolist()
        found = [Event(what // 2, bool(what % 2), who, tick * a, tick * b) for what, who, a, b in kept]
        runs, times = sums[:, 0].tolist(), (sums[:, 1] * tick).tolist()
        return Record(seconds, tuple(runs), tuple(times), tuple(found), count - len(kept))


def events(plan: Plan) -> float:
    """Up to how many events a run makes: any number where a loop asks."""
    found = list(repeated(plan.steps))
    if any(isinstance(step, While) for step, _ in found):
        return math.inf
    shares = pool.thread_count()
    each = [n * (1 + shares * (isinstance(s, Launch) and s.parallel)) for s, n in found if isinstance(s, Launch | Call)]
    return sum(each)
