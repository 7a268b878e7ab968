"""Element rules: how each operation computes an element of its result from elements of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, Size, least
from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import Coordinates, divide_index, index_in_range, row_major_strides, size_index
from wholestep.kernel.lang import BOOL, I64, DType, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.kernels.scalar_codegen import (
    ELEMENT_RULES,
    ElementReader,
    Location,
    ScalarValue,
    components_of,
    working_dtype,
)
from wholestep.primitives.contraction import Contract, Unwindow, parts
from wholestep.primitives.creation import Full, Iota
from wholestep.primitives.indexing import Gather
from wholestep.primitives.marks import SameValue
from wholestep.primitives.movement import Concat, Movement, Pad, Reshape, UpdateSlice
from wholestep.primitives.reduction import Arg, Reduction


def read_reshape(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    """Read a reshape of a row-major location by its linear index, for any two shapes."""
    base = node.inputs[0]
    while base not in reader.locations and base.node is not None and isinstance(base.node.op, Reshape):
        base = base.node.inputs[0]
    location = reader.locations.get(base)
    if location is None or location.strides != row_major_strides(base.shape):
        return read_moved(reader, node, at)
    v = node.outputs[0]
    return reader.fetch(v, Location(location.place, row_major_strides(v.shape)), at)


def read_moved(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    return reader.read(node.inputs[0], node.op.index_map(reader.builder, node, at))


def read_full(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    value, dtype = node.params["value"], node.outputs[0].dtype
    symbolic = isinstance(value, Dim)
    return from_integer(reader, reader.builder.size(value), dtype) if symbolic else reader.number(value, dtype)


def from_integer(reader: ElementReader, value: Var, dtype: DType) -> ScalarValue:
    """An integer as a scalar of a dtype."""
    real = reader.builder.convert(value, working_dtype(dtype))
    return Complex(real, reader.builder.constant(0, working_dtype(dtype))) if dtype.kind == "c" else real


def read_iota(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    return from_integer(reader, reader.builder.index(at[node.params["axis"]]), node.outputs[0].dtype)


def strided_position(reader: ElementReader, index: Index, count: int, step: int) -> tuple[Index, Var | None]:
    """The position of an index among `count` positions `step` apart from 0, and the condition that it is one."""
    if index.const % step and not any(c % step for c in index.terms.values()):
        return Index(), reader.never()
    end = (count - 1) * step + 1
    condition = reader.bounds_condition(index, 0, end)
    if step == 1:
        return index, condition
    reader.builder.divisions.append((index, step))
    place, rest = divide_index(reader.builder, reader.clip(index, end), step)
    if rest != Index():
        nothing = reader.builder.constant(0, I64)
        condition = reader.conjunction(condition, reader.builder.op("eq", reader.builder.index(rest), nothing))
    return place, condition


def strided_positions(
    reader: ElementReader, indices: Sequence[Index], counts: Sequence[int], steps: Sequence[int]
) -> tuple[Coordinates, Var | None]:
    """`strided_position` along every axis, with the conjunction of the conditions."""
    found = [strided_position(reader, *facts) for facts in zip(indices, counts, steps, strict=True)]
    condition: Var | None = None
    for _, more in found:
        condition = reader.conjunction(condition, more)
    return tuple([place for place, _ in found]), condition


def read_pad(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    (x,), params = node.inputs, node.params
    zero = reader.number(0, x.dtype)
    if x.type.size == 0:
        return zero
    shifted = [i + size_index(reader.builder, -before) for i, before in zip(at, params["before"], strict=True)]
    place, condition = strided_positions(reader, shifted, x.shape, [gap + 1 for gap in params["interior"]])
    return reader.read_guarded(x, place, condition, zero)


def read_concat(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    axis = node.params["axis"]
    ends = list(accumulate([x.shape[axis] for x in node.inputs]))
    pieces = [(x, end - x.shape[axis], end) for x, end in zip(node.inputs, ends, strict=True) if x.type.size]
    found: ScalarValue = None
    for x, start, end in pieces:
        place = (*at[:axis], at[axis] + size_index(reader.builder, -start), *at[axis + 1 :])
        condition = reader.bounds_condition(at[axis], start, end)
        found = reader.read_guarded(x, place, condition, reader.number(0, x.dtype) if found is None else found)
    return found


def read_update_slice(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    x, u = node.inputs
    if u.type.size == 0:
        return reader.read(x, at)
    shifted = [i + -start for i, start in zip(at, node.params["start"], strict=True)]
    place, condition = strided_positions(reader, shifted, u.shape, node.params["step"])
    return reader.read_guarded(u, place, condition, reader.read(x, at))


def read_unwindow(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    """The sum over the windows that contain an element: at most one for each offset in a window."""
    y, k = node.inputs[0], len(node.params["sizes"])
    lead = y.ndim - 2 * k
    places, sizes = y.shape[lead : lead + k], y.shape[lead + k :]
    zero = reader.number(0, y.dtype)

    def element(offsets: Coordinates) -> Any:
        first = [i + o * -d for i, o, d in zip(at[lead:], offsets, node.params["dilation"], strict=True)]
        positions, condition = strided_positions(reader, first, places, node.params["stride"])
        return components_of(reader.read_guarded(y, (*at[:lead], *positions, *offsets), condition, zero))

    return reader.reduce("add", at, sizes, y.dtype, element) if y.type.size else zero


def read_reduction(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    x, axes = node.inputs[0], node.params["axes"]

    def element(r: Coordinates) -> Any:
        rest, inner = iter(at), iter(r)
        return components_of(reader.read(x, tuple([next(inner) if a in axes else next(rest) for a in range(x.ndim)])))

    ordered = tuple(sorted(axes))
    return reader.reduce(node.op.fold, at, [x.shape[a] for a in ordered], x.dtype, element)


def read_contraction(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    x, y = node.inputs
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    # Summed labels in memory order of the first operand, so that its loads have constant strides.
    inner = sorted([c for c in sizes if c not in out], key=a.index)
    where = dict(zip(out, at, strict=True))
    real_float = working_dtype(x.dtype).kind == "f" and x.dtype.kind != "c"

    def element(r: Coordinates) -> Any:
        here = {**where, **dict(zip(inner, r, strict=True))}
        left = reader.read(x, tuple([here[c] for c in a]))
        right = reader.read(y, tuple([here[c] for c in b]))
        return (left, right) if real_float else components_of(left * right)

    return reader.reduce("fma" if real_float else "add", at, [sizes[c] for c in inner], x.dtype, element)


def read_gather(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    x, *indices = node.inputs
    axes, k = node.params["axes"], indices[0].ndim
    rest = iter(at[k:])
    picked = {}
    for axis, index in zip(axes, indices, strict=True):
        picked[axis] = wrap_index(reader, reader.read(index, at[:k]), x.shape[axis])
    return reader.read(x, tuple([picked[a] if a in picked else next(rest) for a in range(x.ndim)]))


def wrap_index(reader: ElementReader, value: Var, n: Size) -> Index:
    """An in-bounds index, which may count from the end, as one that counts from the start."""
    counted = counted_index(value, n)
    if counted is not None:
        return counted
    wide = reader.builder.convert(value, I64)
    if not dtypes.counts_back(value.dtype):
        return wide.attr if wide.op == "index" else Index(0, {wide: 1})
    below = reader.builder.op("lt", wide, reader.builder.constant(0, I64))
    shifted = reader.builder.op("add", wide, reader.builder.size(n))
    return Index(0, {reader.builder.op("select", below, shifted, wide): 1})


def counted_index(value: Var, n: Size) -> Index | None:
    """The index whose value an integer of any dtype is, if it provably lies in [0, n); None for other integers."""
    largest = n
    while value.op == "convert" and value.args[0].dtype.kind in "iu":
        largest = least(largest, int(np.iinfo(value.dtype).max) + 1)
        (value,) = value.args
    return value.attr if value.op == "index" and index_in_range(value.attr, 0, largest) else None


FEW_ELEMENTS = 16
"""The most elements, materialized, whose extreme one is found without a loop: vectors lie along another axis."""


SHORT_CODE = 8
"""The most operations of an element whose code is repeated for few elements."""


def has_short_code(reader: ElementReader, v: Value) -> bool:
    """Test whether an element takes few operations, all of them elementwise, from materialized values."""
    waiting, operations = [v], 0
    while waiting and operations <= SHORT_CODE:
        v = waiting.pop()
        if v in reader.locations or v.node is None:
            continue
        if ELEMENT_RULES.of(v.node.op) not in (None, read_moved, read_reshape, read_full, read_iota):
            return False
        operations += 1
        waiting += v.node.inputs
    return operations <= SHORT_CODE


def first_of_few(reader: ElementReader, fold: str, values: Sequence[Var]) -> Var:
    """The number of the first extreme value, or of the first NaN, each value beside the best one before it."""
    best, place = values[0], reader.builder.constant(0, np.dtype(np.int32))
    for k, value in enumerate(values[1:], 1):
        less, more = (value, best) if fold == "max" else (best, value)
        better = ~(less <= more)
        if value.dtype.kind == "f":
            better = better & ~reader.builder.op("isnan", best)
        best = reader.choose(better, value, best)
        place = reader.choose(better, reader.builder.constant(k, np.dtype(np.int32)), place)
    return place


def read_argument_extreme(reader: ElementReader, node: Node, at: Coordinates) -> ScalarValue:
    """The first index of the extreme element, or of the first NaN."""
    x, axis = node.inputs[0], node.params["axis"]
    n = x.shape[axis]
    fold = node.op.extreme

    def element(r: Coordinates) -> Any:
        value = reader.read(x, (*at[:axis], r[0], *at[axis:]))
        return (value,) if value.dtype != BOOL else (reader.builder.convert(value, np.dtype(np.int8)),)

    if isinstance(n, int) and n <= FEW_ELEMENTS and has_short_code(reader, x):
        found = first_of_few(reader, fold, [element((Index(k),))[0] for k in range(n)])
        return reader.builder.convert(found, np.dtype(np.int64))
    dtype = x.dtype if x.dtype.kind != "b" else np.dtype(np.int8)
    along = reader.axis(n)  # one axis, so that vectors lie along both loops
    best = reader.reduce(fold, at, [n], dtype, element, along)
    short = isinstance(n, int) and n < 2**31
    counted = np.dtype(np.int32 if short else np.int64)

    def place(r: Coordinates) -> Any:
        (value,) = element(r)
        hit = reader.builder.op("eq", value, best)
        if value.dtype.kind == "f":
            hit = reader.builder.op("or", hit, reader.builder.op("isnan", value))
        here, last = reader.builder.index(r[0]), reader.builder.size(n)
        return (reader.choose(hit, reader.builder.convert(here, counted), reader.builder.convert(last, counted)),)

    found = reader.reduce("min", at, [n], counted, place, along)
    return reader.builder.convert(found, np.dtype(np.int64))


ELEMENT_RULES.update(
    {
        Movement: read_moved,
        SameValue: read_moved,
        Reshape: read_reshape,
        Reduction: read_reduction,
        Full: read_full,
        Iota: read_iota,
        Pad: read_pad,
        Concat: read_concat,
        UpdateSlice: read_update_slice,
        Unwindow: read_unwindow,
        Contract: read_contraction,
        Gather: read_gather,
        Arg: read_argument_extreme,
    }
)
