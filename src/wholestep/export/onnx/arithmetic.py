"""Arithmetic, comparisons and bits in ONNX's operators, in dtypes that ONNX Runtime has kernels for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.first_maxima import is_rectifier
from wholestep.export.onnx.kernels import wider
from wholestep.export.onnx.writer import OnnxWriter, Word
from wholestep.ir.graph import Node
from wholestep.primitives.family import number_of

UNARY = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "arcsin": "Asin",
    "arccos": "Acos", "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "arcsinh": "Asinh",
    "arccosh": "Acosh", "arctanh": "Atanh", "floor": "Floor", "ceil": "Ceil", "rint": "Round", "sign": "Sign",
    "abs": "Abs", "neg": "Neg", "erf": "Erf", "expit": "Sigmoid",
}  # fmt: skip
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max", "minimum": "Min"}
COMPARISONS = {"equal": "Equal", "less": "Less", "less_equal": "LessOrEqual"}
REDUCTIONS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
LOGIC = {"add": "Or", "mul": "And", "maximum": "Or", "minimum": "And"}
"""Arithmetic of booleans."""


def onnx_computed(
    w: OnnxWriter, kind: str, xs: Sequence[str], dtype: Any, result: Any = None, **attributes: Any
) -> str:
    """An operator in the dtype of a kernel, its result cast back, or in a dtype that it has by itself."""
    inside = wider(kind, dtype)
    assert inside is not None, (kind, dtype)
    given = xs if inside == dtype else [w.cast(x, inside) for x in xs]
    made = w.op(kind, *given, **attributes)
    return made if result is not None or inside == dtype else w.cast(made, dtype)


def onnx_unary(kind: str) -> Word:
    """An operator of one number."""
    return lambda w, node, xs: onnx_computed(w, kind, xs, node.types[0].dtype)


def onnx_binary(name: str) -> Word:
    """An operator of two numbers."""

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> str:
        dtype = node.types[0].dtype
        if dtypes.is_bool(dtype):
            return w.op(LOGIC[name], *xs)
        return onnx_computed(w, BINARY[name], xs, dtype)

    return word


def onnx_compared(w: OnnxWriter, kind: str, xs: Sequence[str], dtype: Any) -> str:
    """A comparison; unsigned numbers of 64 bits are compared with their halves exchanged."""
    if dtype == np.uint64 and kind != "Equal":
        low = w.constant(np.int64(np.iinfo(np.int64).min))
        return w.op(kind, *[w.op("BitwiseXor", w.cast(x, np.int64), low) for x in xs])
    return onnx_computed(w, kind, xs, dtype, result=bool)


def onnx_comparison(kind: str) -> Word:
    """A comparison."""
    return lambda w, node, xs: onnx_compared(w, kind, xs, node.types[0].dtype)


def onnx_different(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `different`."""
    return w.op("Not", onnx_computed(w, "Equal", xs, node.types[0].dtype, result=bool))


def onnx_not_a_number(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `not_a_number`."""
    return onnx_computed(w, "IsNaN", xs, node.types[0].dtype, result=bool)


def onnx_finite(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `finite`."""
    dtype = node.types[0].dtype
    bad = [onnx_computed(w, kind, xs, dtype, result=bool) for kind in ("IsNaN", "IsInf")]
    return w.op("Not", w.op("Or", *bad))


def onnx_choice(w: OnnxWriter, condition: str, both: Sequence[str], dtype: Any) -> str:
    """The first where a condition holds, else the second."""
    inside = wider("Where", dtype)
    assert inside is not None
    if inside == dtype:
        return w.op("Where", condition, *both)
    return w.cast(w.op("Where", condition, *[w.cast(x, inside) for x in both]), dtype)


def onnx_chosen(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `chosen`; a rectifier as a maximum, since a choice by signs takes ONNX Runtime ten times as long."""
    dtype = node.types[1].dtype
    if is_rectifier(node) and dtype == np.float32:
        return w.op("Max", xs[2], xs[1])
    return onnx_choice(w, xs[0], xs[1:], dtype)


def onnx_share_of_maximum(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `wins` beside 0: a slope that all numbers but 0 reach the ends of, and no choice is made."""
    first = number_of(node.inputs[0]) is None
    steep = float(np.finfo(np.float32).max)
    return w.op("HardSigmoid", xs[0 if first else 1], alpha=steep if first else -steep, beta=0.5)


def onnx_bitwise(short: str) -> Word:
    """An operator of bits, or of truths."""
    return lambda w, node, xs: w.op(short if dtypes.is_bool(node.types[0].dtype) else f"Bitwise{short}", *xs)


def onnx_shift(w: OnnxWriter, way: str, xs: Sequence[str], dtype: Any) -> str:
    """Bits moved; a signed number to the right as one without sign, turned over before and after if it is negative."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    inside = unsigned if unsigned.itemsize != 2 else np.dtype(np.uint32)
    if dtype.kind == "u":
        given = xs if inside == dtype else [w.cast(v, inside) for v in xs]
        made = w.op("BitShift", *given, direction=way)
        return made if inside == dtype else w.cast(made, dtype)
    if way == "RIGHT":
        x, count = xs
        zero, ones = w.constant(np.zeros((), dtype)), w.constant(np.array(-1, dtype))
        mask = onnx_choice(w, onnx_compared(w, "Less", [x, zero], dtype), [ones, zero], dtype)
        bits = [w.cast(w.cast(v, unsigned), inside) for v in (w.op("BitwiseXor", x, mask), count)]
        moved = w.cast(w.cast(w.op("BitShift", *bits, direction=way), unsigned), dtype)
        return w.op("BitwiseXor", moved, mask)
    bits = [w.cast(w.cast(v, unsigned), inside) for v in xs]
    return w.cast(w.cast(w.op("BitShift", *bits, direction=way), unsigned), dtype)


def onnx_shifted(way: str) -> Word:
    """Bits moved."""
    return lambda w, node, xs: onnx_shift(w, way, xs, node.types[0].dtype)


def onnx_safe_divisor(w: OnnxWriter, y: str, dtype: Any) -> str:
    """A divisor with 1 for 0 and -1, by which processors cannot divide all integers."""
    one = w.constant(np.ones((), dtype))
    for number in (0, -1)[: 1 + (dtype.kind == "i")]:
        unsafe = onnx_compared(w, "Equal", [y, w.constant(np.array(number, dtype))], dtype)
        y = onnx_choice(w, unsafe, [one, y], dtype)
    return y


def onnx_floored_quotient(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `floored_quotient`: of integers; 0 where the divisor is."""
    dtype, (x, y) = node.types[0].dtype, xs
    safe = onnx_safe_divisor(w, y, dtype)
    zero, found = w.constant(np.zeros((), dtype)), onnx_computed(w, "Div", [x, safe], dtype)
    special = [(0, zero)]
    if dtype.kind == "i":  # Div cuts to zero: one less where the rest has another sign than the divisor
        rest = onnx_computed(w, "Mod", [x, safe], dtype, fmod=1)
        signs = [onnx_compared(w, "Less", [v, zero], dtype) for v in (rest, safe)]
        whole = onnx_compared(w, "Equal", [rest, zero], dtype)
        less = w.op("And", w.op("Xor", *signs), w.op("Not", whole))
        one = w.constant(np.ones((), dtype))
        found = onnx_choice(w, less, [onnx_computed(w, "Sub", [found, one], dtype), found], dtype)
        special.append((-1, onnx_computed(w, "Neg", [x], dtype)))
    for number, result in special:
        holds = onnx_compared(w, "Equal", [y, w.constant(np.array(number, dtype))], dtype)
        found = onnx_choice(w, holds, [result, found], dtype)
    return found


def onnx_whole_remainder(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `whole_remainder`."""
    dtype = node.types[0].dtype
    return onnx_computed(w, "Mod", [xs[0], onnx_safe_divisor(w, xs[1], dtype)], dtype)


def onnx_signed_remainder(w: OnnxWriter, node: Node, xs: list[str]) -> str:
    """Operation `signed_remainder`."""
    dtype, (x, y) = node.types[0].dtype, xs
    divisor = onnx_safe_divisor(w, y, dtype) if dtype.kind in "iu" else y
    return onnx_computed(w, "Mod", [x, divisor], dtype, fmod=1)
