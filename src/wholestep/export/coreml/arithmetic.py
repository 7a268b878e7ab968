"""Arithmetic, comparisons and bits in MIL: integers of all sizes lie in int32, and wrap as their own size does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.coreml.writer import INT32, MilWriter, Var, Word
from wholestep.ir.graph import Node

MIL_UNARY = {
    "exp": "exp", "exp2": "exp2", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arctanh": "atanh",
    "floor": "floor", "ceil": "ceil", "rint": "round", "abs": "abs", "erf": "erf", "expit": "sigmoid",
}  # fmt: skip
MIL_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "real_div", "pow": "pow", "maximum": "maximum",
    "minimum": "minimum",
}  # fmt: skip
MIL_COMPARISONS = {"equal": "equal", "not_equal": "not_equal", "less": "less", "less_equal": "less_equal"}
MIL_LOGIC = {"add": "logical_or", "mul": "logical_and", "maximum": "logical_or", "minimum": "logical_and"}
"""Arithmetic of booleans."""


def mil_wrapped(w: MilWriter, x: Var, dtype: Any) -> Var:
    """Integers wrapped to the range of a dtype; dtypes of 32 bits or more are left unchanged."""
    dtype = np.dtype(dtype)
    if not dtypes.is_integer(dtype) or dtype.itemsize >= 4:
        return x
    low, count = int(np.iinfo(dtype).min), 1 << (8 * dtype.itemsize)
    up = w.op("sub", x=x, y=w.number(low, INT32)) if low else x
    rest = w.op("mod", x=up, y=w.number(count, INT32))
    return w.op("add", x=rest, y=w.number(low, INT32)) if low else rest


def mil_unary(kind: str) -> Word:
    """An operation of one number."""
    return lambda w, node, xs: mil_wrapped(w, w.op(kind, x=xs[0]), node.types[0].dtype)


def mil_binary(name: str) -> Word:
    """An operation of two numbers."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        dtype = node.types[0].dtype
        kind = MIL_LOGIC[name] if dtypes.is_bool(dtype) else MIL_BINARY[name]
        return mil_wrapped(w, w.op(kind, x=xs[0], y=xs[1]), dtype)

    return word


def mil_negative(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The number times -1."""
    dtype = node.types[0].dtype
    return mil_wrapped(w, w.op("mul", x=xs[0], y=w.number(-1, INT32 if dtypes.is_integer(dtype) else dtype)), dtype)


def mil_logarithm(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The logarithm, without the epsilon that MIL adds by default."""
    return w.op("log", x=xs[0], epsilon=np.zeros((), node.types[0].dtype)[()])


def mil_comparison(name: str) -> Word:
    """A comparison; of truths by logic."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        x, y = xs
        if not dtypes.is_bool(node.types[0].dtype):
            return w.op(MIL_COMPARISONS[name], x=x, y=y)
        if name in ("equal", "not_equal"):
            apart = w.op("logical_xor", x=x, y=y)
            return apart if name == "not_equal" else w.op("logical_not", x=apart)
        return w.op("logical_and" if name == "less" else "logical_or", x=w.op("logical_not", x=x), y=y)

    return word


def mil_choice(w: MilWriter, condition: Var, x: Var, y: Var) -> Var:
    """The first where a condition holds, else the second; coremltools takes the shape of these two."""
    shape = np.broadcast_shapes(*[tuple(v.shape) for v in (condition, x, y)])
    if np.broadcast_shapes(tuple(x.shape), tuple(y.shape)) != shape:
        x = w.tiled(w.view(x, (*[1] * (len(shape) - len(x.shape)), *x.shape)), shape)
    return w.op("select", cond=condition, a=x, b=y)


def mil_chosen(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Operation `select`."""
    return mil_choice(w, *xs)


def mil_cast(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """A cast: fractions are truncated, integers wrap, and numbers other than 0 are true."""
    x, source, wanted = xs[0], node.types[0].dtype, np.dtype(node.params["dtype"])
    if dtypes.is_bool(wanted):
        return x if dtypes.is_bool(source) else w.op("not_equal", x=x, y=w.number(0, source))
    made = x if dtypes.is_integer(source) and dtypes.is_integer(wanted) else w.cast(x, wanted)
    return mil_wrapped(w, made, wanted)


# Integers: quotients and remainders.


def mil_divided(w: MilWriter, kind: str, x: Var, y: Var) -> Var:
    """A quotient or remainder of integers as floor makes it; 0 where the divisor is."""
    nothing = w.op("equal", x=y, y=w.number(0, INT32))
    made = w.op(kind, x=x, y=mil_choice(w, nothing, w.number(1, INT32), y))
    return mil_choice(w, nothing, w.number(0, INT32), made)


def mil_floored(kind: str) -> Word:
    """A quotient or remainder of integers."""
    return lambda w, node, xs: mil_wrapped(w, mil_divided(w, kind, *xs), node.types[0].dtype)


def mil_rest_with_sign(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The remainder with the sign of the dividend."""
    x, y = xs
    rest, zero = mil_divided(w, "mod", x, y), w.number(0, INT32)
    apart = w.op("logical_xor", x=w.op("less", x=x, y=zero), y=w.op("less", x=y, y=zero))
    turned = w.op("logical_and", x=apart, y=w.op("not_equal", x=rest, y=zero))
    return mil_choice(w, turned, w.op("sub", x=rest, y=y), rest)


# Bits.


def bit_planes(w: MilWriter, x: Var, dtype: Any) -> Var:
    """The bits of integers along a new last axis, the lowest first, and the sign as the last one."""
    bits = 8 * min(np.dtype(dtype).itemsize, 4)
    signed = np.dtype(dtype).kind == "i"
    powers = w.constant((1 << np.arange(bits - signed)).astype(np.int32))
    flat = w.view(x, (math.prod(x.shape), 1))
    parts = w.op("mod", x=w.op("floor_div", x=flat, y=powers), y=w.number(2, INT32))
    planes = w.op("equal", x=parts, y=w.number(1, INT32))
    if not signed:
        return planes
    sign = w.cast(w.op("less", x=flat, y=w.number(0, INT32)), INT32)
    whole = w.op("concat", values=[w.cast(planes, INT32), sign], axis=1)
    return w.op("equal", x=whole, y=w.number(1, INT32))


def from_planes(w: MilWriter, planes: Var, dtype: Any, shape: Sequence[int]) -> Var:
    """The integers of `bit_planes`."""
    bits = 8 * min(np.dtype(dtype).itemsize, 4)
    weights = 1 << np.arange(bits, dtype=np.int64)
    if np.dtype(dtype).kind == "i":
        weights[-1] *= -1
    terms = w.op("mul", x=w.cast(planes, INT32), y=w.constant(weights.astype(np.int32)))
    return w.view(w.op("reduce_sum", x=terms, axes=[1], keep_dims=False), shape)


def mil_bitwise(kind: str) -> Word:
    """An operation of truths, or of the bits of integers one by one."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        dtype = node.types[0].dtype
        if dtypes.is_bool(dtype):
            return w.op(f"logical_{kind}", x=xs[0], y=xs[1])
        shape = np.broadcast_shapes(*[tuple(x.shape) for x in xs])
        planes = [bit_planes(w, x if tuple(x.shape) == shape else w.tiled(x, shape), dtype) for x in xs]
        return from_planes(w, w.op(f"logical_{kind}", x=planes[0], y=planes[1]), dtype, shape)

    return word


def mil_complement(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The bitwise complement: -1 - x, or the largest value minus x for unsigned integers."""
    dtype = node.types[0].dtype
    if dtypes.is_bool(dtype):
        return w.op("logical_not", x=xs[0])
    last = -1 if dtype.kind == "i" else int(np.iinfo(dtype).max)
    return w.op("sub", x=w.number(last, INT32), y=xs[0])


def power_of_two(w: MilWriter, count: Var, low: int, high: int) -> Var:
    """Powers of two by a table, for exponents that are brought between two."""
    least = w.op("maximum", x=count, y=w.number(low, INT32))
    at = w.op("minimum", x=least, y=w.number(high, INT32))
    table = w.constant((1 << np.arange(high + 1, dtype=np.int64)).astype(np.int32))
    places = w.view(at, (math.prod(at.shape),))
    return w.view(w.op("gather", x=table, indices=places, axis=0, validate_indices=False), at.shape)


def mil_left_shift(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """A left shift as a product with a power of two, which wraps."""
    dtype, (x, count) = node.types[0].dtype, xs
    bits = 8 * min(dtype.itemsize, 4)
    made = w.op("mul", x=x, y=power_of_two(w, count, 0, min(bits, 31)))
    gone = w.op("less", x=w.number(bits - 1, INT32), y=count)
    return mil_choice(w, gone, w.number(0, INT32), mil_wrapped(w, made, dtype))


def mil_right_shift(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The floor of a quotient by a power of two; the sign alone where all bits are moved out."""
    x, count = xs
    made = w.op("floor_div", x=x, y=power_of_two(w, count, 0, 30))
    gone = w.op("less", x=w.number(30, INT32), y=count)
    sign = mil_choice(w, w.op("less", x=x, y=w.number(0, INT32)), w.number(-1, INT32), w.number(0, INT32))
    return mil_choice(w, gone, sign, made)
