"""Conditions of launches: kernels that return at once for some values of a number in memory, so that a card needs no
host for checks and branches.

check k; switch at: (a), (b)    -->    note k where it fails; a unless stopped or at > 0; b unless stopped or at < 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wholestep.backends.gpu.byte_copies import WORD, byte_copy
from wholestep.backends.gpu.launch_order import Access, may_overlap
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import I64, Index, Kernel
from wholestep.lower.program.steps import (
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    WhileLoop,
    touched_ranges,
    walk_steps,
)

NUMBER = 8
"""The bytes of a number that a condition tests, an int64."""
STOP_WORDS = 3
"""The numbers of a failure: the site of the check, and the two numbers of its status."""


class Condition(NamedTuple):
    """A number in the card's memory, and a test of it in C, for which a kernel returns at once."""

    ref: MemRef
    unless: str


def case_conditions(ref: MemRef, cases: int) -> Iterator[tuple[Condition, ...]]:
    """The conditions of each of several cases; a number selects one, clipped to the first and the last."""
    if cases == 1:
        yield ()
        return
    yield (Condition(ref, "> 0"),)
    for case in range(1, cases - 1):
        yield (Condition(ref, f"!= {case}"),)
    yield (Condition(ref, f"< {cases - 1}"),)


def runs_without_host(steps: tuple[Step, ...]) -> bool:
    """Test whether kernels with conditions can run a whole program: it has no loop of unknown length, and no copy
    between places that may overlap.
    """
    return not any(
        isinstance(s, WhileLoop) or (isinstance(s, RoutineCall) and copies_may_overlap(s)) for s in walk_steps(steps)
    )


def copies_may_overlap(copy: RoutineCall) -> bool:
    """Test whether the places of a copy may have bytes in common."""
    nbytes = int(copy.params[0])
    target, source = [Access(ref, nbytes) for ref in copy.refs]
    return may_overlap(target, source)


def is_left_alone(ref: MemRef, steps: Iterable[Step]) -> bool:
    """Test whether provably no step accesses a number."""
    number = Access(ref, NUMBER)
    touched = [place for s in steps if isinstance(s, Launch | RoutineCall) for place in touched_ranges(s)]
    return not any(may_overlap(Access(place, int(nbytes)), number) for place, nbytes, _ in touched)


def failure_note(step: StatusCheck) -> Kernel:
    """The kernel that notes a check that fails: its site, and the numbers of its status."""
    words = 2 if step.ref.slot == 0 else 1
    with KernelBuilder("check") as b:
        stop = b.buffer("stop", I64, STOP_WORDS, True)
        status = b.buffer("status", I64, words)
        found = b.load(status, Index())
        failed = b.op("ne", found, b.constant(step.fine, I64))
        b.store(stop, Index(), b.constant(step.site, I64), failed)
        for word in range(words):
            b.store(stop, Index(1 + word), b.load(status, Index(word)), failed)
    return b.kernel()


def conditional_copy(copy: RoutineCall) -> tuple[Kernel, tuple[MemRef, ...]]:
    """The kernel of a copy, and its places; it copies word by word where their alignment allows it."""
    target, source = copy.refs
    nbytes = int(copy.params[0])
    numbers = [nbytes, *[int(ref.offset) for ref in copy.refs], *[int(n) for ref in copy.refs for _, n in ref.moves]]
    return byte_copy(nbytes, not any(n % WORD for n in numbers)), (source, target)
