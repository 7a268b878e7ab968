"""Exact peephole rules of arithmetic: right for infinities, NaN and both zeros, by the name of the primitive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Node, Value
from wholestep.passes.rewrite import defining_node, new_value
from wholestep.primitives.family import number_of

Rule = Callable[[Node], Value | None]

NUMBER_TYPES = bool | int | float | complex


def equals_number(v: Value, number: float) -> bool:
    """Test whether a value is this number everywhere; either zero is zero."""
    found = number_of(v)
    return isinstance(found, NUMBER_TYPES) and found == number


def is_positive_zero(v: Value) -> bool:
    """Test whether a value is positive zero everywhere."""
    found = number_of(v)
    return isinstance(found, bool | int | float) and found == 0 and math.copysign(1, found) > 0


def output_full_of(node: Node, number: Any) -> Value:
    """One number everywhere, of the type of a node's output."""
    out = node.outputs[0].type
    return new_value(node, "full", value=number, shape=out.shape, dtype=out.dtype)


def same_op_input(node: Node, i: int = 0) -> Node | None:
    """The node of the same primitive that makes an input."""
    return defining_node(node.inputs[i], node.op.name)


def _simplify_mul(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None  # (a + bi)(1 + 0i) is not exact where a part is infinite
    if equals_number(x, 1) or equals_number(y, 1):
        return y if equals_number(x, 1) else x
    if x.dtype.kind == "b":
        return None
    if equals_number(x, -1) or equals_number(y, -1):
        return new_value(node, "neg", y if equals_number(x, -1) else x)
    a, b = defining_node(x, "neg"), defining_node(y, "neg")
    return new_value(node, "mul", a.inputs[0], b.inputs[0]) if a and b else None


def _simplify_add(node: Node) -> Value | None:
    x, y = node.inputs
    kind = x.dtype.kind
    if kind == "c":
        return None
    if kind in "biu":
        found = y if equals_number(x, 0) else x if equals_number(y, 0) else None
        if found is not None:
            return found
    for zero, other in ((x, y), (y, x)):
        if kind not in "biu" and equals_number(zero, 0) and not is_positive_zero(zero):
            return other  # -0.0 changes nothing; 0.0 turns -0.0 into itself
        minus = defining_node(zero, "neg")
        if minus:
            return new_value(node, "sub", other, minus.inputs[0])
    return None


def _simplify_sub(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None
    if is_positive_zero(y):
        return x
    minus = defining_node(y, "neg")
    return new_value(node, "add", x, minus.inputs[0]) if minus else None


def _simplify_div(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None
    if equals_number(y, 1):
        return x
    inverse = exact_inverse(number_of(y), x.dtype)
    if inverse is not None:
        return new_value(node, "mul", x, new_value(node, "full", value=inverse, shape=y.shape, dtype=y.dtype))
    a, b = defining_node(x, "neg"), defining_node(y, "neg")
    return new_value(node, "div", a.inputs[0], b.inputs[0]) if a and b else None


def exact_inverse(number: Any, dtype: Any) -> float | None:
    """1 / number where it is a power of two whose inverse the dtype holds as a normal number."""
    if not isinstance(number, int | float) or not number or not math.isfinite(number):
        return None
    mantissa, exponent = math.frexp(float(number))
    if abs(mantissa) != 0.5 or float(number) != number:
        return None
    limits = dtypes.limits(dtype)
    return 1.0 / float(number) if limits.minexp <= 1 - exponent < limits.maxexp else None


def _simplify_pow(node: Node) -> Value | None:
    x, y = node.inputs
    number = number_of(y)
    kind = x.dtype.kind
    if kind == "c" or not isinstance(number, int | float):
        return None
    if number == 2:
        return new_value(node, "mul", x, x)
    if number in (0, 1):
        return x if number else output_full_of(node, 1)
    if kind in "iu":
        return None
    if number == -1:
        return new_value(node, "div", output_full_of(node, 1), x)
    return new_value(node, "sqrt", x) if number == 0.5 else None


def _simplify_involution(node: Node) -> Value | None:
    inner = same_op_input(node)
    return inner.inputs[0] if inner else None


def _simplify_abs(node: Node) -> Value | None:
    inner = same_op_input(node)
    if inner:
        return inner.outputs[0]
    minus = defining_node(node.inputs[0], "neg")
    return new_value(node, "abs", minus.inputs[0]) if minus and minus.inputs[0].dtype.kind != "u" else None


def _simplify_not(node: Node) -> Value | None:
    x = node.inputs[0]
    inner = defining_node(x, *OPPOSITE)
    if inner:
        return new_value(node, OPPOSITE[inner.op.name], *inner.inputs)
    return _simplify_involution(node)


OPPOSITE = {"equal": "not_equal", "not_equal": "equal"}


def _simplify_logic(node: Node, neutral: bool) -> Value | None:
    """Logic with True or False, or of a value with itself; `neutral` is the truth that changes nothing."""
    x, y = node.inputs
    if x is y:
        return x
    if x.dtype.kind != "b":
        return None
    for known, other in ((x, y), (y, x)):
        found = number_of(known)
        if isinstance(found, NUMBER_TYPES):
            return other if bool(found) == neutral else known
    return None


def _simplify_idempotent(node: Node) -> Value | None:
    x, y = node.inputs
    return x if x is y else None


def _simplify_select(node: Node) -> Value | None:
    condition, x, y = node.inputs
    if x is y:
        return x
    known = number_of(condition)
    if isinstance(known, NUMBER_TYPES):
        return x if known else y
    opposite = defining_node(condition, "bitwise_not")
    if opposite:
        return new_value(node, "select", opposite.inputs[0], y, x)
    inner = defining_node(x, "select")
    if inner and inner.inputs[0] is condition:
        return new_value(node, "select", condition, inner.inputs[1], y)
    inner = defining_node(y, "select")
    if inner and inner.inputs[0] is condition:
        return new_value(node, "select", condition, x, inner.inputs[2])
    return None


def _simplify_cast(node: Node) -> Value | None:
    x, out = node.inputs[0], node.outputs[0].dtype
    if x.dtype == out:
        return x
    inner = same_op_input(node)
    if inner is None or not represents_exactly(inner.inputs[0].dtype, x.dtype):
        return None
    source = inner.inputs[0]
    if source.dtype == out:
        return source
    direct = dtypes.is_inexact(out) and dtypes.is_inexact(source.dtype)
    return new_value(node, "cast", source, dtype=out) if direct else None


def represents_exactly(narrow: Any, wide: Any) -> bool:
    """Test whether the second dtype represents each number of the first; NaN stays NaN."""
    if dtypes.is_bool(narrow):
        return True
    if dtypes.is_integer(narrow):
        bits = 8 * narrow.itemsize - (narrow.kind == "i")
        if dtypes.is_inexact(wide):
            return bool(bits <= dtypes.limits(wide).nmant + 1)
        return bool(dtypes.is_integer(wide)) and bool(np.can_cast(narrow, wide, "safe"))
    if not dtypes.is_inexact(wide) or (dtypes.is_complex(narrow) and not dtypes.is_complex(wide)):
        return False
    a, b = dtypes.limits(narrow), dtypes.limits(wide)
    return bool(a.nmant <= b.nmant and a.maxexp <= b.maxexp)


ARITHMETIC_RULES: dict[str, Rule] = {
    "mul": _simplify_mul,
    "add": _simplify_add,
    "sub": _simplify_sub,
    "div": _simplify_div,
    "pow": _simplify_pow,
    "neg": _simplify_involution,
    "conj": _simplify_involution,
    "bitwise_not": _simplify_not,
    "bitwise_and": lambda node: _simplify_logic(node, True),
    "bitwise_or": lambda node: _simplify_logic(node, False),
    "maximum": _simplify_idempotent,
    "minimum": _simplify_idempotent,
    "abs": _simplify_abs,
    "select": _simplify_select,
    "cast": _simplify_cast,
}
