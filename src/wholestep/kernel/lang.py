"""Kernel: one loop nest over axes of constant size, with scalar values in SSA form, as plain data.

A statement is a value (Var), a Store, a Loop or a Barrier. A reduction over a loop is a fold, and a loop-carried value
a carry. Axes hold the schedule: the elements of one vector (`lanes`), the steps that are unrolled in registers
(`tile`), and whether a step is a thread of a workgroup (`thread`). The schedule changes nothing but the order of a
fold; only barriers and scratch memory refer to threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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

    A symbolic size is an argument of the program; `extent` is its assumed value at compile time. `lanes` elements form
    one vector; `tile` such vectors (elements, where lanes is 1) are unrolled side by side. Of an ordered or folding
    loop, `tile` is the number of unrolled copies of the body. The steps of `thread` axes are the threads of a
    workgroup, and the loops around them are the grid. `ahead` is the prefetch distance, in steps, of vectors that are
    strided along the axis; it changes no value. An axis is immutable: a `KernelSchedule` gives a kernel new ones.
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
        """True where its size is an argument of the program."""
        return isinstance(self.size, Dim)

    def __repr__(self) -> str:
        return self.name


class Buffer:
    """A flat array: an argument in global memory, or a kernel's own scratch memory; equal by identity.

    `room` is the number of its elements, which may be symbolic, and `size` is its value for the assumed sizes.
    """

    __slots__ = ("dtype", "name", "room", "size", "space", "written")

    def __init__(self, name: str, dtype: DType, room: Size, written: bool = False, space: Space = "global") -> None:
        self.name = name
        self.dtype = dtype
        self.written = written
        self.space = space
        self.resize(room)

    def resize(self, room: Size) -> None:
        """Set the number of elements."""
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
        """The factor of an axis or value; 0 where it is not among the terms."""
        return self.terms.get(key, 0)

    def values(self) -> tuple[Var, ...]:
        """The integer values among its terms."""
        return tuple([k for k in self.terms if isinstance(k, Var)])

    def __repr__(self) -> str:
        parts = [f"{c}*{k!r}" if c != 1 else f"{k!r}" for k, c in self.terms.items()]
        return " + ".join([*parts, str(self.const)] if self.const or not parts else parts)


NO_INDEX = Index()


def written(op: str, swapped: bool = False) -> Callable[[Var, Any], Var]:
    """An operator of values that adds this operation to the innermost builder."""

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
        """The operands of the value, those inside its index included."""
        index = self.index
        return self.args if index is NO_INDEX else (*self.args, *index.values())

    def __repr__(self) -> str:
        return f"<{self.op} {dtypes.short(self.dtype)}>"

    # Operators add operations to the innermost builder, so that scalar mathematics reads as mathematics.
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
    """The open builders, innermost last; every thread has its own stack, since programs may be compiled in parallel."""

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
    """A barrier: all threads of a workgroup reach it before any continues, and their writes are visible to all, except
    vectors copied to shared memory since the last `late` barriers, whose copies may be incomplete.
    """

    __slots__ = ("late",)

    def __init__(self, late: int = 0) -> None:
        self.late = late


class Fold(NamedTuple):
    """A reduction over a loop: `result = init op value op value ...` in any fixed order.

    `op` is add, mul, max, min (NaN wins), and, or, or fma with two values: `result = init + sum of a * b`. The values
    of dot_bf16x2 are words of two bfloat16 numbers each, whose two products are added to a float32 result.
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
    """The body at each point of an axis, in independent steps unless the loop has folds, carries or an order. A loop
    that is not ordered may carry the accumulator of a fold inside it, which is then one fold over both loops.

    If the guard is false, the loop takes no step, and its folds and carries have their initial values as results. A
    rare case is therefore an ordered loop of one guarded step, which vectors skip if the guard holds in no lane.
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

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All of its loops, outer ones first."""
        return tuple([s for s in walk(self.body) if isinstance(s, Loop)])

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
"""The printer of kernels, which the text form registers here when the language is imported."""


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of a body and of the loops in it, in order; a loop comes before the statements of its body."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def axes_of(kernel: Kernel) -> list[Axis]:
    """The axes of a kernel's loops, outermost first."""
    return [loop.axis for loop in kernel.loops]


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
    """The number of innermost points of a kernel's loops."""

    def count(body: tuple[Statement, ...]) -> int:
        return max(sum(s.axis.extent * count(s.body) for s in body if isinstance(s, Loop)), 1)

    return count(kernel.body)


NEUTRAL: dict[str, Any] = {"add": 0, "fma": 0, "dot_bf16x2": 0, "mul": 1, "and": True, "or": False}
"""The default initial value of a fold; that of max and min depends on the dtype."""


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
