"""Plan: what a program does in memory, step by step: kernels, routines and loops over places in a table of buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size, most, names
from wholestep.errors import Where, show
from wholestep.ir.graph import Node, Value
from wholestep.ir.types import Type
from wholestep.kernel.lang import Kernel
from wholestep.lower.held import Held, draw, peak
from wholestep.words import printable

ALIGNMENT = 64
"""Buffers start at multiples of this many bytes: one cache line, and the widest vector."""


FIRST = 2
"""The slot of the first input; those before it hold the arena and the constants."""


OUT, BACK = "copy.out", "copy.back"
COPIES = ("copy", OUT, BACK)
"""Routines that write the bytes of one place to another: within memory, to the scratch file, and from it."""


class Ref(NamedTuple):
    """A place in memory: a slot of the table, a byte offset, and bytes to move by in each trip of surrounding loops."""

    slot: int
    offset: Size = 0
    moves: tuple[tuple[int, Size], ...] = ()
    """(loop number, bytes for each trip)"""

    def moved(self, loop: int, stride: Size) -> Ref:
        """The place that moves on with a loop."""
        return self._replace(moves=(*self.moves, (loop, stride))) if stride else self

    def shifted(self, offset: Size) -> Ref:
        """The place this many bytes further on."""
        return self._replace(offset=self.offset + offset)

    def __str__(self) -> str:
        moves = "".join(f" + {stride}*trip{loop}" for loop, stride in self.moves)
        return f"s{self.slot}[{self.offset}{moves}]"


class Place:
    """Room for a value, which gets its address when all is laid out: in a slot, or inside another place.

    `size` is its room, which may be symbolic, and `nbytes` what that is for the sizes supposed.
    """

    __slots__ = ("base", "file", "moves", "nbytes", "offset", "ref", "size", "value")

    def __init__(
        self,
        size: Size,
        ref: Ref | None = None,
        base: Place | None = None,
        moves: tuple[tuple[int, Size], ...] = (),
        value: Value | None = None,
        file: bool = False,
    ) -> None:
        self.resize(size)
        self.ref = ref
        self.base = base
        self.offset: Size = 0
        self.moves = moves
        self.value = value
        self.file = file  # of an outermost place: whether it lies, or wants to lie, in a file

    def resize(self, size: Size) -> None:
        """Give it another room."""
        self.size = size
        self.nbytes = size if isinstance(size, int) else most(size)

    def root(self) -> Place:
        """The outermost place that this one is in."""
        return self if self.base is None else self.base.root()

    def around(self) -> Iterator[Place]:
        """This place and those that it is in, the outermost last."""
        yield self
        if self.base is not None:
            yield from self.base.around()

    def memory(self) -> Place:
        """The outermost place that is the very same memory."""
        same = self.base is not None and not self.moves and self.base.size == self.size
        return self.base.memory() if same and self.base is not None else self

    def address(self) -> Ref:
        """Where it is, once that is settled."""
        if self.base is None:
            assert self.ref is not None, "a place was used before it was laid out"
            return self.ref
        found = self.base.address().shifted(self.offset)
        for loop, stride in self.moves:
            found = found.moved(loop, stride)
        return found


class Slot(NamedTuple):
    """One base pointer of the table: an "input", an "output" or the scratch "file", and what lies there."""

    kind: str
    type: Type
    name: str = ""


@dataclass(frozen=True)
class Launch:
    """One kernel over its whole range; `parallel` says that sharing it out among threads pays.

    `nodes` are the operations of the graph that it does.
    """

    kernel: Kernel
    refs: tuple[Ref, ...]
    parallel: bool = False
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Call:
    """A routine that is no kernel: sorting, LAPACK, a copy, advice on memory; `params` are its sizes and choices."""

    routine: str
    refs: tuple[Ref, ...]
    params: tuple[Any, ...]
    where: Where = None


@dataclass(frozen=True)
class Check:
    """Leave the program with the status `site` where the int64 at `ref` is not `fine`."""

    site: int
    ref: Ref
    fine: int


@dataclass(frozen=True)
class Repeat:
    """Steps repeated; places inside move on by the number of the trip, counted down where `reverse`."""

    loop: int
    trips: Size
    body: tuple[Step, ...]
    reverse: bool = False
    outermost: bool = False
    """Whether it may be left between trips when the caller asks the program to stop."""


@dataclass(frozen=True)
class While:
    """`test`, then while the boolean at `ref` holds: body, test."""

    test: tuple[Step, ...]
    ref: Ref
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Branch:
    """One of several lists of steps, by the int64 at `ref`; beyond the last it is the last, below 0 the first."""

    ref: Ref
    cases: tuple[tuple[Step, ...], ...]


Step = Launch | Call | Check | Repeat | While | Branch


class Decision(NamedTuple):
    """A value that leaves the arena for a while: what it is, the bytes that are free then, and what that costs.

    It comes back as `kind` says: by "recompute", or after a "spill" from a file.
    """

    what: str
    where: Where
    nbytes: int
    kind: str
    microseconds: float

    def __str__(self) -> str:
        line = f"  {show(self.where)}" if self.where is not None else ""
        return f"{self.nbytes:>15,} bytes, {self.kind}, {self.microseconds:,.1f} us: {self.what}{line}"


class Site(NamedTuple):
    """Where a program may fail while it runs: the kind of error, its facts, and the user's line."""

    kind: str
    facts: tuple[Any, ...]
    where: Where


@dataclass(repr=False)
class Plan:
    """A whole program: slots of the table, steps, and the memory that it needs between them.

    Printed it is every step; in a REPL it says how many there are.
    """

    name: str
    slots: tuple[Slot, ...]
    """The inputs, those outputs that replace none, and the scratch file where there is one; in the table they follow
    the arena and the constants."""
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    """The slot of each input of the graph."""
    outputs: tuple[int, ...]
    """The slot of each output; that of an input where the output replaces it."""
    constants: tuple[np.ndarray[Any, Any], ...]
    constant_offsets: tuple[int, ...]
    arena: Size
    """Bytes of scratch memory."""
    bound: int
    """The least that any plan with these kernels needs: the largest sum of values alive at one time."""
    sites: tuple[Site, ...] = ()
    held: tuple[Held, ...] = ()
    """What lies in the arena, and when."""
    decisions: tuple[Decision, ...] = ()
    """What leaves it for a while, and how it comes back."""
    file: int = 0
    """Bytes of scratch that lie in a file, in the last slot; without any there is no such slot."""
    left_out: tuple[str, ...] = ()
    """The optional rewritings that failed, in words."""

    @property
    def peak(self) -> list[Held]:
        """What is held when most is: the largest first."""
        return peak(self.held)

    @property
    def names(self) -> list[str]:
        """The names of its symbolic sizes."""
        return sorted(frozenset().union(*[names(n) for slot in self.slots for n in slot.type.shape]))

    @cached_property
    def looped(self) -> bool:
        """Whether there are loops besides that over whole steps, which the caller may stop."""
        return any(isinstance(s, Repeat) and not s.outermost for s in every_step(self.steps))

    def plot(self, path: str | Path) -> None:
        """Draw what the arena holds over time: a PNG by matplotlib, or one HTML page that needs nothing else."""
        draw(self, path)

    def launches(self) -> Iterator[Launch]:
        """Every launch, those in loops and branches included."""
        return (s for s in every_step(self.steps) if isinstance(s, Launch))

    def kernels(self) -> list[Kernel]:
        """The kernels, each once."""
        return list({id(s.kernel): s.kernel for s in self.launches()}.values())

    def __repr__(self) -> str:
        kernels, launches = len(self.kernels()), sum(1 for _ in self.launches())
        return f"<{self.title()}; {kernels} kernels in {launches} launches; print it for all steps>"

    def title(self) -> str:
        """Its name and its memory."""
        file = f", file {self.file} bytes" if self.file else ""
        return printable(f"plan {self.name}: arena {self.arena} bytes, at least {self.bound}{file}")

    def __str__(self) -> str:
        lines = [self.title()]
        for i, slot in enumerate(self.slots):
            lines.append(f"  s{i + 2} {slot.kind} {slot.type} {slot.name}".rstrip())
        return "\n".join([*lines, *spelled(self.steps, "  ")])


def every_step(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, outer ones before those inside them."""
    for step in steps:
        yield step
        for inner in parts(step):
            yield from every_step(inner)


def parts(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps inside a step."""
    if isinstance(step, Repeat):
        return (step.body,)
    if isinstance(step, While):
        return (step.test, step.body)
    return step.cases if isinstance(step, Branch) else ()


def spelled(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    """The lines of a list of steps."""
    for step in steps:
        if isinstance(step, Launch):
            threads = " shared" if step.parallel else ""
            yield f"{indent}{step.kernel.name}({', '.join(map(str, step.refs))}){threads}"
        elif isinstance(step, Call):
            facts = ", ".join([*map(str, step.refs), *map(str, step.params)])
            yield f"{indent}{step.routine}({facts})"
        elif isinstance(step, Check):
            yield f"{indent}check {step.ref} is {step.fine}, else site {step.site}"
        elif isinstance(step, Repeat):
            yield f"{indent}repeat {step.trips} as trip{step.loop}{' reversed' if step.reverse else ''}:"
            yield from spelled(step.body, indent + "  ")
        elif isinstance(step, While):
            yield from spelled(step.test, indent)
            yield f"{indent}while {step.ref}:"
            yield from spelled((*step.body, *step.test), indent + "  ")
        else:
            for i, case in enumerate(step.cases):
                yield f"{indent}case {i} of {step.ref}:"
                yield from spelled(case, indent + "  ")


def storage(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What the elements of a buffer are: a complex number is two real ones."""
    return dtypes.real_of(dtype) if dtype.kind == "c" else dtype
