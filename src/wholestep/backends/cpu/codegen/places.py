"""Where the copies of a load or store lie in memory."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.backends.cpu.codegen.facts import Axes, lanes_of
from wholestep.backends.cpu.codegen.forms import Form, form, typed
from wholestep.backends.cpu.codegen.writer import Value, Writer
from wholestep.kernel.lang import Axis, Buffer, Index, Var


class Term(NamedTuple):
    """A value in an index: which of its copies belongs to each copy of the access, and what it is multiplied by."""

    value: Value
    copies: list[int]
    factor: int
    form: Form


class Place(NamedTuple):
    """A pointer; for each copy a distance in bytes; from lane to lane a stride in elements; the values in the index,
    those that are the same for all lanes and the others."""

    pointer: str
    distances: list[int]
    stride: int
    lanes: int
    form: Form
    scalars: list[Term]
    vectors: list[Term]

    def further(self, elements: int) -> Place:
        """The place so many elements on."""
        by = elements * self.form.size
        return self._replace(distances=[d + by for d in self.distances]) if by else self


class Places:
    """Finds places, and writes the pointers to them."""

    def __init__(self, w: Writer, bases: dict[Buffer, str], values: dict[Var, Value]) -> None:
        self.w = w
        self.bases = bases
        self.values = values

    def find(self, buffer: Buffer, index: Index, axes: Axes) -> Place:
        """Where the copies along some axes lie."""
        w, made = self.w, form(buffer.dtype)
        strides: dict[Axis, int] = {}
        start, stride = index.const * made.size, 0
        scalars: list[Term] = []
        vectors: list[Term] = []
        for key, factor in index.terms.items():
            if isinstance(key, Axis):
                strides[key] = factor * made.size
                start += w.scopes[key].base * factor * made.size
                stride = factor if key.lanes > 1 else stride
            else:
                value = self.values[key]
                term = Term(value, w.project(axes, value.axes), factor, form(key.dtype))
                (vectors if value.lanes else scalars).append(term)
        pointer = w.pointer(self.bases[buffer], strides)
        return Place(pointer, w.spread(axes, strides, start), stride, lanes_of(axes), made, scalars, vectors)

    def address(self, place: Place, copy: int, extra: int = 0) -> str:
        """The pointer of a copy: of its first lane, where values do not set its lanes apart."""
        pointer = place.pointer
        for value, copies, factor, kind in place.scalars:
            name = self.long(value.name(copies[copy], 0), kind, 0)
            offset = self.w.let(f"mul i64 {name}, {factor * place.form.size}")
            pointer = self.w.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.w.ahead(pointer, place.distances[copy] + extra)

    def addresses(self, place: Place, copy: int) -> str:
        """A pointer for each lane of a copy."""
        w, lanes, size, long = self.w, place.lanes, place.form.size, typed("i64", place.lanes)
        pointer = self.address(place, copy)
        offset = "<" + ", ".join(f"i64 {lane * place.stride * size}" for lane in range(lanes)) + ">"
        for value, copies, factor, kind in place.vectors:
            name = self.long(value.name(copies[copy], lanes), kind, lanes)
            offset = w.let(f"add {long} {w.let(f'mul {long} {name}, splat (i64 {factor * size})')}, {offset}")
        return w.let(f"getelementptr i8, ptr {pointer}, {long} {offset}")

    def long(self, name: str, kind: Form, lanes: int) -> str:
        """An integer as an i64."""
        if kind.register == "i64":
            return name
        grow = "sext" if kind.kind == "i" else "zext"
        return self.w.let(f"{grow} {typed(kind.register, lanes)} {name} to {typed('i64', lanes)}")
