"""Scalar codegen: the code of one element of a value, fused through everything that is not materialized."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size, most
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates, index_in_range, linear_index
from wholestep.kernel.lang import BOOL, I64, Axis, Buffer, DType, Index, Var, neutral_element
from wholestep.kernel.maths.arithmetic import add, maximum, minimum
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.program.allocation import Allocation, storage_dtype
from wholestep.primitives.class_table import ClassTable
from wholestep.primitives.movement import Concat, UpdateSlice

ScalarValue = Any
"""A Var, or a Complex pair of two."""


@dataclass(frozen=True)
class Location:
    """The location of a materialized value: its allocation and strides in elements."""

    place: Allocation
    strides: tuple[Size, ...]


class ReadableLocations:
    """The locations of materialized values, except the allocations that a kernel is about to write."""

    def __init__(self, locations: Mapping[Value, Location], hidden: Container[Allocation]) -> None:
        self.locations = locations
        self.hidden = hidden

    def __contains__(self, v: Value) -> bool:
        location = self.locations.get(v)
        return location is not None and location.place not in self.hidden

    def __getitem__(self, v: Value) -> Location:
        return self.locations[v]

    def get(self, v: Value) -> Location | None:
        """The location of a value, or None."""
        return self.locations[v] if v in self else None


def working_dtype(dtype: DType) -> DType:
    """The compute dtype of values of this dtype; of their components if they are complex."""
    return dtypes.real_of(dtype) if dtype.kind == "c" else dtypes.compute_dtype(dtype)


class ElementReader:
    """Emits the code of elements into a kernel. `homes` says which values are materialized, and where.

    `row` holds the axes of the row in vector registers, over which reductions run across lanes. Reductions of `terms`
    elements, if it is not 0, are unrolled.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        locations: ReadableLocations,
        row: tuple[Axis, ...] = (),
        terms: int = 0,
    ) -> None:
        self.builder = builder
        self.locations = locations
        self.row = row
        self.terms = terms
        self.buffers: dict[tuple[Allocation, DType], Buffer] = {}
        self.guard: Var | None = None
        """The condition under which the elements exist that are being read: nothing is loaded where it is false."""
        self.fresh = 0

    # Memory.

    def buffer(self, place: Allocation, dtype: DType, room: Size) -> Buffer:
        """The kernel buffer of an allocation."""
        key = (place, dtype)
        found = self.buffers.get(key)
        if found is None:
            found = self.builder.buffer(f"b{len(self.buffers)}", dtype, room)
            self.buffers[key] = found
        elif found.size < most(room):
            found.resize(room)
        return found

    def home_buffer(self, v: Value, location: Location) -> Buffer:
        """The buffer of a materialized value."""
        parts = 2 if v.dtype.kind == "c" else 1
        room = 1 + sum((n - 1) * s for n, s in zip(v.shape, location.strides, strict=True)) if v.type.size else 0
        return self.buffer(location.place, storage_dtype(v.dtype), room * parts)

    def load(self, v: Value, at: Coordinates, guard: Var | None = None) -> ScalarValue:
        """Load an element of a materialized value and convert it to its working dtype."""
        return self.fetch(v, self.locations[v], at, guard)

    def fetch(self, v: Value, location: Location, at: Coordinates, guard: Var | None = None) -> ScalarValue:
        """Load an element from a location."""
        buffer, line = self.home_buffer(v, location), linear_index(at, location.strides)
        guard = self.conjunction(self.guard, guard)
        if v.dtype.kind == "c":
            return Complex(*[self.builder.load(buffer, line * 2 + part, guard) for part in (0, 1)])
        return self.builder.convert(self.builder.load(buffer, line, guard), working_dtype(v.dtype))

    def store(self, v: Value, location: Location, at: Coordinates, x: ScalarValue, guard: Var | None = None) -> None:
        """Store an element of a value in its location, where the guard holds."""
        buffer, line = self.home_buffer(v, location), linear_index(at, location.strides)
        if v.dtype.kind == "c":
            self.builder.store(buffer, line * 2, x.re, guard)
            self.builder.store(buffer, line * 2 + 1, x.im, guard)
        else:
            self.builder.store(buffer, line, self.builder.convert(x, v.dtype), guard)

    # Elements.

    def axis(self, extent: Size) -> Axis:
        """A new axis for the loop of a reduction."""
        self.fresh += 1
        return Axis(f"r{self.fresh}", extent)

    def memoized(self, v: Value, at: Coordinates) -> ScalarValue | None:
        """The element if it was computed before in an enclosing scope."""
        for frame in self.builder.frames:
            for guard in dict.fromkeys((None, self.guard)):
                found = frame.memo.get((v, at, guard))
                if found is not None:
                    return found
        return None

    def memoize(self, v: Value, at: Coordinates, x: ScalarValue) -> None:
        """Memoize an element in the outermost scope in which it is valid."""
        self.builder.frames[self.builder.depth(components_of(x))].memo[(v, at, self.guard)] = x

    def read(self, v: Value, at: Coordinates) -> ScalarValue:
        """Emit the element of v at these coordinates."""
        if self.guard is not None and self.exists(v, at):
            with self.guarded(None):
                return self.read(v, at)
        found = self.memoized(v, at)
        if found is None:
            if v in self.locations:
                found = self.load(v, at)
            elif not v.type.size:
                found = self.number(0, v.dtype)  # in a loop without a step
            else:
                assert v.node is not None, "an input of a graph is always stored"
                rule = ELEMENT_RULES.of(v.node.op)
                found = (rule or read_elementwise)(self, v.node, at)
                found = found if v.node.op.view else self.round_half(v, found)
            self.memoize(v, at, found)
        return found

    def round_half(self, v: Value, x: ScalarValue) -> ScalarValue:
        """Round a half precision value as storing it would, so that it is the same wherever it is computed."""
        if v.dtype.kind == "c" or v.dtype == working_dtype(v.dtype):
            return x
        return self.builder.convert(self.builder.convert(x, v.dtype), working_dtype(v.dtype))

    def number(self, value: Any, dtype: DType) -> ScalarValue:
        """A constant of a dtype."""
        real = working_dtype(dtype)
        if dtype.kind == "c":
            whole = complex(value)
            return Complex(self.builder.constant(whole.real, real), self.builder.constant(whole.imag, real))
        return self.builder.constant(np.asarray(value).astype(dtype).astype(real)[()], real)

    def choose(self, condition: Var, x: ScalarValue, y: ScalarValue) -> ScalarValue:
        """x if the condition holds, else y."""
        if isinstance(x, Complex):
            return Complex(self.choose(condition, x.re, y.re), self.choose(condition, x.im, y.im))
        return self.builder.op("select", condition, x, y)

    def conjunction(self, x: Var | None, y: Var | None) -> Var | None:
        """The conjunction of conditions, None for the empty one."""
        if x is None or y is None:
            return x if y is None else y
        if is_never(x) or is_never(y):
            return self.never()
        return self.builder.op("and", x, y)

    def never(self) -> Var:
        """The condition that never holds."""
        return self.builder.constant(False, BOOL)

    def bounds_condition(self, index: Index, low: Size, high: Size) -> Var | None:
        """The condition low <= index < high; None if it always holds."""
        if index_in_range(index, low, high):
            return None
        if index_in_range(index, high, 2**62) or index_in_range(index, -(2**62), low):
            return self.never()
        value = self.builder.index(index)
        found: Var | None = None
        if not index_in_range(index, low, 2**62):
            found = self.builder.op("le", self.builder.size(low), value)
        if not index_in_range(index, -(2**62), high):
            found = self.conjunction(found, self.builder.op("lt", value, self.builder.size(high)))
        return found

    def read_guarded(self, v: Value, at: Coordinates, condition: Var | None, otherwise: ScalarValue) -> ScalarValue:
        """The element if a condition holds; otherwise nothing is loaded.

        An axis of one element is read at 0, so that all that read an element find it once it was computed.
        """
        if condition is not None and is_never(condition):
            return otherwise
        at = tuple([Index() if n == 1 else i for i, n in zip(at, v.shape, strict=True)])
        if condition is None:
            return self.read(v, at)
        with self.guarded(self.conjunction(self.guard, condition)):
            found = self.read(v, at)
        return self.choose(condition, found, otherwise)

    @contextmanager
    def guarded(self, guard: Var | None) -> Iterator[None]:
        """Elements read inside the `with` exist under this condition."""
        before, self.guard = self.guard, guard
        yield
        self.guard = before

    def exists(self, v: Value, at: Coordinates) -> bool:
        """True if coordinates lie in the bounds of an array, whatever the condition."""
        return all([index_in_range(i, 0, n) for i, n in zip(at, v.shape, strict=True)])

    def clip(self, index: Index, n: Size) -> Index:
        """The index clamped to the bounds of an axis."""
        if index_in_range(index, 0, n):
            return index
        value = self.builder.index(index)
        low = self.builder.op("max", value, self.builder.constant(0, I64))
        return Index(0, {self.builder.op("min", low, self.builder.size(n - 1)): 1})

    # Reductions.

    def level(self, at: Coordinates) -> int:
        """The outermost scope in which these coordinates are valid, and the condition under which they exist."""
        guard = () if self.guard is None else (self.guard,)
        return self.builder.depth([*[k for index in at for k in index.terms], *guard])

    def reduce(
        self,
        op: str,
        at: Coordinates,
        extents: Sequence[int],
        dtype: DType,
        element: Callable[..., Any],
        along: Axis | None = None,
    ) -> ScalarValue:
        """Emit `element(r)` reduced over new axes of these extents, or again over the only one, `along`."""
        if math.prod(extents) == 0:
            return self.number(neutral_element(op, working_dtype(dtype)), dtype)
        if self.row and [a.size for a in self.row] == [n for n in extents if n != 1]:
            if not any(k in self.row for index in at for k in index.terms):
                return self.across(op, extents, element)
        if [self.terms] == [n for n in extents if n != 1] and op != "mul":
            return self.unrolled(op, extents, element)
        with self.builder.at(self.level(at)):
            return self.reduction_nest(op, list(extents), [], None, dtype, element, along)

    def across(self, op: str, extents: Sequence[int], element: Callable[..., Any]) -> ScalarValue:
        """A reduction across the lanes of the row."""
        axes = iter(self.row)
        x = element(tuple([Index() if n == 1 else Index(0, {next(axes): 1}) for n in extents]))
        if op == "fma":
            op, x = "add", (x[0] * x[1],)
        for axis in self.row:
            x = tuple([self.builder.across(op, axis, part) for part in x])
        return scalar_of(x)

    def unrolled(self, op: str, extents: Sequence[int], element: Callable[..., Any]) -> ScalarValue:
        """A reduction of a few elements, in the order in which they are reduced across the lanes of a vector."""
        parts = [element(tuple([Index() if n == 1 else Index(k) for n in extents])) for k in range(self.terms)]
        if op == "fma":
            op, parts = "add", [(x * y,) for x, y in parts]
        while len(parts) > 1:
            half = 1 << ((len(parts) - 1).bit_length() - 1)
            joined = [
                tuple([COMBINE[op](a, b) for a, b in zip(x, y, strict=True)])
                for x, y in zip(parts, parts[half:], strict=False)
            ]
            parts = joined + parts[len(joined) : half]
        return scalar_of(parts[0])

    def reduction_nest(
        self,
        op: str,
        extents: list[int],
        at: list[Index],
        init: Sequence[Var] | None,
        dtype: DType,
        element: Any,
        along: Axis | None = None,
    ) -> ScalarValue:
        """Emit the loops of a reduction; an inner loop continues from the outer one's accumulator."""
        wide = [n for n in extents if n != 1]
        if not wide:
            return self.fold_once(op, element((*at, *[Index()] * len(extents))), init)
        position = next(i for i, n in enumerate(extents) if n != 1)
        at = [*at, *[Index()] * position]
        axis = along or self.axis(extents[position])
        rest = extents[position + 1 :]
        with self.builder.loop(axis) as loop:
            here = [*at, Index(0, {axis: 1})]
            if len(wide) == 1:
                values = element((*here, *[Index()] * len(rest)))
                starts = init if init is not None else [None, None]
                if op == "fma":
                    return loop.fold("fma", *values, init=starts[0])
                return scalar_of([loop.fold(op, v, init=s) for v, s in zip(values, starts, strict=False)])
            start = init if init is not None else self.start(op, dtype)
            carried = [loop.carry(v) for v in start]
            inner = components_of(self.reduction_nest(op, rest, here, carried, dtype, element))
            after = [loop.hand(c, v) for c, v in zip(carried, inner, strict=True)]
            loop.ordered = False
        return scalar_of(after)

    def start(self, op: str, dtype: DType) -> list[Var]:
        """The initial accumulator of a reduction."""
        real = working_dtype(dtype)
        one = self.builder.constant(neutral_element(op, real), real)
        return [one, self.builder.constant(0, real)] if dtype.kind == "c" else [one]

    def fold_once(self, op: str, values: Any, init: Sequence[Var] | None) -> ScalarValue:
        """Emit one step of a reduction without a loop."""
        if op == "fma":
            product = values[0] * values[1]
            return product if init is None else self.builder.op("fma", *values, init[0])
        if init is not None:
            values = [self.builder.op(op, i, v) for i, v in zip(init, values, strict=True)]
        return scalar_of(values)


def read_elementwise(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    """Emit a scalar function of the elements at the same coordinates; a bitwise one gets them in their storage
    dtype."""
    given = [reader.read(x, at) for x in node.inputs]
    if not getattr(node.op, "stored", False):
        return node.op.code(*given, **node.params)
    found = node.op.code(*[reader.builder.convert(x, v.dtype) for x, v in zip(given, node.inputs, strict=True)])
    return reader.builder.convert(found, working_dtype(node.outputs[0].dtype))


def is_never(condition: Var) -> bool:
    """True for the condition that never holds."""
    return condition.op == "const" and not condition.attr


def components_of(x: ScalarValue) -> tuple[Var, ...]:
    """The real components of a scalar."""
    return (x.re, x.im) if isinstance(x, Complex) else (x,)


def scalar_of(parts: Sequence[Var]) -> ScalarValue:
    """The scalar with these real components."""
    return parts[0] if len(parts) == 1 else Complex(*parts)


COMBINE: dict[str, Callable[[Var, Var], Var]] = {
    "add": add,
    "max": maximum,
    "min": minimum,
    "or": operator.or_,
    "and": operator.and_,
}
"""The functions of two elements by which a row in registers is reduced."""


ELEMENT_RULES: ClassTable[Callable[[ElementReader, Node, Coordinates], ScalarValue]] = ClassTable({})
"""For each operation the emitter of a result element, entered by `op_rules`; operations without one are elementwise or
opaque."""


CONCAT_KERNEL_SIZE = 1024
"""Concatenations of at least this many elements are copied part by part, smaller ones selected per element."""
SLICE_KERNEL_SIZE, SLICE_SHARE = 8192, 8
"""Slices are assigned in place in arrays of at least this many elements, of which they have at most one in so many;
others are selected per element."""


def writes_little(node: Node) -> bool:
    """True if a slice is assigned that is much smaller than its array, which is then written where it is."""
    x, u = node.inputs
    known = isinstance(x.type.size, int) and isinstance(u.type.size, int)
    return known and x.type.size >= SLICE_KERNEL_SIZE and u.type.size * SLICE_SHARE <= x.type.size


def is_opaque(node: Node) -> bool:
    """True if a node has a kernel or routine of its own."""
    if isinstance(node.op, Concat):
        return bool(node.outputs[0].type.size >= CONCAT_KERNEL_SIZE)
    if isinstance(node.op, UpdateSlice):
        return writes_little(node)
    return not (bool(node.op.kind == "elementwise") or ELEMENT_RULES.of(node.op) is not None)
