"""Work: something to be done in order, before places have addresses; and what all parts of one program share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wholestep.dims import Size
from wholestep.errors import Where
from wholestep.ir.graph import NDArray, Value
from wholestep.kernel.lang import Buffer, Kernel, Var, walk
from wholestep.lower.access import Home
from wholestep.lower.indices import strides_of
from wholestep.lower.memory import Life, rounded
from wholestep.lower.plan import Launch, Place, Ref, Site, Step
from wholestep.lower.schedule import worth_sharing
from wholestep.lower.target import Machine
from wholestep.lower.write import Written

ARENA, CONSTANT = 0, 1
"""The slots that every program has."""


@dataclass(eq=False)
class Work:
    """What is read and written, and the steps that it becomes once places have addresses."""

    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    steps: Callable[[], tuple[Step, ...]]
    scratch: tuple[Place, ...] = ()
    """Places that are needed while it runs and not after."""
    check: bool = False
    """Whether the program may be left here, so that nothing resident may have been written before."""
    written: Written | None = None
    home: bool = False
    """Whether it only brings a result home that was made elsewhere."""
    inner: tuple[Lowered, ...] = ()
    """The graphs inside it, in the order in which they run."""


@dataclass(eq=False)
class Lowered:
    """The works of a graph in their order, and the arena of their temporary places once it is laid out."""

    works: tuple[Work, ...]
    arena: Place
    outside: frozenset[Place]
    """The places of what is given to the graph and wanted of it."""
    bound: int = 0
    lives: tuple[Life, ...] = ()
    file: Place = field(default_factory=lambda: Place(0, file=True))
    """What the arena is to temporary places in memory, to those that want to lie in a file."""
    free: list[tuple[Place, Place | None, Size]] = field(default_factory=list)
    """What its places were in before they were laid out."""

    def release(self) -> None:
        """Take the places out of the arena again."""
        for p, base, offset in self.free:
            p.base, p.offset = base, offset
        self.free = []

    def steps(self) -> tuple[Step, ...]:
        """The steps, once every place has its address."""
        return tuple([step for work in self.works for step in work.steps()])


@dataclass
class Context:
    """What all parts of one program share."""

    machine: Machine
    constants: dict[int, tuple[NDArray, Place]] = field(default_factory=dict)
    constant_bytes: int = 0
    sites: list[Site] = field(default_factory=list)
    loops: int = 0
    pinned: dict[Place, str] = field(default_factory=dict)
    """What the user has said of values: "keep" or "recompute"."""

    def constant(self, value: NDArray) -> Place:
        """The place of an array that is part of the program."""
        found = self.constants.get(id(value))
        if found is None:
            place = Place(value.nbytes, Ref(CONSTANT, self.constant_bytes))
            self.constant_bytes += rounded(value.nbytes)
            found = self.constants[id(value)] = (value, place)
        return found[1]

    def site(self, kind: str, facts: tuple[Any, ...], where: Where) -> int:
        """The number of a place where the program may fail; 0 is success."""
        self.sites.append(Site(kind, facts, where))
        return len(self.sites)

    def loop(self) -> int:
        """The number of a new loop."""
        self.loops += 1
        return self.loops - 1


def home_of(v: Value, place: Place) -> Home:
    """A value in row-major order at a place; it can be read only where all its steps are numbers."""
    return Home(place, strides_of(v.shape))


def loaded(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether a kernel reads a buffer."""
    return any(isinstance(s, Var) and s.op == "load" and s.attr[0] is buffer for s in walk(kernel.body))


def kernel_work(made: Written) -> Work:
    """The work of one kernel."""
    pairs = list(zip(made.places, made.kernel.buffers, strict=True))
    parallel = worth_sharing(made.kernel)

    def steps() -> tuple[Step, ...]:
        return (Launch(made.kernel, tuple([p.address() for p in made.places]), parallel, made.nodes),)

    return Work(
        tuple([p for p, b in pairs if loaded(made.kernel, b)]),
        tuple([p for p, b in pairs if b.written]),
        steps,
        written=made,
    )
