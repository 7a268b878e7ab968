"""Backgrounds: the value of an array in the rows that no gradient reaches, as derived from its operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.arithmetic import add, div, mul, sub
from wholestep.primitives.creation import cast
from wholestep.primitives.logic import select


class Uniform(NamedTuple):
    """One number in every element."""

    number: NDArray


class Same(NamedTuple):
    """The elements of another value."""

    value: Value


class Computed(NamedTuple):
    """The elements of a value of the new graph: the same operations on the backgrounds of their operands."""

    value: Value


Background = Uniform | Same | Computed | None
"""The background of a value; None where rows without a gradient may have any other value."""


def dense_background(v: Value) -> Uniform | Same:
    """The background of a value that depends on no gradient of rows: a number that fills it, or the value itself."""
    x = v
    while x.node is not None and x.node.op.view and x.node.inputs:
        x = x.node.inputs[0]
    filled = defining_node(x, "full")
    return Same(v) if filled is None else Uniform(np.asarray(filled.params["value"], x.dtype))


def pointwise_background(node: Node, given: Sequence[Background]) -> Background:
    """The background of an elementwise result from those of its operands.

    A finite number times 0, and 0 divided by a number that is neither 0 nor NaN, is 0; rates, scales, and roots plus
    epsilons count as such numbers.
    """
    numbers = [b.number for b in given if isinstance(b, Uniform)]
    if len(numbers) == len(given):
        with np.errstate(all="ignore"):
            return Uniform(np.asarray(node.op.ref(*numbers, **node.params)))
    rule = RULES.get(node.op)
    return None if rule is None else rule(node, given)


def is_zero(b: Background) -> bool:
    """True for a background of zeros."""
    return isinstance(b, Uniform) and bool(b.number == 0)


def _add(node: Node, given: Sequence[Background]) -> Background:
    x, y = given
    return y if is_zero(x) else x if is_zero(y) else None


def _sub(node: Node, given: Sequence[Background]) -> Background:
    x, y = given
    return x if is_zero(y) else None


def _mul(node: Node, given: Sequence[Background]) -> Background:
    return next((b for b in given if is_zero(b)), None)


def _div(node: Node, given: Sequence[Background]) -> Background:
    return given[0] if is_zero(given[0]) else None


def _select(node: Node, given: Sequence[Background]) -> Background:
    condition, x, y = given
    if not isinstance(condition, Uniform):
        return None
    return x if bool(condition.number) else y


def _cast(node: Node, given: Sequence[Background]) -> Background:
    """The background of a cast: a value that was cast to a wider dtype and back is unchanged."""
    (x,) = given
    widened = defining_node(x.value, "cast") if isinstance(x, Same) else None
    if widened is None:
        return None
    (source,) = widened.inputs
    exact = source.dtype == node.params["dtype"] and dtypes.compute_dtype(source.dtype) == widened.params["dtype"]
    return Same(source) if exact else None


RULES: dict[Any, Callable[[Node, Sequence[Background]], Background]] = {
    add: _add,
    sub: _sub,
    mul: _mul,
    div: _div,
    select: _select,
    cast: _cast,
}
"""The operations whose result may be an operand, or zero, where one operand is a known number."""


def reduced_background(node: Node, background: Background) -> Background:
    """The background of a reduction within rows."""
    if not isinstance(background, Uniform):
        return None
    sizes = [node.inputs[0].shape[a] for a in node.params["axes"]]
    row = np.broadcast_to(background.number, sizes)
    return Uniform(np.asarray(node.op.ref(row, axes=tuple(range(len(sizes))))))
