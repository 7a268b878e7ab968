"""The verifier of lowered programs: no read before a write, no access out of bounds, no overwrite of a live value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wholestep.dims import most
from wholestep.errors import PlanError
from wholestep.kernel.accesses import MemoryAccess, space_accesses
from wholestep.kernel.dependence import ValueRanges, affine_form, never_meet, surely_happens
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel
from wholestep.kernel.verify import verify_kernel
from wholestep.lower.program.allocation import ALIGNMENT
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import (
    PREFETCH_NOW,
    RELOAD_COPY,
    SIZED_ROUTINES,
    SPILL_COPY,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    Switch,
    WhileLoop,
    format_steps,
    touched_ranges,
    walk_steps,
)

ByteMask = npt.NDArray[np.bool_]
ElementSet = slice | npt.NDArray[np.int64]

MAX_TRIPS = 8
"""The most trips of a loop that are all executed; of a longer loop the first two and the last are, and the others write
as the second does."""
MAX_POINTS = 1 << 24
"""The most points of an enumerated store; a store at more points is assumed to fill the range between the first and the
last."""


def verify_program(plan: LoweredProgram, tight: bool = True) -> None:
    """Check a program and its kernels; raises PlanError that shows the step, or KernelError.

    With `tight` the arena must not be larger than needed; it may be where it was sized for symbolic blocks.
    """
    for kernel in plan.kernels():
        verify_kernel(kernel)
    checker = ProgramChecker(plan)
    checker.constants()
    checker.run(plan.steps)
    for number, slot in enumerate(plan.outputs):
        if not checker.written[slot].all():
            raise PlanError(f"verify: output {number}, in slot {slot}, is not written everywhere\n{plan}")
    sized = all(not isinstance(s, RoutineCall) or s.routine in SIZED_ROUTINES for s in walk_steps(plan.steps))
    if sized and not (checker.used <= plan.arena and (plan.arena < checker.used + ALIGNMENT or not tight)):
        raise PlanError(f"verify: the arena has {plan.arena} bytes, {checker.used} are used\n{plan}")


# Kernel footprints.


class AccessedSpan(NamedTuple):
    """The elements of a buffer, given by its number, that are read or written; `sure` if every run accesses all."""

    buffer: int
    places: ElementSet
    written: bool
    sure: bool


def reachable_accesses(kernel: Kernel) -> list[MemoryAccess]:
    """The loads and stores of a kernel in its buffers, except those in loops without iterations."""
    return [a for a in space_accesses(kernel, "global") if all(axis.extent for axis in a.axes)]


def kernel_footprint(kernel: Kernel) -> list[AccessedSpan]:
    """The spans that a kernel stores, and those that it loads without having stored them before; an index that depends
    on loaded values spans its whole buffer."""
    numbers = {b: i for i, b in enumerate(kernel.buffers)}
    found: list[AccessedSpan] = []
    stores: list[MemoryAccess] = []
    for access in reachable_accesses(kernel):
        if access.is_store:
            stores.append(access)
        elif stored_before([s for s in stores if s.buffer is access.buffer], access):
            continue
        size, elements = access.buffer.size, accessed_elements(access.offset, access.buffer.size)
        sure = elements is not None and surely_happens(access)
        places = slice(0, size) if elements is None else elements
        found.append(AccessedSpan(numbers[access.buffer], places, access.is_store, sure))
    return found


def stored_before(stores: Sequence[MemoryAccess], load: MemoryAccess) -> bool:
    """True if each iteration of the loops around a load and some stores certainly stores the elements that it loads
    later; each of these stores may store a part."""
    held: dict[tuple[Axis, ...], ByteMask] = {}
    for store in stores:
        around = tuple([a.axis for a, b in zip(store.path, load.path, strict=False) if a is b])
        made, wanted = [inner_elements(access, around) for access in (store, load)]
        same = all(affine_form(store.offset).axes.get(a) == affine_form(load.offset).axes.get(a) for a in around)
        if not surely_happens(store) or not same or made is None or wanted is None:
            continue
        written = held.setdefault(around, np.zeros(store.buffer.size, bool))
        written[made] = True
        if written[wanted].all():
            return True
    return False


def inner_elements(access: MemoryAccess, around: Sequence[Axis]) -> ElementSet | None:
    """The elements that an access selects in one iteration of the loops around; None if that is unknown."""
    plain = affine_form(access.offset)
    inner = Index(plain.const, {a: c for a, c in plain.axes.items() if a not in around})
    if plain.values or ValueRanges().index(inner)[0] < 0:
        return None
    return accessed_elements(inner, access.buffer.size)


def accessed_elements(index: Index, size: int) -> ElementSet | None:
    """The elements of a buffer that an index selects; None if that is unknown."""
    plain = affine_form(index)
    if plain.values:
        return None
    low, high = (int(end) for end in ValueRanges().index(index))
    if fills_range(plain.axes) or math.prod([axis.extent for axis in plain.axes]) > MAX_POINTS:
        return slice(max(low, 0), min(high + 1, size))
    found = np.asarray(plain.const, np.int64)
    for axis, factor in plain.axes.items():
        found = np.add.outer(found, factor * np.arange(axis.extent, dtype=np.int64))
    return found[(found >= 0) & (found < size)]


def fills_range(axes: dict[Axis, int]) -> bool:
    """True if multiples of axes leave out no number between the least and the greatest."""
    filled = 0
    for factor, extent in sorted((abs(c), axis.extent) for axis, c in axes.items() if c and axis.extent > 1):
        if factor > filled + 1:
            return False
        filled += factor * (extent - 1)
    return True


def overwrites_after_read(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """True if each element of `old` is read only in the iteration that writes it in `new`, before that.

    Blocks of columns have loops of their own, each of which reads and writes its own block alone.
    """
    found = reachable_accesses(kernel)
    stores = [(i, access) for i, access in enumerate(found) if access.is_store and access.buffer is new]
    for i, access in enumerate(found):
        for j, store in stores if access.buffer is old else ():
            same = access.path == store.path and access.offset == store.offset and i < j
            if old.dtype != new.dtype or not (same or never_meet(access, store)):
                return False
    return True


# Abstract execution.


class ProgramChecker:
    """Abstract execution of a program; `written` marks the initialized bytes of each slot."""

    def __init__(self, plan: LoweredProgram) -> None:
        self.plan = plan
        ends = [o + a.nbytes for o, a in zip(plan.constant_offsets, plan.constants, strict=True)]
        sizes = [plan.arena, max(ends, default=0), *[s.type.nbytes for s in plan.slots]]
        self.written: list[ByteMask] = [np.zeros(n, bool) for n in sizes]
        for slot in plan.inputs:
            self.written[slot][:] = True
        self.resident = set(plan.inputs) & set(plan.outputs)
        self.writable = {0, *plan.outputs, *[len(sizes) - 1] * bool(plan.file)}
        self.changed = False
        """True once resident memory was written, after which the program may not fail."""
        self.inside = 0
        """The number of surrounding loops; resident memory is saved before a loop that may fail."""
        self.used = 0
        self.trips: dict[int, int] = {}
        self.known: dict[Kernel, list[AccessedSpan]] = {}

    def constants(self) -> None:
        """Initialize the constants, which must not overlap."""
        for offset, array in zip(self.plan.constant_offsets, self.plan.constants, strict=True):
            here = self.written[1][offset : offset + array.nbytes]
            if here.any():
                raise PlanError(f"verify: two constants lie at byte {offset}\n{self.plan}")
            here[:] = True

    def wrong(self, problem: str, step: Step) -> PlanError:
        """An error that shows the step."""
        lines = list(format_steps((step,), "  "))[:4]
        kernel = [str(step.kernel)] if isinstance(step, Launch) else []
        return PlanError("\n".join([f"verify: {problem}", *lines, *kernel]))

    # Memory.

    def start(self, ref: MemRef, step: Step) -> int:
        """The first byte of a reference in the current trips."""
        for loop, _ in ref.moves:
            if loop not in self.trips:
                raise self.wrong(f"{ref} moves with loop {loop}, which is not around it", step)
        return ref.offset + sum([stride * self.trips[loop] for loop, stride in ref.moves])

    def room(self, ref: MemRef, nbytes: int, step: Step) -> ByteMask:
        """The bytes of a reference, which must lie inside its slot."""
        if not 0 <= ref.slot < len(self.written):
            raise self.wrong(f"{ref} is in a slot that the table does not have", step)
        start, size = self.start(ref, step), self.written[ref.slot].size
        if start < 0 or start + nbytes > size:
            raise self.wrong(f"{ref}: bytes {start} to {start + nbytes} of a slot of {size} are touched", step)
        if ref.slot == 0:
            self.used = max(self.used, start + nbytes)
        return self.written[ref.slot][start : start + nbytes]

    def read(self, ref: MemRef, nbytes: int, step: Step) -> None:
        """Check that bytes are initialized."""
        if not self.room(ref, nbytes, step).all():
            raise self.wrong(f"{ref} is read before it is written", step)

    def write(self, ref: MemRef, nbytes: int, step: Step) -> ByteMask:
        """The bytes of a reference that is about to be written."""
        found = self.room(ref, nbytes, step)
        if ref.slot not in self.writable:
            raise self.wrong(f"{ref}, a constant or an input that nothing replaces, is written", step)
        self.changed = self.changed or (ref.slot in self.resident and nbytes > 0)
        return found

    # Steps.

    def run(self, steps: Sequence[Step]) -> None:
        """Execute steps in order."""
        for step in steps:
            STEP_CHECKS[type(step)](self, step)

    def launch(self, step: Launch) -> None:
        """Execute a kernel: its operands fit its buffers, and its loads are initialized."""
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
        if kernel not in self.known:
            self.known[kernel] = kernel_footprint(kernel)
        touched = self.known[kernel]
        for span in touched:
            if not span.written and not room[span.buffer][span.places].all():
                raise self.wrong(f"{step.refs[span.buffer]} is read before it is written", step)
        for span in touched:
            if span.written and span.sure:
                room[span.buffer][span.places] = True

    def overlaps(self, step: Launch) -> None:
        """Check that a written buffer overlaps no other, unless each element is read only where it is written."""
        buffers = step.kernel.buffers
        at = [(ref.slot, self.start(ref, step)) for ref in step.refs]
        ends = [(slot, start + b.size * b.dtype.itemsize) for (slot, start), b in zip(at, buffers, strict=True)]
        for i, new in enumerate(buffers):
            for j, old in enumerate(buffers):
                apart = at[i][0] != at[j][0] or ends[i] <= at[j] or ends[j] <= at[i]
                if i == j or apart or not new.written:
                    continue
                if old.written or at[i] != at[j] or not overwrites_after_read(step.kernel, old, new):
                    raise self.wrong(f"{new} is written over {old}, which is used in other steps", step)

    def call(self, step: RoutineCall) -> None:
        """Execute a routine; a library's routine reads, then writes, the bytes that its effects state."""
        if step.effects is None:
            ROUTINE_CHECKS[step.routine.partition(".")[0]](self, step)
            return
        for ref in step.refs:
            self.room(ref, 0, step)
        for number, nbytes in step.effects.reads:
            self.read(step.refs[number], most(nbytes), step)
        for number, nbytes in step.effects.writes:
            self.write(step.refs[number], most(nbytes), step)[:] = True

    def copy(self, step: RoutineCall) -> None:
        """Execute a copy; spills go to the scratch file, and reloads come from it."""
        target, source = step.refs
        filed = {SPILL_COPY: target, RELOAD_COPY: source}.get(step.routine)
        if filed is not None and not (self.plan.file and filed.slot == len(self.written) - 1):
            raise self.wrong(f"{filed} is not in the scratch file", step)
        self.read(source, step.params[0], step)
        self.write(target, step.params[0], step)[:] = True

    def advise(self, step: RoutineCall) -> None:
        """Execute memory advice, whose references must exist; a prefetched value must be initialized."""
        if step.routine == PREFETCH_NOW:
            self.read(step.refs[0], step.params[0], step)
        for ref in step.refs:
            self.room(ref, step.params[0], step)

    def check(self, step: StatusCheck) -> None:
        """Check that no resident memory was written, as the program may fail here."""
        self.read(step.ref, 16, step)
        if self.changed and not self.inside:
            raise self.wrong("the program may be left after something resident was written", step)

    def repeat(self, step: ForLoop) -> None:
        """Execute a counted loop, through all its trips if they are few."""
        trips = step.trips
        self.inside += 1
        for trip in range(trips) if trips <= MAX_TRIPS else (0, 1, trips - 1):
            self.trips[step.loop] = trips - 1 - trip if step.reverse else trip
            self.run(step.body)
            if trip == 1 < trips - 1:
                self.rows(step)
        self.trips.pop(step.loop, None)
        self.inside -= 1

    def rows(self, step: ForLoop) -> None:
        """Initialize the references that advance with a loop, and with loops inside it, for its later trips as in this
        one."""
        inner_trips = {s.loop: s.trips for s in walk_steps(step.body) if isinstance(s, ForLoop)}
        for inner in walk_steps(step.body):
            for ref, nbytes in written_sizes(inner) if isinstance(inner, Launch | RoutineCall) else ():
                if any(loop == step.loop for loop, _ in ref.moves):
                    around = [loop for loop, _ in ref.moves if loop not in self.trips]
                    for trips in product(*[range(inner_trips[loop]) for loop in around]):
                        self.trips.update(zip(around, trips, strict=True))
                        self.row(step, ref, nbytes, inner)
                    for loop in around:
                        self.trips.pop(loop)

    def row(self, step: ForLoop, ref: MemRef, nbytes: int, inner: Step) -> None:
        """Initialize one place for all trips of a loop as in this one."""
        stride = sum([by for loop, by in ref.moves if loop == step.loop])
        here = self.room(ref, nbytes, inner)
        start = self.start(ref, inner) - stride * self.trips[step.loop]
        for trip in range(step.trips):
            there = self.written[ref.slot][start + stride * trip : start + stride * trip + nbytes]
            there |= here[: there.size]  # bytes beyond the slot are an error in the last trip

    def loop_while(self, step: WhileLoop) -> None:
        """Execute a while loop for one trip."""
        self.inside += 1
        for body in (step.test, step.body, step.test):
            self.run(body)
            if body is step.test:
                self.read(step.ref, 1, step)
        self.inside -= 1

    def branch(self, step: Switch) -> None:
        """Execute all cases; a byte is initialized if every case writes it."""
        self.read(step.ref, 8, step)
        before, ends, changed = self.written, [], self.changed
        for case in step.cases:
            self.written = [mask.copy() for mask in before]
            self.run(case)
            ends.append(self.written)
            changed, self.changed = changed or self.changed, changed
        self.changed = changed
        self.written = [np.logical_and.reduce(masks) for masks in zip(*ends, strict=True)]


def written_sizes(step: Launch | RoutineCall) -> list[tuple[MemRef, int]]:
    """The references that a kernel or routine writes, with their bytes."""
    if isinstance(step, RoutineCall) and step.effects is not None:
        return [(step.refs[number], most(nbytes)) for number, nbytes in step.effects.writes]
    return [(ref, nbytes) for ref, nbytes, read in touched_ranges(step) if not read]


STEP_CHECKS: dict[type, Callable[[ProgramChecker, Any], None]] = {
    Launch: ProgramChecker.launch,
    RoutineCall: ProgramChecker.call,
    StatusCheck: ProgramChecker.check,
    ForLoop: ProgramChecker.repeat,
    WhileLoop: ProgramChecker.loop_while,
    Switch: ProgramChecker.branch,
}
"""The handler of each kind of step."""

ROUTINE_CHECKS: dict[str, Callable[[ProgramChecker, RoutineCall], None]] = {
    "copy": ProgramChecker.copy,
    "advise": ProgramChecker.advise,
}
"""The handler of each family of routines."""
