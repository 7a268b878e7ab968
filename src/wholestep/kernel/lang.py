"""Kernel: one loop nest over axes of constant size, with scalar values in SSA form, as plain data.

A statement is a value (Var), a Store, a Loop or a Barrier. What a loop reduces leaves it as a fold; what it hands from
one step to the next is a carry. Axes carry the schedule: how many elements one vector holds (`lanes`), how many steps
are worked on side by side in registers (`tile`), and whether a step is a thread of a workgroup (`thread`). The schedule
never changes the meaning beyond the order of a fold; only barriers and scratch memory refer to threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, Size, most

if TYPE_CHECKING:
    from wholestep.kernel.build import KernelBuilder

DType = np.dtype[Any]
BOOL, I32, I64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)

Space = Literal["global", "shared", "private"]
"""A memory space: that of all threads, that of the threads of one workgroup, that of one thread."""


class Axis:
    """One loop variable, from 0 to `size` - 1; equal by identity.

    A size may be symbolic: it is then given when the program is called, and `extent` is what is supposed meanwhile.
    `lanes` elements form one vector; `tile` such vectors (elements, where lanes is 1) are worked on side by side. Of an
    ordered or folding loop, `tile` is how often the body is unrolled. The steps of `thread` axes are the threads of a
    workgroup, and the loops around them are the grid. Vectors that lie apart along an axis may be asked for `ahead`
    steps early, which shows in no value. An axis is never changed: a `KernelSchedule` gives a kernel new ones.
    """

    __slots__ = ("ahead", "extent", "lanes", "name", "size", "thread", "tile")
    name: str
    size: Size
    extent: int
    lanes: int
    tile: int
    thread: bool
    ahead: int

    def __init__(
        self,
        name: str,
        size: Size,
        *,
        extent: int | None = None,
        lanes: int = 1,
        tile: int = 1,
        thread: bool = False,
        ahead: int = 0,
    ) -> None:
        fill = object.__setattr__
        fill(self, "name", name)
        fill(self, "size", size)
        fill(self, "extent", size if isinstance(size, int) else most(size) if extent is None else extent)
        fill(self, "lanes", lanes)
        fill(self, "tile", tile)
        fill(self, "thread", thread)
        fill(self, "ahead", ahead)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an axis is never changed: {name}")

    @property
    def block(self) -> int:
        """The number of elements that one step of the loop covers."""
        return self.lanes * self.tile

    @property
    def steps(self) -> int:
        """The number of steps that the loop takes, the last one perhaps in part."""
        return -(-self.extent // self.block)

    @property
    def symbolic(self) -> bool:
        """True where its size is given when the program is called."""
        return isinstance(self.size, Dim)

    def __repr__(self) -> str:
        return self.name


class Buffer:
    """A flat array: in global memory, given by pointer, or scratch memory of a kernel's own; equal by identity.

    `room` counts its elements, which may be symbolic, and `size` is what that is for the sizes supposed.
    """

    __slots__ = ("dtype", "name", "room", "size", "space", "written")

    def __init__(self, name: str, dtype: DType, room: Size, written: bool = False, space: Space = "global") -> None:
        self.name = name
        self.dtype = dtype
        self.written = written
        self.space = space
        self.resize(room)

    def resize(self, room: Size) -> None:
        """Give it another room."""
        self.room = room
        self.size = room if isinstance(room, int) else most(room)

    def __repr__(self) -> str:
        return self.name


class Index:
    """An affine expression: a constant and integer multiples of axes and of integer values; equal by content."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int = 0, terms: Mapping[Axis | Var, int] | None = None) -> None:
        self.const = int(const)
        self.terms: dict[Axis | Var, int] = {k: int(c) for k, c in (terms or {}).items() if c}

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.const + other, self.terms)
        terms = dict(self.terms)
        for k, c in other.terms.items():
            terms[k] = terms.get(k, 0) + c
        return Index(self.const + other.const, terms)

    def __mul__(self, factor: int) -> Index:
        return Index(self.const * factor, {k: c * factor for k, c in self.terms.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.const, frozenset(self.terms.items())))

    def coefficient(self, key: Axis | Var) -> int:
        """By how much the index grows with an axis or value."""
        return self.terms.get(key, 0)

    def values(self) -> tuple[Var, ...]:
        """The integer values among its terms."""
        return tuple([k for k in self.terms if isinstance(k, Var)])

    def __repr__(self) -> str:
        parts = [f"{c}*{k!r}" if c != 1 else f"{k!r}" for k, c in self.terms.items()]
        return " + ".join([*parts, str(self.const)] if self.const or not parts else parts)


NO_INDEX = Index()


def written(op: str, swapped: bool = False) -> Callable[[Var, Any], Var]:
    """An operator of values: this operation, written by the builder at work."""

    def apply(x: Var, y: Any) -> Var:
        return ACTIVE.builders[-1].op(op, y, x) if swapped else ACTIVE.builders[-1].op(op, x, y)

    return apply


class Var:
    """One scalar value, at each point of the loops around it: `op` applied to `args`; equal by identity.

    | op | attr | args |
    |---|---|---|
    | const | the number | |
    | size | a symbolic size | its value as int64, given when the program is called |
    | index | Index | its value as int64 |
    | load | (Buffer, Index) | nothing, or a guard: where it is false nothing is read and the value is 0 |
    | convert, bits | | one value: to this dtype by value, or by its bits |
    | across | (fold name, Axis) | one value: reduced over a lane axis around that one step of the loop covers |
    | call | symbol | an external scalar function |
    | fold, carry, carried | | made by a Loop |
    | the others | | see `wholestep.kernel.ops` |
    """

    __slots__ = ("args", "attr", "dtype", "op")

    def __init__(self, op: str, args: tuple[Var, ...], dtype: DType, attr: Any = None) -> None:
        self.op = op
        self.args = args
        self.dtype = dtype
        self.attr = attr

    @property
    def index(self) -> Index:
        """The index of a load or of an index value; an empty one of the others."""
        found: Index = self.attr[1] if self.op == "load" else self.attr if self.op == "index" else NO_INDEX
        return found

    def reads(self) -> tuple[Var, ...]:
        """Every value that this one is made of, those inside its index included."""
        index = self.index
        return self.args if index is NO_INDEX else (*self.args, *index.values())

    def __repr__(self) -> str:
        return f"<{self.op} {dtypes.short(self.dtype)}>"

    # Operators go to the builder at work, so that scalar mathematics reads as mathematics.
    __add__, __radd__ = written("add"), written("add", swapped=True)
    __sub__, __rsub__ = written("sub"), written("sub", swapped=True)
    __mul__, __rmul__ = written("mul"), written("mul", swapped=True)
    __truediv__, __rtruediv__ = written("div"), written("div", swapped=True)
    __and__, __or__, __xor__ = written("and"), written("or"), written("xor")
    __lshift__, __rshift__ = written("shl"), written("shr")
    __lt__, __gt__ = written("lt"), written("lt", swapped=True)
    __le__, __ge__ = written("le"), written("le", swapped=True)

    def __neg__(self) -> Var:
        return ACTIVE.builders[-1].op("neg", self)

    def __invert__(self) -> Var:
        return ACTIVE.builders[-1].op("not", self)


class BuilderStack(threading.local):
    """The builders at work, innermost last; every thread has its own, since programs may be compiled side by side."""

    def __init__(self) -> None:
        self.builders: list[KernelBuilder] = []


ACTIVE = BuilderStack()


class Store(NamedTuple):
    """Write a value; where a guard is given and false, write nothing."""

    buffer: Buffer
    index: Index  # type: ignore[assignment]  # a statement is no sequence: nobody asks it for positions
    value: Var
    guard: Var | None = None

    def reads(self) -> tuple[Var, ...]:
        """The values that it uses, those inside its index included."""
        return (self.value, *self.index.values(), *(() if self.guard is None else (self.guard,)))


class Barrier:
    """All threads of a workgroup get here before any goes on, and what they wrote is there for all of them, but for
    vectors copied to shared memory after the `late` barriers before this one: those may still be on their way.
    """

    __slots__ = ("late",)

    def __init__(self, late: int = 0) -> None:
        self.late = late


class Fold(NamedTuple):
    """A reduction over a loop: `result = init op value op value ...` in any fixed order.

    `op` is add, mul, max, min (NaN wins), and, or, or fma with two values: `result = init + sum of a * b`.
    """

    op: str
    result: Var
    init: Var
    values: tuple[Var, ...]


class Carry(NamedTuple):
    """A loop-carried value: `inside` holds it at the start of each step, `after` once the loop has ended."""

    inside: Var
    init: Var
    next: Var
    after: Var


class Loop(NamedTuple):
    """The body at each point of an axis: independent steps, unless it folds, or is ordered and carries. A loop that is
    not ordered may carry what a fold inside it goes on from: the fold is then one over both loops.

    Where a guard is given and false, the loop takes no step: folds and carries leave with what they started from. So a
    rare case is written as an ordered loop of one guarded step; vectors skip it when no lane asks for it.
    """

    axis: Axis
    body: tuple[Statement, ...]
    folds: tuple[Fold, ...] = ()
    carries: tuple[Carry, ...] = ()
    ordered: bool = False
    guard: Var | None = None

    def reads(self) -> tuple[Var, ...]:
        """The values that it uses itself: those of its folds, its carries and its guard, and none of its body."""
        folded = [v for f in self.folds for v in (f.init, *f.values)]
        carried = [v for c in self.carries for v in (c.init, c.next)]
        return (*folded, *carried, *(() if self.guard is None else (self.guard,)))

    @property
    def independent(self) -> bool:
        """True where its steps may be taken in any order."""
        return not (self.folds or self.carries or self.ordered)


Statement = Var | Store | Loop | Barrier


@dataclass(frozen=True, eq=False)
class Kernel:
    """A loop nest, the buffers that it is given, and its shared and private ones; equal by identity.

    Where the body is one independent loop, its steps may be shared out among threads.
    """

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...] = ()

    @property
    def outer(self) -> Axis | None:
        """The axis whose steps are independent of each other and may be shared out; None where there is none."""
        last = self.body[-1] if self.body else None
        if isinstance(last, Loop) and last.independent:
            rest_is_values = all(isinstance(s, Var) for s in self.body[:-1])
            return last.axis if rest_is_values else None
        return None

    def __str__(self) -> str:
        return PRINTER[0](self)


PRINTER: list[Callable[[Kernel], str]] = []
"""The printer of kernels; the text form enters itself here when the language is imported."""


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of a body and of the loops in it, in order; a loop comes before what is in it."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def axes_of(kernel: Kernel) -> list[Axis]:
    """The axes of a kernel's loops, outermost first."""
    return [s.axis for s in walk(kernel.body) if isinstance(s, Loop)]


def sizes_of(kernel: Kernel) -> dict[Dim, None]:
    """The symbolic sizes that a kernel names."""
    found: dict[Dim, None] = {}
    for s in walk(kernel.body):
        if isinstance(s, Loop) and isinstance(s.axis.size, Dim):
            found[s.axis.size] = None
        elif isinstance(s, Var) and s.op == "size":
            found[s.attr] = None
    return found


def loop_points(kernel: Kernel) -> int:
    """The number of points of a kernel's loops, counted where they are deepest."""

    def count(body: tuple[Statement, ...]) -> int:
        return max(sum(s.axis.extent * count(s.body) for s in body if isinstance(s, Loop)), 1)

    return count(kernel.body)


NEUTRAL: dict[str, Any] = {"add": 0, "fma": 0, "mul": 1, "and": True, "or": False}
"""The initial value of a fold where nothing else is said; that of max and min depends on the dtype."""


def neutral_element(op: str, dtype: DType) -> Any:
    """The neutral number of a fold in a dtype."""
    if op in NEUTRAL:
        return NEUTRAL[op]
    if dtype.kind == "b":
        return op == "min"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if op == "max" else info.max
    return -math.inf if op == "max" else math.inf
