"""Elements: how one element of an operation's result is made of elements of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, Size
from wholestep.ir.graph import Node
from wholestep.kernel.lang import BOOL, I64, DType, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.access import RULES, Home, Reader, Scalar, components, working
from wholestep.lower.indices import At, along, divide, inside, strides_of
from wholestep.lower.kinds import FOLDS, MAPS
from wholestep.primitives.contraction import parts


def reshape(reader: Reader, node: Node, at: At) -> Scalar:
    """What is stored in row-major order is read by its place in it, whatever its shape."""
    base = node.inputs[0]
    while base not in reader.homes and base.node is not None and base.node.op.name == "reshape":
        base = base.node.inputs[0]
    home = reader.homes.get(base)
    if home is None or home.strides != strides_of(base.shape):
        return moved(reader, node, at)
    v = node.outputs[0]
    return reader.fetch(v, Home(home.place, strides_of(v.shape)), at)


def moved(reader: Reader, node: Node, at: At) -> Scalar:
    return reader.read(node.inputs[0], MAPS[node.op.name](reader.builder, node, at))


def full(reader: Reader, node: Node, at: At) -> Scalar:
    value, dtype = node.params["value"], node.outputs[0].dtype
    return counted(reader, value, dtype) if isinstance(value, Dim) else reader.number(value, dtype)


def counted(reader: Reader, size: Size, dtype: DType) -> Scalar:
    """A size as a number of a dtype."""
    real = reader.builder.convert(reader.builder.size(size), working(dtype))
    return Complex(real, reader.builder.constant(0, working(dtype))) if dtype.kind == "c" else real


def iota(reader: Reader, node: Node, at: At) -> Scalar:
    value = reader.builder.index(at[node.params["axis"]])
    dtype = node.outputs[0].dtype
    real = reader.builder.convert(value, working(dtype))
    return Complex(real, reader.builder.constant(0, working(dtype))) if dtype.kind == "c" else real


def stepped(reader: Reader, index: Index, count: int, step: int) -> tuple[Index, Var | None]:
    """Which of `count` places, `step` apart from 0 on, an index is, and the condition that it is one of them."""
    end = (count - 1) * step + 1
    condition = reader.bound(index, 0, end)
    if step == 1:
        return index, condition
    place, rest = divide(reader.builder, reader.clip(index, end), step)
    if rest != Index():
        nothing = reader.builder.constant(0, I64)
        condition = reader.both(condition, reader.builder.op("eq", reader.builder.index(rest), nothing))
    return place, condition


def spaced(
    reader: Reader, indices: Sequence[Index], counts: Sequence[int], steps: Sequence[int]
) -> tuple[At, Var | None]:
    """`stepped` along every axis, with one condition for all."""
    found = [stepped(reader, *facts) for facts in zip(indices, counts, steps, strict=True)]
    condition: Var | None = None
    for _, more in found:
        condition = reader.both(condition, more)
    return tuple([place for place, _ in found]), condition


def pad(reader: Reader, node: Node, at: At) -> Scalar:
    (x,), params = node.inputs, node.params
    zero = reader.number(0, x.dtype)
    if x.type.size == 0:
        return zero
    shifted = [i + along(reader.builder, -before) for i, before in zip(at, params["before"], strict=True)]
    place, condition = spaced(reader, shifted, x.shape, [gap + 1 for gap in params["interior"]])
    return reader.guarded(x, place, condition, zero)


def concat(reader: Reader, node: Node, at: At) -> Scalar:
    axis = node.params["axis"]
    ends = list(accumulate([x.shape[axis] for x in node.inputs]))
    pieces = [(x, end - x.shape[axis], end) for x, end in zip(node.inputs, ends, strict=True) if x.type.size]
    found: Scalar = None
    for x, start, end in pieces:
        place = (*at[:axis], at[axis] + along(reader.builder, -start), *at[axis + 1 :])
        condition = reader.bound(at[axis], start, end)
        found = reader.guarded(x, place, condition, reader.number(0, x.dtype) if found is None else found)
    return found


def update_slice(reader: Reader, node: Node, at: At) -> Scalar:
    x, u = node.inputs
    if u.type.size == 0:
        return reader.read(x, at)
    shifted = [i + -start for i, start in zip(at, node.params["start"], strict=True)]
    place, condition = spaced(reader, shifted, u.shape, node.params["step"])
    return reader.guarded(u, place, condition, reader.read(x, at))


def unwindow(reader: Reader, node: Node, at: At) -> Scalar:
    """The sum over the windows that an element is in: for each place in a window, at most one."""
    y, k = node.inputs[0], len(node.params["sizes"])
    lead = y.ndim - 2 * k
    places, sizes = y.shape[lead : lead + k], y.shape[lead + k :]
    zero = reader.number(0, y.dtype)

    def element(offsets: At) -> Any:
        first = [i + o * -d for i, o, d in zip(at[lead:], offsets, node.params["dilation"], strict=True)]
        positions, condition = spaced(reader, first, places, node.params["stride"])
        return components(reader.guarded(y, (*at[:lead], *positions, *offsets), condition, zero))

    return reader.reduce("add", at, sizes, y.dtype, element) if y.type.size else zero


def reduction(reader: Reader, node: Node, at: At) -> Scalar:
    x, axes = node.inputs[0], node.params["axes"]

    def element(r: At) -> Any:
        rest, inner = iter(at), iter(r)
        return components(reader.read(x, tuple([next(inner) if a in axes else next(rest) for a in range(x.ndim)])))

    ordered = tuple(sorted(axes))
    return reader.reduce(FOLDS[node.op.name], at, [x.shape[a] for a in ordered], x.dtype, element)


def contract(reader: Reader, node: Node, at: At) -> Scalar:
    x, y = node.inputs
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    # Summed labels in the order in which they lie in the first operand, so that the walk through memory is even.
    inner = sorted([c for c in sizes if c not in out], key=a.index)
    where = dict(zip(out, at, strict=True))
    real_float = working(x.dtype).kind == "f" and x.dtype.kind != "c"

    def element(r: At) -> Any:
        here = {**where, **dict(zip(inner, r, strict=True))}
        left = reader.read(x, tuple([here[c] for c in a]))
        right = reader.read(y, tuple([here[c] for c in b]))
        return (left, right) if real_float else components(left * right)

    return reader.reduce("fma" if real_float else "add", at, [sizes[c] for c in inner], x.dtype, element)


def gather(reader: Reader, node: Node, at: At) -> Scalar:
    x, *indices = node.inputs
    axes, k = node.params["axes"], indices[0].ndim
    rest = iter(at[k:])
    picked = {}
    for axis, index in zip(axes, indices, strict=True):
        picked[axis] = position(reader, reader.read(index, at[:k]), x.shape[axis])
    return reader.read(x, tuple([picked[a] if a in picked else next(rest) for a in range(x.ndim)]))


def position(reader: Reader, value: Var, n: Size) -> Index:
    """An index that may count from the end as one that counts from the start; it is known to be inside."""
    wide = reader.builder.convert(value, I64)
    if not dtypes.counts_back(value.dtype) or (wide.op == "index" and inside(wide.attr, 0, n)):
        return wide.attr if wide.op == "index" else Index(0, {wide: 1})
    below = reader.builder.op("lt", wide, reader.builder.constant(0, I64))
    shifted = reader.builder.op("add", wide, reader.builder.size(n))
    return Index(0, {reader.builder.op("select", below, shifted, wide): 1})


def argument(reader: Reader, node: Node, at: At) -> Scalar:
    """The first place of the extreme element: of NaN, where there is one."""
    x, axis = node.inputs[0], node.params["axis"]
    n = x.shape[axis]
    fold = "max" if node.op.name == "argmax" else "min"

    def element(r: At) -> Any:
        value = reader.read(x, (*at[:axis], r[0], *at[axis:]))
        return (value,) if value.dtype != BOOL else (reader.builder.convert(value, np.dtype(np.int8)),)

    dtype = x.dtype if x.dtype.kind != "b" else np.dtype(np.int8)
    best = reader.reduce(fold, at, [n], dtype, element)

    def place(r: At) -> Any:
        (value,) = element(r)
        hit = reader.builder.op("eq", value, best)
        if value.dtype.kind == "f":
            hit = reader.builder.op("or", hit, reader.builder.op("ne", value, value))
        return (reader.choose(hit, reader.builder.index(r[0]), reader.builder.size(n)),)

    return reader.reduce("min", at, [n], np.dtype(np.int64), place)


RULES.update(
    {
        **dict.fromkeys(MAPS, moved),
        "reshape": reshape,
        **dict.fromkeys(FOLDS, reduction),
        "full": full,
        "iota": iota,
        "pad": pad,
        "concat": concat,
        "update_slice": update_slice,
        "unwindow": unwindow,
        "contract": contract,
        "gather": gather,
        "argmax": argument,
        "argmin": argument,
    }
)
