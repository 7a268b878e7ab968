"""Streaming: what lies in files passes through memory in rows, the next one asked for early, the last one let go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wholestep.dims import most
from wholestep.lower.pieces import pieces
from wholestep.lower.plan import COPIES, Branch, Call, Launch, Ref, Repeat, Step, While, every_step
from wholestep.lower.work import Context

SOON, WANTED, DONE = "advise.soon", "advise.wanted", "advise.done"
"""The routines: what is a stride further on will be read, unless this is the last; this will be; this will not be for a
while."""
SIZED = (*COPIES, SOON, WANTED, DONE)
"""Routines whose places have the size that they state."""
LEAST = 1 << 16
"""Rows of fewer bytes are let go together, when their loop has ended: each call of the system costs a microsecond."""


class Row(NamedTuple):
    """What a loop touches in a file in its first trip, how far it moves from trip to trip, and whether it is read."""

    ref: Ref
    nbytes: int
    stride: int
    read: bool


def leaves(nbytes: int) -> bool:
    """Whether so many bytes in a file are let go by themselves."""
    return nbytes >= LEAST


def passed_through(steps: Sequence[Step], files: frozenset[int], context: Context) -> tuple[Step, ...]:
    """The steps with advice on the memory of these slots, and with long launches over them cut into pieces."""
    return Streaming(files, context).steps(steps) if files else tuple(steps)


class Streaming:
    """Goes through steps once, inner loops before those around them."""

    def __init__(self, files: frozenset[int], context: Context) -> None:
        self.files = files
        self.context = context

    def steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """A list of steps."""
        return tuple([new for step in steps for new in self.step(step)])

    def step(self, step: Step) -> tuple[Step, ...]:
        """What stands in the place of a step."""
        if isinstance(step, Repeat):
            return self.repeat(replace(step, body=self.steps(step.body)))
        if isinstance(step, While):
            return (replace(step, test=self.steps(step.test), body=self.steps(step.body)),)
        if isinstance(step, Branch):
            return (replace(step, cases=tuple([self.steps(case) for case in step.cases])),)
        if not isinstance(step, Launch | Call) or self.files.isdisjoint(ref.slot for ref in step.refs):
            return (step,)
        cut = pieces(step, self.files, self.context)
        if cut is None:
            return (step, *self.let_go(step))
        return tuple([new for part in cut for new in (self.repeat(part) if isinstance(part, Repeat) else (part,))])

    def let_go(self, step: Launch | Call) -> Iterator[Call]:
        """Advice after a step that touches values as a whole."""
        for ref, nbytes in {ref: nbytes for ref, nbytes, _ in touched(step)}.items():
            if ref.slot in self.files and not ref.moves and leaves(nbytes):
                yield Call(DONE, (ref,), (nbytes, 0))

    def repeat(self, step: Repeat) -> tuple[Step, ...]:
        """A loop that asks for the next row before it works on this one, and lets this one go when it has."""
        early: list[Step] = []
        late: list[Step] = []
        after: list[Step] = []
        for row in self.rows(step):
            end = row.ref if step.reverse else row.ref.shifted(row.stride * (step.trips - 1))
            here = row.ref.moved(step.loop, row.stride)
            if not leaves(row.nbytes):
                span = row.stride * (step.trips - 1) + row.nbytes
                after += [Call(DONE, (row.ref,), (span, 0))] if leaves(span) else []
                continue
            if row.read:
                by = -row.stride if step.reverse else row.stride
                early.append(Call(SOON, (here, end), (row.nbytes, by)))
            late.append(Call(DONE, (here,), (row.nbytes, 0)))
        return (replace(step, body=(*early, *step.body, *late)), *after)

    def rows(self, step: Repeat) -> list[Row]:
        """What moves with this loop and no loop inside it, each place once."""
        inner = {s.loop for s in every_step(step.body) if isinstance(s, Repeat)}
        found: dict[Ref, Row] = {}
        for s in every_step(step.body):
            for ref, nbytes, read in touched(s) if isinstance(s, Launch | Call) else ():
                by = dict(ref.moves)
                stride = most(by.get(step.loop, 0))  # a number: programs of symbolic size have nothing in files
                if ref.slot in self.files and stride > 0 and inner.isdisjoint(by):
                    old = found.get(ref, Row(ref, 0, stride, False))
                    found[ref] = old._replace(nbytes=max(old.nbytes, nbytes), read=old.read or read)
        return [row._replace(ref=unmoved(row.ref, step.loop)) for row in found.values()]


def touched(step: Launch | Call) -> Iterator[tuple[Ref, int, bool]]:
    """The places of a kernel or copy with their bytes, and whether they are read."""
    if isinstance(step, Launch):
        for ref, buffer in zip(step.refs, step.kernel.buffers, strict=True):
            yield ref, buffer.size * buffer.dtype.itemsize, not buffer.written
    elif step.routine in COPIES:
        target, source = step.refs
        yield target, step.params[0], False
        yield source, step.params[0], True


def unmoved(ref: Ref, loop: int) -> Ref:
    """Where a place is in trip 0 of a loop."""
    return ref._replace(moves=tuple([(number, by) for number, by in ref.moves if number != loop]))
