"""Exact algebra of numbers: rules that hold for infinities, NaN and both zeros, by the name of the primitive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Node, Value
from wholestep.passes.rewrite import made_by, make
from wholestep.primitives.family import number_of

Rule = Callable[[Node], Value | None]

NUMBERS = bool | int | float | complex


def is_number(v: Value, number: float) -> bool:
    """Whether a value is this number everywhere; either zero is zero."""
    found = number_of(v)
    return isinstance(found, NUMBERS) and found == number


def is_zero(v: Value) -> bool:
    """Whether a value is positive zero everywhere."""
    found = number_of(v)
    return isinstance(found, bool | int | float) and found == 0 and math.copysign(1, found) > 0


def full_like(node: Node, number: Any) -> Value:
    """One number in the place of a node's output."""
    out = node.outputs[0].type
    return make(node, "full", value=number, shape=out.shape, dtype=out.dtype)


def nested_in(node: Node, i: int = 0) -> Node | None:
    """The node of the same primitive that makes an input."""
    return made_by(node.inputs[i], node.op.name)


def _mul(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None  # (a + bi)(1 + 0i) is not exact where a part is infinite
    if is_number(x, 1) or is_number(y, 1):
        return y if is_number(x, 1) else x
    if x.dtype.kind == "b":
        return None
    if is_number(x, -1) or is_number(y, -1):
        return make(node, "neg", y if is_number(x, -1) else x)
    a, b = made_by(x, "neg"), made_by(y, "neg")
    return make(node, "mul", a.inputs[0], b.inputs[0]) if a and b else None


def _add(node: Node) -> Value | None:
    x, y = node.inputs
    kind = x.dtype.kind
    if kind == "c":
        return None
    if kind in "biu":
        found = y if is_number(x, 0) else x if is_number(y, 0) else None
        if found is not None:
            return found
    for zero, other in ((x, y), (y, x)):
        if kind not in "biu" and is_number(zero, 0) and not is_zero(zero):
            return other  # -0.0 changes nothing; 0.0 turns -0.0 into itself
        minus = made_by(zero, "neg")
        if minus:
            return make(node, "sub", other, minus.inputs[0])
    return None


def _sub(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None
    if is_zero(y):
        return x
    minus = made_by(y, "neg")
    return make(node, "add", x, minus.inputs[0]) if minus else None


def _div(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None
    if is_number(y, 1):
        return x
    inverse = exact_inverse(number_of(y), x.dtype)
    if inverse is not None:
        return make(node, "mul", x, make(node, "full", value=inverse, shape=y.shape, dtype=y.dtype))
    a, b = made_by(x, "neg"), made_by(y, "neg")
    return make(node, "div", a.inputs[0], b.inputs[0]) if a and b else None


def exact_inverse(number: Any, dtype: Any) -> float | None:
    """1 / number where it is a power of two whose inverse the dtype holds as a normal number."""
    if not isinstance(number, int | float) or not number or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(float(number))
    if abs(mantissa) != 0.5 or float(number) != number:
        return None
    limits = normal_exponents(dtype)
    return 1.0 / float(number) if limits[0] <= 1 - exponent <= limits[1] else None


def normal_exponents(dtype: Any) -> tuple[int, int]:
    """The exponents of the smallest and the largest normal power of two of a floating dtype."""
    return {"f16": (-14, 15), "f64": (-1022, 1023)}.get(dtypes.short(dtype), (-126, 127))


def _pow(node: Node) -> Value | None:
    x, y = node.inputs
    number = number_of(y)
    kind = x.dtype.kind
    if kind == "c" or not isinstance(number, int | float):
        return None
    if number == 2:
        return make(node, "mul", x, x)
    if number in (0, 1):
        return x if number else full_like(node, 1)
    if kind in "iu":
        return None
    if number == -1:
        return make(node, "div", full_like(node, 1), x)
    return make(node, "sqrt", x) if number == 0.5 else None


def _twice_is_nothing(node: Node) -> Value | None:
    inner = nested_in(node)
    return inner.inputs[0] if inner else None


def _abs(node: Node) -> Value | None:
    inner = nested_in(node)
    if inner:
        return inner.outputs[0]
    minus = made_by(node.inputs[0], "neg")
    return make(node, "abs", minus.inputs[0]) if minus and minus.inputs[0].dtype.kind != "u" else None


def _not(node: Node) -> Value | None:
    x = node.inputs[0]
    if x.node is not None and x.node.op.name in OPPOSITE:
        return make(node, OPPOSITE[x.node.op.name], *x.node.inputs)
    return _twice_is_nothing(node)


OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}


def _bits(node: Node) -> Value | None:
    """Truth with True or False, or with itself."""
    x, y = node.inputs
    if x is y:
        return x
    if x.dtype.kind != "b":
        return None
    neutral = node.op.name == "bitwise_and"
    for known, other in ((x, y), (y, x)):
        found = number_of(known)
        if isinstance(found, NUMBERS):
            return other if bool(found) == neutral else known
    return None


def _itself(node: Node) -> Value | None:
    x, y = node.inputs
    return x if x is y else None


def _select(node: Node) -> Value | None:
    condition, x, y = node.inputs
    if x is y:
        return x
    known = number_of(condition)
    if isinstance(known, NUMBERS):
        return x if known else y
    opposite = made_by(condition, "bitwise_not")
    if opposite:
        return make(node, "select", opposite.inputs[0], y, x)
    inner = made_by(x, "select")
    if inner and inner.inputs[0] is condition:
        return make(node, "select", condition, inner.inputs[1], y)
    inner = made_by(y, "select")
    if inner and inner.inputs[0] is condition:
        return make(node, "select", condition, x, inner.inputs[2])
    return None


def _cast(node: Node) -> Value | None:
    x, out = node.inputs[0], node.outputs[0].dtype
    if x.dtype == out:
        return x
    inner = nested_in(node)
    if inner is None or not holds(inner.inputs[0].dtype, x.dtype):
        return None
    source = inner.inputs[0]
    if source.dtype == out:
        return source
    direct = dtypes.is_inexact(out) and dtypes.is_inexact(source.dtype)
    return make(node, "cast", source, dtype=out) if direct else None


def holds(narrow: Any, wide: Any) -> bool:
    """Whether each number of the first dtype is one of the second; NaN stays NaN."""
    if dtypes.is_bool(narrow):
        return True
    if dtypes.is_integer(narrow):
        bits = 8 * narrow.itemsize - (narrow.kind == "i")
        if dtypes.is_inexact(wide):
            return bool(bits <= mantissa_bits(wide))
        return bool(dtypes.is_integer(wide)) and bool(np.can_cast(narrow, wide, "safe"))
    if not dtypes.is_inexact(wide) or (dtypes.is_complex(narrow) and not dtypes.is_complex(wide)):
        return False
    low, high = dtypes.short(dtypes.real_of(narrow)), dtypes.short(dtypes.real_of(wide))
    return high in WIDER[low]


WIDER = {
    "f16": ("f16", "f32", "f64"),
    "bf16": ("bf16", "f32", "f64"),
    "f32": ("f32", "f64"),
    "f64": ("f64",),
}
"""The floating dtypes that hold every number of one."""


def mantissa_bits(dtype: Any) -> int:
    """How many bits of an integer a floating dtype holds exactly."""
    return {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[dtypes.short(dtypes.real_of(dtype))]


ALGEBRA: dict[str, Rule] = {
    "mul": _mul,
    "add": _add,
    "sub": _sub,
    "div": _div,
    "pow": _pow,
    "neg": _twice_is_nothing,
    "conj": _twice_is_nothing,
    "bitwise_not": _not,
    "bitwise_and": _bits,
    "bitwise_or": _bits,
    "maximum": _itself,
    "minimum": _itself,
    "abs": _abs,
    "select": _select,
    "cast": _cast,
}
