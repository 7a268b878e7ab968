"""Formulas as graphs, matched against values of a program: a match binds the inputs of the formula to values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.dims import Dim
from wholestep.ir.graph import Node, Value
from wholestep.ir.types import Shape
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.contraction import parts
from wholestep.primitives.family import number_of

Bindings = Mapping[Value, Value]
"""The values of a program by the values of a formula."""
ANY_AXES = frozenset(("contract", "reshape"))
"""Operations beside elementwise ones that mean the same where operands and result have axes of size 1 elsewhere."""
EITHER_WAY = frozenset(("add", "mul", "equal"))
"""Commutative operations."""


def formula_bindings(formula: Value, v: Value, found: Bindings) -> Bindings | None:
    """The bindings extended by those under which v matches the formula; None if it does not.

    An unbound input of the formula matches any value of its type. Axes of size 1 may differ in position.
    """
    whole, formula, own_views = formula, same_elements(formula)[-1], same_elements(v)
    v = own_views[-1]
    if formula in found:
        return {whole: own_views[0], **found} if is_same_array(same_elements(found[formula])[-1], v) else None
    if squeezed(formula.type.shape) != squeezed(v.type.shape) or formula.dtype != v.dtype:
        return None
    number, node, own = number_of(formula), formula.node, v.node
    if number is not None:
        return found if is_same_number(number, number_of(v), v.dtype) else None
    if node is None:
        like = [x for x in own_views if x.type is formula.type]
        return {whole: own_views[0], **found, formula: like[-1]} if like else None
    if own is None or node.op is not own.op or node.outputs.index(formula) != own.outputs.index(v):
        return None
    if formula.type is not v.type and not (node.op.thin or node.op.name in ANY_AXES):
        return None
    made = operands_bound(node, operand_orders(node, own), found)
    return None if made is None else {**made, formula: v, whole: own_views[0]}


def turned_bindings(formula: Value, v: Value, found: Bindings) -> Bindings | None:
    """The bindings extended by those under which v matches a product up to the order of its axes."""
    node, own = formula.node, v.node
    assert node is not None and own is not None
    orders = [each for each in (own.inputs, own.inputs[::-1]) if axis_order(node, own, each) is not None]
    made = operands_bound(node, orders, found)
    return None if made is None else {**made, formula: v}


def operands_bound(node: Node, orders: Sequence[Sequence[Value]], found: Bindings) -> Bindings | None:
    """The bindings extended by those under which a formula's operands match others, in one of some orders."""
    for operands in orders:
        made: Bindings | None = found
        for x, y in zip(node.inputs, operands, strict=True):
            made = None if made is None else formula_bindings(x, y, made)
        if made is not None:
            return made
    return None


def same_elements(v: Value) -> list[Value]:
    """A value, and the operands from which it differs by axes of size 1 alone, the innermost operand last."""
    found = [v]
    while (node := defining_node(v, "reshape", "broadcast")) is not None:
        (v,) = node.inputs
        if squeezed(v.shape) != squeezed(found[-1].shape):
            break
        found.append(v)
    return found


def is_same_array(x: Value, y: Value) -> bool:
    """True for equal values, and for two reshapes of one value that differ by axes of size 1."""
    a, b = defining_node(x, "reshape"), defining_node(y, "reshape")
    reshaped = a is not None and b is not None and a.inputs == b.inputs and squeezed(x.shape) == squeezed(y.shape)
    return x is y or reshaped


def squeezed(shape: Shape) -> Shape:
    """A shape without axes of size 1."""
    return tuple([n for n in shape if n != 1])


def is_same_number(x: Any, y: Any, dtype: np.dtype[Any]) -> bool:
    """True where two numbers are one in a dtype, and two symbolic sizes one expression."""
    if isinstance(x, Dim) or isinstance(y, Dim):
        return bool(x == y)
    return y is not None and bool(dtype.type(x) == dtype.type(y))


def operand_orders(node: Node, other: Node) -> Sequence[Sequence[Value]]:
    """The orders of another node's operands in which it computes the same as a node; empty if it cannot."""
    straight, turned = other.inputs, other.inputs[::-1]
    if node.op.name == "contract":
        orders = {order: axis_order(node, other, order) for order in (straight, turned)}
        return [order for order, axes in orders.items() if axes is not None and list(axes) == sorted(axes)]
    if node.op.literal:
        return [straight] if np.array_equal(node.params["value"], other.params["value"]) else []
    if node.params != other.params and node.op.name not in ANY_AXES:
        return []
    return [straight, turned] if node.op.name in EITHER_WAY else [straight]


def axis_order(node: Node, other: Node, operands: Sequence[Value]) -> tuple[int, ...] | None:
    """The order in which another product has the axes of a product; None for a product of other operands.

    Axes of size 1 are ignored; `operands` are those of the other product in an order.
    """
    *own, out = label_places(*long_labels(node, node.inputs))
    *others, turned = label_places(*long_labels(other, operands))
    return tuple([out.index(i) for i in turned]) if own == others and sorted(out) == sorted(turned) else None


def long_labels(node: Node, operands: Sequence[Value]) -> list[str]:
    """The labels of a product with its operands in an order, without those of axes of size 1."""
    a, b, out = parts(node.params["spec"])
    given = (a, b) if tuple(operands) == node.inputs else (b, a)
    short = {
        c for text, v in zip((a, b), node.inputs, strict=True) for c, n in zip(text, v.shape, strict=True) if n == 1
    }
    return ["".join([c for c in text if c not in short]) for text in (*given, out)]


def label_places(*labels: str) -> tuple[tuple[int, ...], ...]:
    """The labels of a product as numbers, in the order of their first occurrence."""
    places = {c: i for i, c in enumerate(dict.fromkeys("".join(labels)))}
    return tuple([tuple([places[c] for c in part]) for part in labels])


def is_plain(*arrays: Value) -> bool:
    """True for arrays of one type, float32 or float64, whose shape is known and not empty."""
    t = arrays[0].type
    known = all([isinstance(n, int) and n > 0 for n in t.shape])
    return known and t.dtype.name in ("float32", "float64") and all([v.type == t for v in arrays])


def nodes_between(outputs: Sequence[Value], operands: Sequence[Value]) -> frozenset[Node]:
    """The operations that compute some values from others."""
    left, given, found = list(outputs), {*operands}, set[Node]()
    while left:
        v = left.pop()
        if v not in given and v.node is not None and v.node not in found:
            found.add(v.node)
            left += v.node.inputs
    return frozenset(found)
