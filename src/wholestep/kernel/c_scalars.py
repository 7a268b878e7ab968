"""Scalar C: the types of dtypes, numbers, and the expression of each operation of the kernel language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.kernel.c_halves import FUNCTIONS, HALVES, NEEDS as HALF_NEEDS
from wholestep.kernel.lang import DType, Var

FLOAT = dtypes.from_short("f32")
TYPES = {"bool": "uint8_t", "f32": "float", "f64": "double", **dict.fromkeys(HALVES, "uint16_t")} | {
    f"{sign}{8 * n}": f"{'u' * (sign == 'u')}int{8 * n}_t" for sign in "iu" for n in (1, 2, 4, 8)
}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
ROUNDINGS = ("sqrt", "floor", "ceil", "trunc", "rint")

INLINE = {
    "ws_bits_f32": "static inline uint32_t ws_bits_f32(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }",
    "ws_from_f32": "static inline float ws_from_f32(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }",
    "ws_bits_f64": "static inline uint64_t ws_bits_f64(double x) { uint64_t y; memcpy(&y, &x, 8); return y; }",
    "ws_from_f64": "static inline double ws_from_f64(uint64_t x) { double y; memcpy(&y, &x, 8); return y; }",
    "ws_cut": (
        "static inline int64_t ws_cut(double x) { return x >= -9.223372036854775808e18 && x < 9.223372036854775808e18 "
        "? (int64_t)x : INT64_MIN; }"
    ),
    "ws_cut_up": (
        "static inline uint64_t ws_cut_up(double x) { return x < 9.223372036854775808e18 ? (uint64_t)ws_cut(x) "
        ": (uint64_t)ws_cut(x - 9.223372036854775808e18) ^ UINT64_C(0x8000000000000000); }"
    ),
    **{name: f"static inline {text}" for name, text in FUNCTIONS.items()},
}
"""Functions that a file has where its kernels use them."""
NEEDS = {"ws_cut_up": ("ws_cut",), **HALF_NEEDS}


def memory_type(dtype: DType) -> str:
    """The C type of the elements of a buffer."""
    return TYPES[dtypes.short(dtype)]


def value_type(dtype: DType) -> str:
    """The C type of a value: a truth value is an int."""
    return "int" if dtype.kind == "b" else memory_type(dtype)


def is_word(dtype: DType) -> bool:
    """True for a dtype that is only stored, as a word of 16 bits."""
    return dtypes.short(dtype) in HALVES


def suffix(dtype: DType) -> str:
    """The suffix of literals and function names of a floating-point dtype."""
    return "f" if dtype.itemsize == 4 else ""


def c_number(value: Any, dtype: DType) -> str:
    """A number as a C constant.

    >>> import numpy as np
    >>> c_number(0.1, np.dtype(np.float32)), c_number(-3, np.dtype(np.int32))
    ('0.1f', '(-3)')
    """
    if is_word(dtype):
        return hex(int(np.asarray(value, dtype).view(np.uint16)))
    if dtype.kind == "f":
        return c_floating(dtype.type(value), dtype)
    n = int(value)
    if dtype.kind == "b":
        return str(int(bool(n)))
    bits = 8 * dtype.itemsize
    if n == -(1 << (bits - 1)) and bits >= 32:
        return f"INT{bits}_MIN"
    text = str(n)
    if bits == 64:
        text = f"{'U' * (dtype.kind == 'u')}INT64_C({abs(n)})"
        text = f"-{text}" if n < 0 else text
    elif dtype.kind == "u":
        text = f"{n}u"
    return f"({text})" if n < 0 else text


def c_floating(x: Any, dtype: DType) -> str:
    """A floating-point number as a constant, in as few digits as give the same bits."""
    if not math.isfinite(x):
        what = "NAN" if math.isnan(x) else "INFINITY" if x > 0 else "(-INFINITY)"
        return what if dtype.itemsize == 4 else f"((double){what})"
    text = str(x)
    if "e" not in text and "." not in text:
        text += ".0"
    text += suffix(dtype)
    return f"({text})" if text.startswith("-") else text


def unsigned(dtype: DType) -> str:
    """The unsigned C type that integers of a dtype are computed in: none that is promoted to a signed one."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def c_arithmetic(v: Var, args: Sequence[str]) -> str:
    """A sum, difference or product; of integers one that wraps."""
    sign, dtype = INFIX[v.op], v.dtype
    if dtype.kind == "f":
        return f"{args[0]} {sign} {args[1]}"
    wide = unsigned(dtype)
    return f"({value_type(dtype)})(({wide}){args[0]} {sign} ({wide}){args[1]})"


def negated(v: Var, args: Sequence[str]) -> str:
    """A number with the other sign."""
    if v.dtype.kind == "f":
        return f"-{args[0]}"
    return f"({value_type(v.dtype)})(0u - ({unsigned(v.dtype)}){args[0]})"


def c_magnitude(v: Var, args: Sequence[str]) -> str:
    """The absolute value."""
    if v.dtype.kind == "f":
        return f"fabs{suffix(v.dtype)}({args[0]})"
    return f"{args[0]} < 0 ? {negated(v, args)} : {args[0]}" if v.dtype.kind == "i" else args[0]


def divided(v: Var, args: Sequence[str]) -> str:
    """An integer division toward zero: 0 where the divisor is 0, and no trap where the result does not fit."""
    a, b = args
    if v.dtype.kind == "u":
        return f"{b} == 0 ? 0 : {a} / {b}"
    return f"{b} == 0 ? 0 : {b} == -1 ? {negated(v, args)} : ({value_type(v.dtype)})({a} / {b})"


def c_shift(v: Var, args: Sequence[str]) -> str:
    """A shift: by the width or more it leaves 0, or the sign."""
    (a, b), dtype, bits = args, v.dtype, 8 * v.dtype.itemsize
    kind, left = value_type(dtype), v.op == "shl"
    text = f"({kind})(({unsigned(dtype)}){a} << {b})" if left else f"({kind})({a} >> {b})"
    last = v.args[1]
    if last.op == "const" and 0 <= int(last.attr) < bits:
        return text
    beyond = "0" if left or dtype.kind == "u" else f"({a} < 0 ? -1 : 0)"
    return f"({unsigned(dtype)}){b} < {bits}u ? {text} : {beyond}"


def converted(v: Var, args: Sequence[str]) -> str:
    """The same number in another dtype, wrapped where it does not fit an integer."""
    return cast_text(args[0], v.args[0].dtype, v.dtype)


def cast_text(x: str, source: DType, dtype: DType) -> str:
    """A number of one dtype in another; half precision is converted by way of float32."""
    if is_word(source):
        wide = f"ws_from_{dtypes.short(source)}({x})"
        return wide if dtype == FLOAT else cast_text(wide, FLOAT, dtype)
    if is_word(dtype):
        single = x if source == FLOAT else f"ws_odd({x})" if source.kind == "f" else f"(float){x}"
        return f"ws_to_{dtypes.short(dtype)}({single})"
    if dtype.kind == "b":
        return f"{x} != 0"
    if source.kind == "f" and dtype.kind in "iu":
        cut = f"ws_cut_up({x})" if dtype.kind == "u" and dtype.itemsize == 8 else f"ws_cut({x})"
        return f"({value_type(dtype)}){cut}"
    return f"({value_type(dtype)}){x}"


def reinterpreted(v: Var, args: Sequence[str]) -> str:
    """The same bits in another dtype."""
    (x,), source, dtype = args, v.args[0].dtype, v.dtype
    if is_word(source) or is_word(dtype):
        return f"({value_type(dtype)}){x}"
    if source.kind == "f":
        return f"({value_type(dtype)})ws_bits_{dtypes.short(source)}({x})"
    if dtype.kind == "f":
        return f"ws_from_{dtypes.short(dtype)}(({unsigned(dtype)}){x})"
    return f"({value_type(dtype)}){x}"


def lesser_or_greater(v: Var, args: Sequence[str]) -> str:
    """The first operand where it is less, or greater; else the second."""
    return f"{args[0]} {'<' if v.op == 'min' else '>'} {args[1]} ? {args[0]} : {args[1]}"


def inverted(v: Var, args: Sequence[str]) -> str:
    """The bitwise complement."""
    return f"!{args[0]}" if v.dtype.kind == "b" else f"({value_type(v.dtype)})~{args[0]}"


def tested(v: Var, args: Sequence[str]) -> str:
    """A test for a finite number, or for NaN, by the bits, whose result no compiler option changes."""
    (x,), dtype = args, v.args[0].dtype
    magnitude = f"(ws_bits_{dtypes.short(dtype)}({x}) << 1)"
    infinity = "0xff000000u" if dtype.itemsize == 4 else "UINT64_C(0xffe0000000000000)"
    return f"{magnitude} {'<' if v.op == 'isfinite' else '>'} {infinity}"


EXPRESSIONS: dict[str, Callable[[Var, Sequence[str]], str]] = {
    **dict.fromkeys(("add", "sub", "mul"), c_arithmetic),
    **dict.fromkeys(("min", "max"), lesser_or_greater),
    **dict.fromkeys(("shl", "shr"), c_shift),
    **dict.fromkeys(COMPARISONS, lambda v, args: f"{args[0]} {COMPARISONS[v.op]} {args[1]}"),
    **dict.fromkeys(ROUNDINGS, lambda v, args: f"{v.op}{suffix(v.dtype)}({args[0]})"),
    **dict.fromkeys(
        ("and", "or", "xor"), lambda v, args: f"({value_type(v.dtype)})({args[0]} {INFIX[v.op]} {args[1]})"
    ),
    "div": lambda v, args: f"{args[0]} / {args[1]}",
    "fma": lambda v, args: f"ws_fma{suffix(v.dtype)}({', '.join(args)})",
    "quotient": divided,
    "mulhi": lambda v, args: f"(uint32_t)((uint64_t){args[0]} * {args[1]} >> 32)",
    "exact": lambda v, args: args[0],
    **dict.fromkeys(("isfinite", "isnan"), tested),
    "neg": negated,
    "abs": c_magnitude,
    "not": inverted,
    "select": lambda v, args: f"{args[0]} ? {args[1]} : {args[2]}",
    "convert": converted,
    "bits": reinterpreted,
}
"""The expression of each operation; its operands are names or constants."""


def combined(op: str, held: str, values: Sequence[str], dtype: DType) -> str:
    """The statement that combines a fold's accumulator with one more value."""
    x = values[0]
    if dtype.kind == "b":
        return f"{held} {'|' if op in ('or', 'max', 'add') else '&'}= {x};"
    if op == "dot_bf16x2":
        (a, b), (c, d) = [(f"ws_from_f32({v} & 0xffff0000u)", f"ws_from_f32({v} << 16)") for v in values]
        return f"{held} = ws_fmaf({b}, {d}, ws_fmaf({a}, {c}, {held}));"
    if op == "fma":
        if dtype.kind == "f":
            return f"{held} = ws_fma{suffix(dtype)}({x}, {values[1]}, {held});"
        wide = unsigned(dtype)
        return f"{held} = ({value_type(dtype)})(({wide}){held} + ({wide}){x} * ({wide}){values[1]});"
    if op in ("max", "min"):
        nan = f" || {x} != {x}" if dtype.kind == "f" else ""
        return f"{held} = {x} {'>' if op == 'max' else '<'} {held}{nan} ? {x} : {held};"
    if dtype.kind == "f":
        return f"{held} = {held} {INFIX[op]} {x};"
    wide = unsigned(dtype)
    return f"{held} = ({value_type(dtype)})(({wide}){held} {INFIX[op]} ({wide}){x});"
