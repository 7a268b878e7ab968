"""The conditions under which an operation fails here where libraries go on with numbers of their own making.

y = cholesky(a); wrong = not all(diagonal(y) > 0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.ir.graph import OPS, Node, Operation, Value
from wholestep.primitives.functions import pow as power
from wholestep.primitives.linalg import cholesky, solve, triangular_solve
from wholestep.primitives.logic import isfinite
from wholestep.primitives.matrices import diagonal, real_part
from wholestep.primitives.reduction import all_, any_
from wholestep.runtime.error_sites import ErrorSite

Condition = Callable[..., Value | None]
"""Takes an operation's operands and result, and its parameters: whether it has failed, or None where it cannot."""


def any_element(marks: Value) -> Value:
    """True if an array has a true element."""
    return any_(marks, axes=tuple(range(marks.ndim)))


def every_finite(x: Value) -> Value:
    """For each matrix, True if all of its elements are finite."""
    return all_(isfinite(x), axes=(x.ndim - 2, x.ndim - 1))


def indefinite(a: Value, y: Value) -> Value:
    """True if a Cholesky factor has anything but positive numbers in its diagonal."""
    return any_element(~(real_part(diagonal(y)) > 0))


def unsolved(a: Value, b: Value, y: Value) -> Value:
    """True if finite equations have a solution that is not finite."""
    return any_element(every_finite(a) & every_finite(b) & ~every_finite(y))


def zero_in_diagonal(a: Value, b: Value, y: Value, *, lower: bool, unit: bool, trans: int) -> Value | None:
    """True if a triangle has a zero in its diagonal."""
    return None if unit else any_element(diagonal(a).equals(0))


def negative_exponent(x: Value, exponent: Value, y: Value) -> Value | None:
    """True if integers are raised to a negative power."""
    if exponent.dtype.kind != "i" or never_negative(exponent):
        return None
    return any_element(exponent < 0)


def never_negative(x: Value) -> bool:
    """True if an array is a constant without negative numbers."""
    while x.node is not None and x.node.op.view and x.node.op.kind == "movement":
        x = x.node.inputs[0]
    return x.node is not None and x.node.op.literal and bool(np.min(x.node.params["value"]) >= 0)


CONDITIONS: Mapping[Operation, tuple[Condition, Any, str]] = {
    cholesky: (indefinite, "linalg", "Matrix is not positive definite"),
    solve: (unsolved, "linalg", "Singular matrix"),
    triangular_solve: (zero_in_diagonal, "linalg", "singular matrix: a diagonal has a 0"),
    power: (negative_exponent, "value", "Integers to negative integer powers are not allowed."),
}
"""For each operation its condition, and the kind and message of its error."""


def with_safe_exponents(node: Node, operands: Sequence[Value]) -> Sequence[Value]:
    """The operands of an operation, negative exponents of integers as 0: a library may fail at them by itself."""
    if node.op is not power or operands[1].dtype.kind != "i":
        return operands
    x, exponent = operands
    return x, OPS["maximum"](exponent, exponent._lift(0))


def failure(node: Node, operands: Sequence[Value], result: Value) -> tuple[ErrorSite, Value] | None:
    """The error of an operation that has run, and whether it has failed; None where it cannot."""
    if node.op not in CONDITIONS or not result.type.size:
        return None
    condition, kind, message = CONDITIONS[node.op]
    wrong = condition(*operands, result, **node.params)
    return None if wrong is None else (ErrorSite(kind, node.where, message), wrong)
