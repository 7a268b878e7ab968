"""Reader: one element of a value as scalar code, through everything that was never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size, most
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import I64, Axis, Buffer, DType, Index, Var, identity
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.indices import At, flat, inside
from wholestep.lower.kinds import MAPS
from wholestep.lower.plan import Place, storage

Scalar = Any
"""A Var, or the Complex pair of two."""


@dataclass(frozen=True)
class Home:
    """Where a value is stored: its place, and by how many elements each of its axes steps."""

    place: Place
    strides: tuple[Size, ...]


class Readable:
    """The homes of what is stored, but for the places that a kernel is about to write, whatever value they go by."""

    def __init__(self, homes: Mapping[Value, Home], hidden: Container[Place]) -> None:
        self.homes = homes
        self.hidden = hidden

    def __contains__(self, v: Value) -> bool:
        home = self.homes.get(v)
        return home is not None and home.place not in self.hidden

    def __getitem__(self, v: Value) -> Home:
        return self.homes[v]

    def get(self, v: Value) -> Home | None:
        """The home of a value, None where it has none."""
        return self.homes[v] if v in self else None


def working(dtype: DType) -> DType:
    """The dtype that a value of this dtype is computed in; that of its parts where it is complex."""
    return dtypes.real_of(dtype) if dtype.kind == "c" else dtypes.compute_dtype(dtype)


class Reader:
    """Writes the code of elements into a kernel. `homes` says which values are stored, and where.

    `row` holds the axes over which a reduction is done across the vector that holds the whole row.
    """

    def __init__(self, builder: Builder, homes: Readable, row: tuple[Axis, ...] = ()) -> None:
        self.builder = builder
        self.homes = homes
        self.row = row
        self.buffers: dict[tuple[Place, DType], Buffer] = {}
        self.fresh = 0

    # Memory.

    def buffer(self, place: Place, dtype: DType, room: Size) -> Buffer:
        """The kernel's name for a place."""
        key = (place, dtype)
        found = self.buffers.get(key)
        if found is None:
            found = self.builder.buffer(f"b{len(self.buffers)}", dtype, room)
            self.buffers[key] = found
        elif found.size < most(room):
            found.resize(room)
        return found

    def home_buffer(self, v: Value, home: Home) -> Buffer:
        """The buffer of a stored value."""
        parts = 2 if v.dtype.kind == "c" else 1
        room = 1 + sum((n - 1) * s for n, s in zip(v.shape, home.strides, strict=True)) if v.type.size else 0
        return self.buffer(home.place, storage(v.dtype), room * parts)

    def load(self, v: Value, at: At, guard: Var | None = None) -> Scalar:
        """An element of a stored value, in the dtype that it is worked with."""
        return self.fetch(v, self.homes[v], at, guard)

    def fetch(self, v: Value, home: Home, at: At, guard: Var | None = None) -> Scalar:
        """An element of a value that lies somewhere."""
        buffer, line = self.home_buffer(v, home), flat(at, home.strides)
        if v.dtype.kind == "c":
            return Complex(*[self.builder.load(buffer, line * 2 + part, guard) for part in (0, 1)])
        return self.builder.convert(self.builder.load(buffer, line, guard), working(v.dtype))

    def store(self, v: Value, home: Home, at: At, x: Scalar) -> None:
        """Write an element of a value where it is stored."""
        buffer, line = self.home_buffer(v, home), flat(at, home.strides)
        if v.dtype.kind == "c":
            self.builder.store(buffer, line * 2, x.re)
            self.builder.store(buffer, line * 2 + 1, x.im)
        else:
            self.builder.store(buffer, line, self.builder.convert(x, v.dtype))

    # Elements.

    def axis(self, extent: Size) -> Axis:
        """A new axis for a loop that a reduction needs."""
        self.fresh += 1
        return Axis(f"r{self.fresh}", extent)

    def known(self, v: Value, at: At) -> Scalar | None:
        """The element, where it was read before and is in sight."""
        for frame in self.builder.frames:
            found = frame.memo.get((v, at))
            if found is not None:
                return found
        return None

    def keep(self, v: Value, at: At, x: Scalar) -> None:
        """Remember an element in the outermost body where it is in sight."""
        self.builder.frames[self.builder.depth(components(x))].memo[(v, at)] = x

    def read(self, v: Value, at: At) -> Scalar:
        """The element of v at these coordinates."""
        found = self.known(v, at)
        if found is None:
            if v in self.homes:
                found = self.load(v, at)
            elif not v.type.size:
                found = self.number(0, v.dtype)  # in a loop without a step
            else:
                assert v.node is not None, "an input of a graph is always stored"
                rule = RULES.get(v.node.op.name)
                found = (rule or elementwise)(self, v.node, at)
                found = found if v.node.op.name in MAPS else self.rounded(v, found)
            self.keep(v, at, found)
        return found

    def rounded(self, v: Value, x: Scalar) -> Scalar:
        """Half precision as it would be if it were stored, so that a value is the same wherever it is computed."""
        if v.dtype.kind == "c" or v.dtype == working(v.dtype):
            return x
        return self.builder.convert(self.builder.convert(x, v.dtype), working(v.dtype))

    def number(self, value: Any, dtype: DType) -> Scalar:
        """A number of a dtype."""
        real = working(dtype)
        if dtype.kind == "c":
            whole = complex(value)
            return Complex(self.builder.constant(whole.real, real), self.builder.constant(whole.imag, real))
        return self.builder.constant(np.asarray(value).astype(dtype).astype(real)[()], real)

    def choose(self, condition: Var, x: Scalar, y: Scalar) -> Scalar:
        """x where the condition holds, else y."""
        if isinstance(x, Complex):
            return Complex(self.choose(condition, x.re, y.re), self.choose(condition, x.im, y.im))
        return self.builder.op("select", condition, x, y)

    def both(self, x: Var | None, y: Var | None) -> Var | None:
        """The conjunction of conditions, None where nothing is asked."""
        if x is None or y is None:
            return x if y is None else y
        return self.builder.op("and", x, y)

    def bound(self, index: Index, low: Size, high: Size) -> Var | None:
        """The condition low <= index < high; None where it always holds."""
        if inside(index, low, high):
            return None
        value = self.builder.index(index)
        found: Var | None = None
        if not inside(index, low, 2**62):
            found = self.builder.op("le", self.builder.size(low), value)
        if not inside(index, -(2**62), high):
            found = self.both(found, self.builder.op("lt", value, self.builder.size(high)))
        return found

    def guarded(self, v: Value, at: At, condition: Var | None, otherwise: Scalar) -> Scalar:
        """The element where a condition holds; elsewhere nothing outside the array is read."""
        if condition is None:
            return self.read(v, at)
        source, place = self.resolve(v, at)
        if source in self.homes:
            return self.choose(condition, self.load(source, place, condition), otherwise)
        clipped = tuple([self.clip(i, n) for i, n in zip(place, source.shape, strict=True)])
        return self.choose(condition, self.read(source, clipped), otherwise)

    def resolve(self, v: Value, at: At) -> tuple[Value, At]:
        """Through movement to what is moved."""
        while v not in self.homes and v.node is not None and v.node.op.name in MAPS:
            at = MAPS[v.node.op.name](self.builder, v.node, at)
            v = v.node.inputs[0]
        return v, at

    def clip(self, index: Index, n: Size) -> Index:
        """The index, or the nearest that is inside an axis."""
        if inside(index, 0, n):
            return index
        value = self.builder.index(index)
        low = self.builder.op("max", value, self.builder.constant(0, I64))
        return Index(0, {self.builder.op("min", low, self.builder.size(n - 1)): 1})

    # Reductions.

    def level(self, at: At) -> int:
        """The outermost body in which these coordinates are in sight."""
        return self.builder.depth([k for index in at for k in index.terms])

    def reduce(self, op: str, at: At, extents: Sequence[int], dtype: DType, element: Callable[..., Any]) -> Scalar:
        """`element(r)` reduced over new axes of these extents."""
        if math.prod(extents) == 0:
            return self.number(identity(op, working(dtype)), dtype)
        if self.row and [a.size for a in self.row] == [n for n in extents if n != 1] and not self.on_row(at):
            return self.across(op, extents, element)
        with self.builder.at(self.level(at)):
            return self.nest(op, list(extents), [], None, dtype, element)

    def on_row(self, at: At) -> bool:
        """Whether coordinates run along the row."""
        return any(k in self.row for index in at for k in index.terms)

    def across(self, op: str, extents: Sequence[int], element: Callable[..., Any]) -> Scalar:
        """A reduction over the row that one vector holds."""
        axes = iter(self.row)
        x = element(tuple([Index() if n == 1 else Index(0, {next(axes): 1}) for n in extents]))
        if op == "fma":
            op, x = "add", (x[0] * x[1],)
        for axis in self.row:
            x = tuple([self.builder.across(op, axis, part) for part in x])
        return scalar(x)

    def nest(
        self, op: str, extents: list[int], at: list[Index], init: Sequence[Var] | None, dtype: DType, element: Any
    ) -> Scalar:
        """The loops of a reduction; an inner one goes on from what the outer one has so far."""
        wide = [n for n in extents if n != 1]
        if not wide:
            return self.folded(op, element((*at, *[Index()] * len(extents))), init)
        position = next(i for i, n in enumerate(extents) if n != 1)
        at = [*at, *[Index()] * position]
        axis = self.axis(extents[position])
        rest = extents[position + 1 :]
        with self.builder.loop(axis) as loop:
            here = [*at, Index(0, {axis: 1})]
            if len(wide) == 1:
                values = element((*here, *[Index()] * len(rest)))
                return self.finish(loop, op, values, init)
            start = init if init is not None else self.start(op, dtype)
            carried = [loop.carry(v) for v in start]
            inner = components(self.nest(op, rest, here, carried, dtype, element))
            after = [loop.hand(c, v) for c, v in zip(carried, inner, strict=True)]
            loop.ordered = False
        return scalar(after)

    def start(self, op: str, dtype: DType) -> list[Var]:
        """What a reduction starts from."""
        real = working(dtype)
        one = self.builder.constant(identity(op, real), real)
        return [one, self.builder.constant(0, real)] if dtype.kind == "c" else [one]

    def finish(self, loop: Any, op: str, values: Any, init: Sequence[Var] | None) -> Scalar:
        """The folds of the innermost loop."""
        starts = init if init is not None else [None, None]
        if op == "fma":
            return loop.fold("fma", *values, init=starts[0])
        return scalar([loop.fold(op, v, init=s) for v, s in zip(values, starts, strict=False)])

    def folded(self, op: str, values: Any, init: Sequence[Var] | None) -> Scalar:
        """One step of a reduction without a loop."""
        if op == "fma":
            product = values[0] * values[1]
            return product if init is None else self.builder.op("fma", *values, init[0])
        if init is not None:
            values = [self.builder.op(op, i, v) for i, v in zip(init, values, strict=True)]
        return scalar(values)


def elementwise(reader: Reader, node: Node, at: At) -> Scalar:
    """One scalar function of the elements at the same place; one that works on bits gets them as they are stored."""
    given = [reader.read(x, at) for x in node.inputs]
    if not getattr(node.op, "stored", False):
        return node.op.code(*given, **node.params)
    found = node.op.code(*[reader.builder.convert(x, v.dtype) for x, v in zip(given, node.inputs, strict=True)])
    return reader.builder.convert(found, working(node.outputs[0].dtype))


def components(x: Scalar) -> tuple[Var, ...]:
    """The real numbers that a scalar is made of."""
    return (x.re, x.im) if isinstance(x, Complex) else (x,)


def scalar(parts: Sequence[Var]) -> Scalar:
    """The scalar that real numbers are the components of."""
    return parts[0] if len(parts) == 1 else Complex(*parts)


RULES: dict[str, Callable[[Reader, Node, At], Scalar]] = {}
"""How an element of each operation's result is read; the rules enter themselves (see `elements`), and every operation
without one is elementwise or has a kernel of its own."""
