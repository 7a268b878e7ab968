"""Formulas as graphs: whether a value of a program is what a formula says, and what stands for its inputs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.ir.graph import Node, Value
from wholestep.primitives.contraction import parts
from wholestep.primitives.family import number_of

Bindings = Mapping[Value, Value]
"""For values of a formula those of a program."""
EITHER_WAY = frozenset(("add", "mul", "equal"))
"""Operations whose operands may stand in either order."""


def formula_bindings(formula: Value, v: Value, found: Bindings) -> Bindings | None:
    """The bindings with those under which v is the formula; None where it is another one.

    An input of the formula that is not bound stands for any value of its type.
    """
    if formula in found:
        return found if found[formula] is v else None
    if formula.type is not v.type:
        return None
    number, node, own = number_of(formula), formula.node, v.node
    if number is not None:
        return found if is_same_number(number, number_of(v), v.dtype) else None
    if node is None:
        return {**found, formula: v}
    if own is None or node.op is not own.op or node.outputs.index(formula) != own.outputs.index(v):
        return None
    for operands in operand_orders(node, own):
        made: Bindings | None = found
        for x, y in zip(node.inputs, operands, strict=True):
            made = None if made is None else formula_bindings(x, y, made)
        if made is not None:
            return {**made, formula: v}
    return None


def is_same_number(x: Any, y: Any, dtype: np.dtype[Any]) -> bool:
    """True where two numbers are one in a dtype."""
    return y is not None and bool(dtype.type(x) == dtype.type(y))


def operand_orders(node: Node, other: Node) -> Sequence[Sequence[Value]]:
    """The orders of the operands of another node in which it computes what a node of its kind does; none for none."""
    straight, turned = other.inputs, other.inputs[::-1]
    if node.op.name == "contract":
        a, b, out = parts(other.params["spec"])
        wanted = label_places(*parts(node.params["spec"]))
        return [x for x, spec in ((straight, (a, b, out)), (turned, (b, a, out))) if label_places(*spec) == wanted]
    if node.op.literal:
        return [straight] if np.array_equal(node.params["value"], other.params["value"]) else []
    if node.params != other.params:
        return []
    return [straight, turned] if node.op.name in EITHER_WAY else [straight]


def label_places(*labels: str) -> tuple[tuple[int, ...], ...]:
    """The labels of a product by the order in which they come first."""
    places = {c: i for i, c in enumerate(dict.fromkeys("".join(labels)))}
    return tuple([tuple([places[c] for c in part]) for part in labels])
