"""What every plan must satisfy, as code: nothing is read before it is written, kept too short, or touched outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wholestep.errors import PlanError
from wholestep.kernel.independence import affine, reach
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.verify import verify
from wholestep.lower.plan import (
    ALIGNMENT,
    BACK,
    OUT,
    Branch,
    Call,
    Check,
    Launch,
    Plan,
    Ref,
    Repeat,
    Step,
    While,
    every_step,
    spelled,
)
from wholestep.lower.streaming import SIZED, WANTED, touched

Bytes = npt.NDArray[np.bool_]
Places = slice | npt.NDArray[np.int64]

MANY = 8
"""A loop of more trips than this is followed through its first two and its last; the others write as the second."""
POINTS = 1 << 24
"""Stores at more places than this are taken to fill the range between the first and the last."""


def verify_plan(plan: Plan, tight: bool = True) -> None:
    """Check a plan and its kernels; raises PlanError that shows the step, KernelError for a kernel.

    The arena has no byte too many, unless it is not `tight`, but laid out for sizes in blocks.
    """
    for kernel in plan.kernels():
        verify(kernel)
    checker = Checker(plan)
    checker.constants()
    checker.run(plan.steps)
    for number, slot in enumerate(plan.outputs):
        if not checker.written[slot].all():
            raise PlanError(f"verify: output {number}, in slot {slot}, is not written everywhere\n{plan}")
    sized = all(not isinstance(s, Call) or s.routine in SIZED for s in every_step(plan.steps))
    if sized and not (checker.used <= plan.arena and (plan.arena < checker.used + ALIGNMENT or not tight)):
        raise PlanError(f"verify: the arena has {plan.arena} bytes, {checker.used} are used\n{plan}")


# What a kernel touches.


class Span(NamedTuple):
    """Elements of the buffer of this number; `sure` where all of them are touched whenever the kernel runs."""

    buffer: int
    places: Places
    sure: bool


class Touched(NamedTuple):
    """What a kernel reads and writes."""

    reads: tuple[Span, ...]
    writes: tuple[Span, ...]


class Met(NamedTuple):
    """A load or a store, the loops around it, and whether a guard may leave it out."""

    source: Var | Store
    path: tuple[Loop, ...]
    guarded: bool


def met(body: Sequence[Statement], path: tuple[Loop, ...] = (), guarded: bool = False) -> Iterator[Met]:
    """The loads and stores of a body, in order, but for those in loops without a step."""
    for s in body:
        if isinstance(s, Loop):
            if s.axis.extent:
                yield from met(s.body, (*path, s), guarded or s.guard is not None)
        elif isinstance(s, Store):
            yield Met(s, path, guarded or s.guard is not None)
        elif s.op == "load":
            yield Met(s, path, guarded or bool(s.args))


def place_of(source: Var | Store) -> tuple[Buffer, Index]:
    """The buffer and index of a load or store."""
    if isinstance(source, Store):
        return source.buffer, source.index
    buffer, index = source.attr
    return buffer, index


def touches(kernel: Kernel) -> Touched:
    """What a kernel reads and writes; what depends on values that are not known is anywhere in its buffer."""
    numbers = {b: i for i, b in enumerate(kernel.buffers)}
    reads: list[Span] = []
    writes: list[Span] = []
    for m in met(kernel.body):
        buffer, index = place_of(m.source)
        places = elements(index, buffer.size)
        sure = places is not None and not m.guarded
        span = Span(numbers[buffer], slice(0, buffer.size) if places is None else places, sure)
        (writes if isinstance(m.source, Store) else reads).append(span)
    return Touched(tuple(reads), tuple(writes))


def elements(index: Index, size: int) -> Places | None:
    """The elements of a buffer that an index takes; None where that cannot be known."""
    plain = affine(index)
    if plain.values:
        return None
    low, high = (int(end) for end in reach(index))
    if dense(plain.axes) or math.prod([axis.extent for axis in plain.axes]) > POINTS:
        return slice(max(low, 0), min(high + 1, size))
    found = np.asarray(plain.const, np.int64)
    for axis, factor in plain.axes.items():
        found = np.add.outer(found, factor * np.arange(axis.extent, dtype=np.int64))
    return found[(found >= 0) & (found < size)]


def dense(axes: dict[Axis, int]) -> bool:
    """Whether multiples of axes leave no number out between the least and the greatest."""
    filled = 0
    for factor, extent in sorted((abs(c), axis.extent) for axis, c in axes.items() if c and axis.extent > 1):
        if factor > filled + 1:
            return False
        filled += factor * (extent - 1)
    return True


def replaceable(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """Whether each element of `old` is read, where at all, in the step that writes it in `new`, and before that."""
    found = list(met(kernel.body))
    stores = [(i, m) for i, m in enumerate(found) if isinstance(m.source, Store) and m.source.buffer is new]
    for i, m in enumerate(found):
        buffer, index = place_of(m.source)
        if buffer is not old:
            continue
        for j, store in stores:
            same = m.path == store.path and index == place_of(store.source)[1]
            if not same or j < i or old.dtype != new.dtype:
                return False
    return True


# Following a plan.


class Checker:
    """Follows a plan step by step. `written` says of each byte of each slot whether it has a value."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        ends = [o + a.nbytes for o, a in zip(plan.constant_offsets, plan.constants, strict=True)]
        sizes = [plan.arena, max(ends, default=0), *[s.type.nbytes for s in plan.slots]]
        self.written: list[Bytes] = [np.zeros(n, bool) for n in sizes]
        for slot in plan.inputs:
            self.written[slot][:] = True
        self.resident = set(plan.inputs) & set(plan.outputs)
        self.writable = {0, *plan.outputs, *[len(sizes) - 1] * bool(plan.file)}
        self.changed = False
        """Whether something resident was written, so that the program may not be left any more."""
        self.inside = 0
        """How many loops are around: what was resident before those is kept where a program may be left in them."""
        self.used = 0
        self.trips: dict[int, int] = {}
        self.known: dict[int, Touched] = {}

    def constants(self) -> None:
        """Enter the constants, none of which lies over another."""
        for offset, array in zip(self.plan.constant_offsets, self.plan.constants, strict=True):
            here = self.written[1][offset : offset + array.nbytes]
            if here.any():
                raise PlanError(f"verify: two constants lie at byte {offset}\n{self.plan}")
            here[:] = True

    def wrong(self, problem: str, step: Step) -> PlanError:
        """An error that shows the step."""
        lines = list(spelled((step,), "  "))[:4]
        kernel = [str(step.kernel)] if isinstance(step, Launch) else []
        return PlanError("\n".join([f"verify: {problem}", *lines, *kernel]))

    # Memory.

    def start(self, ref: Ref, step: Step) -> int:
        """The first byte of a place in the trips at hand."""
        for loop, _ in ref.moves:
            if loop not in self.trips:
                raise self.wrong(f"{ref} moves with loop {loop}, which is not around it", step)
        return ref.offset + sum([stride * self.trips[loop] for loop, stride in ref.moves])

    def room(self, ref: Ref, nbytes: int, step: Step) -> Bytes:
        """The bytes of a place; it must lie inside its slot."""
        if not 0 <= ref.slot < len(self.written):
            raise self.wrong(f"{ref} is in a slot that the table does not have", step)
        start, size = self.start(ref, step), self.written[ref.slot].size
        if start < 0 or start + nbytes > size:
            raise self.wrong(f"{ref}: bytes {start} to {start + nbytes} of a slot of {size} are touched", step)
        if ref.slot == 0:
            self.used = max(self.used, start + nbytes)
        return self.written[ref.slot][start : start + nbytes]

    def read(self, ref: Ref, nbytes: int, step: Step) -> None:
        """Note that bytes are read."""
        if not self.room(ref, nbytes, step).all():
            raise self.wrong(f"{ref} is read before it is written", step)

    def write(self, ref: Ref, nbytes: int, step: Step) -> Bytes:
        """The bytes of a place that is about to be written."""
        found = self.room(ref, nbytes, step)
        if ref.slot not in self.writable:
            raise self.wrong(f"{ref}, a constant or an input that nothing replaces, is written", step)
        self.changed = self.changed or (ref.slot in self.resident and nbytes > 0)
        return found

    # Steps.

    def run(self, steps: Sequence[Step]) -> None:
        """Follow steps in their order."""
        for step in steps:
            HANDLERS[type(step)](self, step)

    def launch(self, step: Launch) -> None:
        """A kernel: its places fit its buffers, and what it loads was stored."""
        kernel = step.kernel
        if len(step.refs) != len(kernel.buffers):
            raise self.wrong(f"{len(step.refs)} places for {len(kernel.buffers)} buffers", step)
        room = []
        for ref, buffer in zip(step.refs, kernel.buffers, strict=True):
            size = buffer.dtype.itemsize
            take = self.write if buffer.written else self.room
            room.append(take(ref, buffer.size * size, step).reshape(buffer.size, size))
            if self.start(ref, step) % size:
                raise self.wrong(f"{ref} is not aligned to {buffer.dtype}", step)
        self.overlaps(step)
        if id(kernel) not in self.known:
            self.known[id(kernel)] = touches(kernel)
        touched = self.known[id(kernel)]
        for span in touched.reads:
            if not room[span.buffer][span.places].all():
                raise self.wrong(f"{step.refs[span.buffer]} is read before it is written", step)
        for span in touched.writes:
            if span.sure:
                room[span.buffer][span.places] = True

    def overlaps(self, step: Launch) -> None:
        """A buffer that is written shares no byte with another, unless each element is read where it is written."""
        buffers = step.kernel.buffers
        at = [(ref.slot, self.start(ref, step)) for ref in step.refs]
        ends = [(slot, start + b.size * b.dtype.itemsize) for (slot, start), b in zip(at, buffers, strict=True)]
        for i, new in enumerate(buffers):
            for j, old in enumerate(buffers):
                apart = at[i][0] != at[j][0] or ends[i] <= at[j] or ends[j] <= at[i]
                if i == j or apart or not new.written:
                    continue
                if old.written or at[i] != at[j] or not replaceable(step.kernel, old, new):
                    raise self.wrong(f"{new} is written over {old}, which is used in other steps", step)

    def call(self, step: Call) -> None:
        """A routine."""
        ROUTINES[step.routine.partition(".")[0]](self, step)

    def copy(self, step: Call) -> None:
        """The bytes of one place written to another; what goes out goes to the scratch file, and comes from there."""
        target, source = step.refs
        filed = {OUT: target, BACK: source}.get(step.routine)
        if filed is not None and not (self.plan.file and filed.slot == len(self.written) - 1):
            raise self.wrong(f"{filed} is not in the scratch file", step)
        self.read(source, step.params[0], step)
        self.write(target, step.params[0], step)[:] = True

    def advise(self, step: Call) -> None:
        """What the system is told of places, which must be there; what is wanted has been written."""
        if step.routine == WANTED:
            self.read(step.refs[0], step.params[0], step)
        for ref in step.refs:
            self.room(ref, step.params[0], step)

    def argsort(self, step: Call) -> None:
        """Keys and their order."""
        bits, n, rows = step.params
        keys, order, scratch = step.refs
        self.read(keys, bits // 8 * n * rows, step)
        self.write(order, 8 * n * rows, step)[:] = True
        self.room(scratch, 0, step)

    def lapack(self, step: Call) -> None:
        """What a routine is given has values afterwards."""
        count, arguments, _ = step.params
        for kind, ref, stride in arguments:
            if kind == "memory":
                self.room(step.refs[ref], stride * count, step)[:] = True

    def check(self, step: Check) -> None:
        """The program may be left here, so nothing resident was written."""
        self.read(step.ref, 16, step)
        if self.changed and not self.inside:
            raise self.wrong("the program may be left after something resident was written", step)

    def repeat(self, step: Repeat) -> None:
        """A loop, through all its trips where they are few."""
        trips = step.trips
        self.inside += 1
        for trip in range(trips) if trips <= MANY else (0, 1, trips - 1):
            self.trips[step.loop] = trips - 1 - trip if step.reverse else trip
            self.run(step.body)
            if trip == 1 < trips - 1:
                self.rows(step)
        self.trips.pop(step.loop, None)
        self.inside -= 1

    def rows(self, step: Repeat) -> None:
        """What moves with a loop is written in the trips to come as it was in this one."""
        for inner in every_step(step.body):
            for ref, nbytes in targets(inner) if isinstance(inner, Launch | Call) else ():
                strides = [stride for loop, stride in ref.moves if loop == step.loop]
                if strides and all(loop in self.trips for loop, _ in ref.moves):
                    here = self.room(ref, nbytes, inner)
                    start = self.start(ref, inner) - sum(strides) * self.trips[step.loop]
                    for trip in range(step.trips):
                        at = start + sum(strides) * trip
                        there = self.written[ref.slot][at : at + nbytes]
                        there |= here[: there.size]  # what lies beyond the slot is found in the last trip

    def loop_while(self, step: While) -> None:
        """A loop that asks before each trip."""
        self.inside += 1
        for body in (step.test, step.body, step.test):
            self.run(body)
            if body is step.test:
                self.read(step.ref, 1, step)
        self.inside -= 1

    def branch(self, step: Branch) -> None:
        """One of several lists of steps: written is what all of them write."""
        self.read(step.ref, 8, step)
        before, ends, changed = self.written, [], self.changed
        for case in step.cases:
            self.written = [mask.copy() for mask in before]
            self.run(case)
            ends.append(self.written)
            changed, self.changed = changed or self.changed, changed
        self.changed = changed
        self.written = [np.logical_and.reduce(masks) for masks in zip(*ends, strict=True)]


def targets(step: Launch | Call) -> list[tuple[Ref, int]]:
    """The places that a kernel or routine writes, with their bytes."""
    if isinstance(step, Call) and step.routine == "argsort":
        _, n, rows = step.params
        return [(step.refs[1], 8 * n * rows)]
    if isinstance(step, Call) and step.routine.startswith("lapack."):
        count, arguments, _ = step.params
        return [(step.refs[ref], stride * count) for kind, ref, stride in arguments if kind == "memory"]
    return [(ref, nbytes) for ref, nbytes, read in touched(step) if not read]


HANDLERS: dict[type, Callable[[Checker, Any], None]] = {
    Launch: Checker.launch,
    Call: Checker.call,
    Check: Checker.check,
    Repeat: Checker.repeat,
    While: Checker.loop_while,
    Branch: Checker.branch,
}
"""How each kind of step is followed."""

ROUTINES: dict[str, Callable[[Checker, Call], None]] = {
    "copy": Checker.copy,
    "advise": Checker.advise,
    "argsort": Checker.argsort,
    "lapack": Checker.lapack,
}
"""What each family of routines reads and writes."""
