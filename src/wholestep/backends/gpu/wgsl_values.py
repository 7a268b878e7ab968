"""Values in WGSL: the type, the numbers and the operations of each dtype, with 64-bit integers as pairs of words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import KernelError
from wholestep.kernel.lang import DType, Var
from wholestep.kernel.maths.roundings import ROUNDED_ONCE

INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round"}


def wgsl_kind_of(dtype: DType) -> str:
    """The kind of the values of a dtype: `bool`, `f32`, `i32`, `u32`, or `i64` and `u64` as two words, the lower first.

    Half precisions are words of 16 bits in a `u32`.
    """
    if dtype.kind == "b":
        return "bool"
    short = dtypes.short(dtype)
    if short in ("f16", "bf16"):
        return "u32"
    if dtype.kind == "f":
        return short
    return f"{dtype.kind}{64 if dtype.itemsize == 8 else 32}"


def wgsl_type_of(dtype: DType) -> str:
    """The WGSL type of a value."""
    kind = wgsl_kind_of(dtype)
    if kind == "f64":
        raise KernelError("wgsl: there is no float64")
    return "vec2<u32>" if kind in ("i64", "u64") else kind


def wgsl_storage_type(dtype: DType) -> str:
    """The WGSL type of an element of scratch memory."""
    return "u32" if dtype.kind == "b" else wgsl_type_of(dtype)


def wgsl_wrapped(text: str, dtype: DType) -> str:
    """An integer that is held in 32 bits, wrapped to the width of its dtype."""
    bits = 8 * dtype.itemsize
    if bits >= 32:
        return text
    return f"(({text}) & {(1 << bits) - 1}u)" if dtype.kind == "u" else f"((({text}) << {32 - bits}u) >> {32 - bits}u)"


def wgsl_number(value: Any, dtype: DType) -> str:
    """A number as WGSL.

    >>> wgsl_number(0.1, np.dtype(np.float32)), wgsl_number(-3, np.dtype(np.int64))
    ('0.1f', 'vec2<u32>(4294967293u, 4294967295u)')
    """
    kind = wgsl_kind_of(dtype)
    if dtypes.short(dtype) in ("f16", "bf16"):
        return f"{int(np.asarray(value, dtype).view(np.uint16))}u"
    if kind == "bool":
        return "true" if value else "false"
    if kind == "f32":
        x = np.float32(value)
        bits = int(x.view(np.uint32))
        if not math.isfinite(x) or not bits & 0x7F800000:  # a compiler that knows a zero leaves it out of sums
            return f"ws_float({bits:#x}u)"
        return f"({x!s}f)" if x < 0 else f"{x!s}f"
    n = int(value)
    if kind in ("i64", "u64"):
        return f"vec2<u32>({n & 0xFFFFFFFF}u, {n >> 32 & 0xFFFFFFFF}u)"
    if kind == "u32":
        return f"{n}u"
    return "(-2147483647i - 1i)" if n == -(2**31) else f"({n}i)" if n < 0 else f"{n}i"


def wgsl_arithmetic(op: str, a: str, b: str, dtype: DType) -> str:
    """A sum, difference or product, as the language rounds or wraps it."""
    kind = wgsl_kind_of(dtype)
    if kind in ("i64", "u64"):
        return f"ws_{op}64({a}, {b})"
    return wgsl_wrapped(f"{a} {INFIX[op]} {b}", dtype) if kind != "f32" else f"{a} {INFIX[op]} {b}"


def wgsl_kept(text: str) -> str:
    """A float32 expression whose value the compiler cannot derive."""
    return f"ws_kept({text})"


def wgsl_computed(v: Var, args: Sequence[str]) -> str:
    """A sum, difference or product of values."""
    return wgsl_arithmetic(v.op, args[0], args[1], v.dtype)


def wgsl_compared(v: Var, args: Sequence[str]) -> str:
    """A comparison."""
    (a, b), kind = args, wgsl_kind_of(v.args[0].dtype)
    if kind in ("i64", "u64"):
        equal = f"all({a} == {b})"
        less = f"ws_less_{kind}({a}, {b})"
        return {"eq": equal, "ne": f"!{equal}", "lt": less, "le": f"!ws_less_{kind}({b}, {a})"}[v.op]
    if kind == "bool":
        return {"eq": f"{a} == {b}", "ne": f"{a} != {b}", "lt": f"!{a} & {b}", "le": f"!{a} | {b}"}[v.op]
    if kind == "f32":
        return f"ws_{v.op}({a}, {b})"
    return f"{a} {dict(eq='==', ne='!=', lt='<', le='<=')[v.op]} {b}"


def wgsl_less(a: str, b: str, dtype: DType) -> str:
    """A test whether a number is less than another."""
    kind = wgsl_kind_of(dtype)
    return (
        f"ws_less_{kind}({a}, {b})" if kind in ("i64", "u64") else f"ws_lt({a}, {b})" if kind == "f32" else f"{a} < {b}"
    )


def wgsl_lesser_or_greater(v: Var, args: Sequence[str]) -> str:
    """The first operand where it is less, or greater; else the second."""
    a, b = args
    return f"select({b}, {a}, {wgsl_less(a, b, v.dtype) if v.op == 'min' else wgsl_less(b, a, v.dtype)})"


def wgsl_negated(v: Var, args: Sequence[str]) -> str:
    """A number with the other sign."""
    (x,), kind = args, wgsl_kind_of(v.dtype)
    if kind == "f32":
        return f"bitcast<f32>(bitcast<u32>({x}) ^ 0x80000000u)"
    return wgsl_arithmetic("sub", wgsl_number(0, v.dtype), x, v.dtype)


def wgsl_magnitude(v: Var, args: Sequence[str]) -> str:
    """The absolute value."""
    (x,), kind = args, wgsl_kind_of(v.dtype)
    if kind == "f32":
        return f"bitcast<f32>(bitcast<u32>({x}) & 0x7fffffffu)"
    if v.dtype.kind != "i":
        return x
    return f"select({x}, {wgsl_negated(v, args)}, {wgsl_less(x, wgsl_number(0, v.dtype), v.dtype)})"


def wgsl_divided(v: Var, args: Sequence[str]) -> str:
    """An integer division toward zero: 0 where the divisor is 0."""
    a, b = args
    if v.dtype.itemsize <= 4 and v.args[1].op == "const" and int(v.args[1].attr) > 0:
        return f"{a} / {b}"
    return wgsl_wrapped(f"ws_quotient_{wgsl_kind_of(v.dtype)}({a}, {b})", v.dtype)


def wgsl_shifted(v: Var, args: Sequence[str]) -> str:
    """A shift: by the width or more it leaves 0, or the sign."""
    (a, b), kind, bits = args, wgsl_kind_of(v.dtype), 8 * v.dtype.itemsize
    by = f"bitcast<u32>({b})" if kind == "i32" else b
    if kind in ("i64", "u64"):
        return f"ws_{v.op}_{kind}({a}, {by})" if v.op == "shr" else f"ws_shl64({a}, {by})"
    return wgsl_wrapped(f"ws_{v.op}_{kind}({a}, {by}, {bits}u)", v.dtype)


def wgsl_converted(v: Var, args: Sequence[str]) -> str:
    """The same number in another dtype, wrapped where it does not fit an integer."""
    source, target = v.args[0].dtype, v.dtype
    (x,) = args
    if dtypes.short(source) in ("f16", "bf16"):
        return wgsl_as_dtype(f"ws_from_{dtypes.short(source)}({x})", "f32", target)
    return wgsl_as_dtype(x, wgsl_kind_of(source), target)


def wgsl_as_dtype(x: str, source: str, dtype: DType) -> str:
    """A number of a kind in a dtype."""
    target = wgsl_kind_of(dtype)
    if dtypes.short(dtype) in ("f16", "bf16"):
        return f"ws_to_{dtypes.short(dtype)}({wgsl_as_dtype(x, source, np.dtype(np.float32))})"
    if source == target:
        return wgsl_wrapped(x, dtype) if target in ("i32", "u32") else x
    if target == "bool":
        zero = {"f32": "0.0f", "i32": "0i", "u32": "0u"}.get(source)
        return (
            f"any({x} != vec2<u32>())" if zero is None else f"{x} != {zero}" if source != "f32" else f"ws_ne({x}, 0.0f)"
        )
    if source == "bool":
        one, zero = wgsl_number(1, dtype), wgsl_number(0, dtype)
        return f"select({zero}, {one}, {x})"
    if target == "f32":
        return f"ws_f32_{source}({x})" if source in ("i64", "u64") else f"f32({x})"
    if source == "f32":
        whole = f"ws_cut_up({x})" if target == "u64" else f"ws_cut({x})"
        return wgsl_as_dtype(whole, target if target in ("i64", "u64") else "i64", dtype)
    if target in ("i64", "u64"):
        return f"ws_wide_{source}({x})" if source in ("i32", "u32") else x
    low = f"{x}.x" if source in ("i64", "u64") else x
    unsigned = source != "i32"
    return wgsl_wrapped(low if unsigned == (target == "u32") else f"bitcast<{target}>({low})", dtype)


def wgsl_reinterpreted(v: Var, args: Sequence[str]) -> str:
    """The same bits in another dtype."""
    (x,), source, target = args, wgsl_kind_of(v.args[0].dtype), wgsl_kind_of(v.dtype)
    if source == target or {source, target} == {"i64", "u64"}:
        return wgsl_wrapped(x, v.dtype) if target in ("i32", "u32") else x
    return wgsl_wrapped(f"bitcast<{target}>({x})", v.dtype) if target != "f32" else f"bitcast<f32>({x})"


def wgsl_tested(v: Var, args: Sequence[str]) -> str:
    """A test for a finite number, or for NaN, by the bits."""
    return f"(bitcast<u32>({args[0]}) << 1u) {'<' if v.op == 'isfinite' else '>'} 0xff000000u"


def wgsl_bitwise(v: Var, args: Sequence[str]) -> str:
    """An operation on bits or truth values."""
    if v.op == "xor":
        return f"{args[0]} {'!=' if v.dtype.kind == 'b' else '^'} {args[1]}"
    return f"{args[0]} {INFIX[v.op]} {args[1]}"


def wgsl_inverted(v: Var, args: Sequence[str]) -> str:
    """The bitwise complement."""
    return f"!{args[0]}" if v.dtype.kind == "b" else wgsl_wrapped(f"~{args[0]}", v.dtype)


EXPRESSIONS: dict[str, Callable[[Var, Sequence[str]], str]] = {
    **dict.fromkeys(("add", "sub", "mul"), wgsl_computed),
    **dict.fromkeys(("min", "max"), wgsl_lesser_or_greater),
    **dict.fromkeys(("shl", "shr"), wgsl_shifted),
    **dict.fromkeys(("eq", "ne", "lt", "le"), wgsl_compared),
    **dict.fromkeys(ROUNDINGS, lambda v, args: f"{ROUNDINGS[v.op]}({args[0]})"),
    **dict.fromkeys(("and", "or", "xor"), wgsl_bitwise),
    **dict.fromkeys(("isfinite", "isnan"), wgsl_tested),
    **dict.fromkeys(ROUNDED_ONCE, lambda v, args: f"ws_{v.op}({', '.join(args)})"),
    "quotient": wgsl_divided,
    "mulhi": lambda v, args: f"ws_mul32({args[0]}, {args[1]}).y",
    "exact": lambda v, args: wgsl_kept(args[0]),
    "neg": wgsl_negated,
    "abs": wgsl_magnitude,
    "not": wgsl_inverted,
    "select": lambda v, args: f"select({args[2]}, {args[1]}, {args[0]})",
    "convert": wgsl_converted,
    "bits": wgsl_reinterpreted,
}
"""The expression of each operation; its operands are names or constants."""
