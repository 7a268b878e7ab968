"""Profiled programs: a compiled program built again with reads of the clock around its kernels."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence

import numpy as np

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.profiled_entry import EVENT_WORDS, RECORD_HEAD, ProfiledEntry, record_words, timed_steps
from wholestep.collector import without_garbage_collection
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost.roofline import steps_with_counts
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, RoutineCall, WhileLoop
from wholestep.runtime.backend import ProfileRecord, TimedEvent
from wholestep.runtime.cpu import clock, thread_pool
from wholestep.runtime.cpu.artifact import TableSlot
from wholestep.runtime.cpu.artifact_entry import pack_entry, unpack_artifact
from wholestep.runtime.cpu.executable import NativeExecutable
from wholestep.runtime.memory.mapped_arrays import FileInputs, clone

MAX_EVENTS = 1 << 17
"""The capacity of a record in events, 4 MB; later events count in the sums alone."""


class ProfiledProgram:
    """A program on copies of its resident arrays; `timed` are its kernels and routines, each by itself."""

    @without_garbage_collection()
    def __init__(
        self,
        unit: CompilationUnit,
        plan: LoweredProgram,
        target: CpuTarget,
        streams: FileInputs,
        state: Sequence[NDArray],
    ) -> None:
        steps = timed_steps(plan)
        self.timed = [(step,) for step in steps]
        self.capacity = int(min(MAX_EVENTS, count_events(plan)))
        entry = pack_entry(unit, plan, target, ProfiledEntry)
        made = unpack_artifact(unit, entry)
        nbytes = 8 * record_words(len(steps), self.capacity)
        room = TableSlot("arena", np.dtype(np.uint8), (nbytes,), nbytes)
        made = dataclasses.replace(made, slots=(*made.slots, room), microseconds=1e9)
        self.instance = NativeExecutable(unit.graph, made, streams=streams).instance(list(map(clone, state)))
        self.record = self.instance.memory(len(made.slots) - 1).view(np.int64)

    def __call__(self, arrays: Sequence[NDArray]) -> ProfileRecord:
        """Run once on the state after the last run, and return the timing."""
        self.record[: record_words(len(self.timed), 0)] = 0
        self.record[1] = self.capacity
        before = time.perf_counter()
        self.instance(arrays)
        seconds = time.perf_counter() - before
        return self.read(seconds)

    def read(self, seconds: float) -> ProfileRecord:
        """Read the record of the last run."""
        tick, first = clock.tick_nanoseconds(), record_words(len(self.timed), 0)
        sums = self.record[RECORD_HEAD:first].reshape(-1, 2)
        count = int(self.record[0])
        kept = self.record[first:].reshape(-1, EVENT_WORDS)[:count].tolist()
        found = [TimedEvent(what // 2, bool(what % 2), who, tick * a, tick * b) for what, who, a, b in kept]
        runs, times = sums[:, 0].tolist(), (sums[:, 1] * tick).tolist()
        return ProfileRecord(seconds, tuple(runs), tuple(times), tuple(found), count - len(kept))


def count_events(plan: LoweredProgram) -> float:
    """The most events of a run; infinite for a program with a while loop."""
    found = list(steps_with_counts(plan.steps))
    if any(isinstance(step, WhileLoop) for step, _ in found):
        return math.inf
    shares = thread_pool.thread_count()
    each = [
        n * (1 + shares * (isinstance(s, Launch) and s.parallel))
        for s, n in found
        if isinstance(s, Launch | RoutineCall)
    ]
    return sum(each)
