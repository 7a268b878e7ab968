"""Row streaming: a loop over values in files prefetches its next row and releases its last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wholestep.backends.cpu.target.split_launches import split_step
from wholestep.dims import most
from wholestep.lower.program.steps import (
    PREFETCH,
    RELEASE,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    Step,
    map_nested,
    touched_ranges,
    walk_steps,
)

EVICTED_BYTES = 1 << 16
"""The least bytes of a row that is released on its own; smaller rows are released together at the end of their loop,
since each system call costs a microsecond."""


class StreamedRow(NamedTuple):
    """The bytes of a file that a loop touches in its first trip, the stride from trip to trip, and whether they are
    read.
    """

    ref: MemRef
    nbytes: int
    stride: int
    read: bool


def is_evictable(nbytes: int) -> bool:
    """Return whether a range of this many bytes in a file is released on its own."""
    return nbytes >= EVICTED_BYTES


def stream_rows(steps: Sequence[Step], files: frozenset[int], new_loop: Callable[[], int]) -> tuple[Step, ...]:
    """The steps with advice on the memory of these slots, and with long launches over them cut into pieces."""
    return RowStreaming(files, new_loop).steps(steps) if files else tuple(steps)


class RowStreaming:
    """A walk over steps, inner loops before the loops around them."""

    def __init__(self, files: frozenset[int], new_loop: Callable[[], int]) -> None:
        self.files = files
        self.new_loop = new_loop

    def steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """A list of steps."""
        return tuple([new for step in steps for new in self.step(step)])

    def step(self, step: Step) -> tuple[Step, ...]:
        """The step that replaces another one."""
        step = map_nested(step, self.steps)
        if isinstance(step, ForLoop):
            return self.repeat(step)
        if not isinstance(step, Launch | RoutineCall) or self.files.isdisjoint(ref.slot for ref in step.refs):
            return (step,)
        cut = split_step(step, self.files, self.new_loop)
        if cut is None:
            return (step, *self.let_go(step))
        return tuple([new for part in cut for new in (self.repeat(part) if isinstance(part, ForLoop) else (part,))])

    def let_go(self, step: Launch | RoutineCall) -> Iterator[RoutineCall]:
        """Advice after a step that touches values as a whole."""
        for ref, nbytes in {ref: nbytes for ref, nbytes, _ in touched_ranges(step)}.items():
            if ref.slot in self.files and not ref.moves and is_evictable(nbytes):
                yield RoutineCall(RELEASE, (ref,), (nbytes, 0))

    def repeat(self, step: ForLoop) -> tuple[Step, ...]:
        """A loop that asks for the next row before it works on this one, and lets this one go when it has."""
        early: list[Step] = []
        late: list[Step] = []
        after: list[Step] = []
        for row in self.rows(step):
            end = row.ref if step.reverse else row.ref.shifted(row.stride * (step.trips - 1))
            here = row.ref.moved(step.loop, row.stride)
            if not is_evictable(row.nbytes):
                span = row.stride * (step.trips - 1) + row.nbytes
                after += [RoutineCall(RELEASE, (row.ref,), (span, 0))] if is_evictable(span) else []
                continue
            if row.read:
                by = -row.stride if step.reverse else row.stride
                early.append(RoutineCall(PREFETCH, (here, end), (row.nbytes, by)))
            late.append(RoutineCall(RELEASE, (here,), (row.nbytes, 0)))
        return (replace(step, body=(*early, *step.body, *late)), *after)

    def rows(self, step: ForLoop) -> list[StreamedRow]:
        """The locations that move with this loop and with no loop inside it, each once."""
        inner = {s.loop for s in walk_steps(step.body) if isinstance(s, ForLoop)}
        found: dict[MemRef, StreamedRow] = {}
        for s in walk_steps(step.body):
            for ref, nbytes, read in touched_ranges(s) if isinstance(s, Launch | RoutineCall) else ():
                by = dict(ref.moves)
                stride = most(by.get(step.loop, 0))  # a number: programs of symbolic size have nothing in files
                if ref.slot in self.files and stride > 0 and inner.isdisjoint(by):
                    old = found.get(ref, StreamedRow(ref, 0, stride, False))
                    found[ref] = old._replace(nbytes=max(old.nbytes, nbytes), read=old.read or read)
        # Without the motion of this loop a place is where it is in trip 0.
        moves = {ref: tuple([(loop, by) for loop, by in ref.moves if loop != step.loop]) for ref in found}
        return [row._replace(ref=ref._replace(moves=moves[ref])) for ref, row in found.items()]
