"""Address computation for loads and stores."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.backends.cpu.codegen.llvm_types import LlvmType, llvm_type, simd_type
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes, vector_lanes
from wholestep.backends.cpu.codegen.writer import FunctionWriter, UnrolledValue
from wholestep.kernel.lang import Axis, Buffer, Index, Var


class IndexTerm(NamedTuple):
    """A value in an index: its copy for each copy of the access, and its factor."""

    value: UnrolledValue
    copies: list[int]
    factor: int
    form: LlvmType


class AccessPattern(NamedTuple):
    """The addresses of an access: a base pointer, a distance in bytes for each copy, a stride in elements between
    lanes, and the values in the index, split into those uniform over the lanes and the others. `forward` is true where
    the base pointer never lies before the buffer."""

    pointer: str
    distances: list[int]
    stride: int
    lanes: int
    form: LlvmType
    scalars: list[IndexTerm]
    vectors: list[IndexTerm]
    forward: bool

    def offset_by(self, elements: int) -> AccessPattern:
        """Return the pattern shifted by a number of elements."""
        by = elements * self.form.size
        return self._replace(distances=[d + by for d in self.distances]) if by else self


class AddressBuilder:
    """Analyzes the index of an access and emits its pointers."""

    def __init__(self, w: FunctionWriter, bases: dict[Buffer, str], values: dict[Var, UnrolledValue]) -> None:
        self.w = w
        self.bases = bases
        self.values = values

    def find(self, buffer: Buffer, index: Index, axes: VaryingAxes) -> AccessPattern:
        """Return the access pattern of the copies along some axes."""
        w, made = self.w, llvm_type(buffer.dtype)
        strides: dict[Axis, int] = {}
        start, stride = index.const * made.size, 0
        scalars: list[IndexTerm] = []
        vectors: list[IndexTerm] = []
        for key, factor in index.terms.items():
            if isinstance(key, Axis):
                strides[key] = factor * made.size
                start += w.scopes[key].base * factor * made.size
                stride = factor if key.lanes > 1 else stride
            else:
                value = self.values[key]
                term = IndexTerm(value, w.project(axes, value.axes), factor, llvm_type(key.dtype))
                (vectors if value.lanes else scalars).append(term)
        pointer, distances = w.pointer(self.bases[buffer], strides), w.element_offsets(axes, strides, start)
        forward = not scalars and min(strides.values(), default=0) >= 0
        return AccessPattern(pointer, distances, stride, vector_lanes(axes), made, scalars, vectors, forward)

    def address(self, place: AccessPattern, copy: int, extra: int = 0) -> str:
        """Emit the pointer of a copy; its lanes follow by the stride."""
        pointer = place.pointer
        for value, copies, factor, kind in place.scalars:
            name = self.long(value.name(copies[copy], 0), kind, 0)
            offset = self.w.let(f"mul i64 {name}, {factor * place.form.size}")
            pointer = self.w.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.w.offset_pointer(pointer, place.distances[copy] + extra, place.forward)

    def addresses(self, place: AccessPattern, copy: int) -> str:
        """Emit a vector of pointers, one for each lane of a copy."""
        w, lanes, size, long = self.w, place.lanes, place.form.size, simd_type("i64", place.lanes)
        pointer = self.address(place, copy)
        offset = "<" + ", ".join(f"i64 {lane * place.stride * size}" for lane in range(lanes)) + ">"
        for value, copies, factor, kind in place.vectors:
            name = self.long(value.name(copies[copy], lanes), kind, lanes)
            offset = w.let(f"add {long} {w.let(f'mul {long} {name}, splat (i64 {factor * size})')}, {offset}")
        return w.let(f"getelementptr i8, ptr {pointer}, {long} {offset}")

    def long(self, name: str, kind: LlvmType, lanes: int) -> str:
        """Extend an integer to i64."""
        if kind.register == "i64":
            return name
        grow = "sext" if kind.kind == "i" else "zext"
        return self.w.let(f"{grow} {simd_type(kind.register, lanes)} {name} to {simd_type('i64', lanes)}")
