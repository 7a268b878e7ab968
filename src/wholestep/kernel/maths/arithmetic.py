"""Arithmetic and choice on truth values, integers and floating-point numbers, with NumPy's meaning."""

from __future__ import annotations

import math

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.float_bits import differ, equal, isnan, magnitude, number, select, sign_of


def add(x: Var, y: Var) -> Var:
    """x + y; of truth values, or."""
    return x | y if x.dtype.kind == "b" else x + y


def mul(x: Var, y: Var) -> Var:
    """x * y; of truth values, and."""
    return x & y if x.dtype.kind == "b" else x * y


def maximum(x: Var, y: Var) -> Var:
    """The larger; NaN where either is."""
    return x | y if x.dtype.kind == "b" else extremum("max", x, y)


def minimum(x: Var, y: Var) -> Var:
    """The smaller; NaN where either is."""
    return x & y if x.dtype.kind == "b" else extremum("min", x, y)


def extremum(op: str, x: Var, y: Var) -> Var:
    """The larger or the smaller of two numbers."""
    found = builder().op(op, x, y)
    return found if x.dtype.kind != "f" else select(isnan(x), x, found)


def absolute(x: Var) -> Var:
    """|x|; the least integer is returned unchanged."""
    return x if x.dtype.kind == "u" else magnitude(x)


def sign(x: Var) -> Var:
    """-1, 0 or 1; NaN stays."""
    if x.dtype.kind == "u":
        return select(equal(x, 0), x, number(x, 1))
    signed = select(x < 0, number(x, -1), number(x, 1))
    zero = number(x, 0)
    return select((x < 0) | (x > 0), signed, select(isnan(x), x, zero) if x.dtype.kind == "f" else zero)


def wins(x: Var, y: Var) -> Var:
    """1 where x > y, one half where they tie, 0 where x < y."""
    known = select(x > y, number(x, 1.0), select(equal(x, y), number(x, 0.5), number(x, 0.0)))
    return select(isnan(x) | isnan(y), number(x, math.nan), known)


def signbit(x: Var) -> Var:
    """Test whether the sign bit is set."""
    return differ(sign_of(x), 0)
