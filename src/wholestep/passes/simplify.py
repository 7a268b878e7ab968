"""Exact algebraic simplification: right for every input, infinities, NaN and the sign of zero included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import Replace, at_roots, new_value, rewrite
from wholestep.passes.rules.arithmetic import ARITHMETIC_RULES
from wholestep.passes.rules.concats import simplify_concat
from wholestep.passes.rules.movement import MOVEMENT_RULES
from wholestep.primitives.family import number_of


def simplify(graph: Graph) -> Graph:
    """Remove operations that change nothing, merge inverse and repeated ones, and compute before broadcasting.

        a = mul(x, full(1)); b = reshape(reshape(a, shape=(6,)), shape=(2, 3)); c = neg(neg(b))
        -->
        c = reshape(x, shape=(2, 3))

        a = broadcast(x, shape=(2, 3), axes=(0,)); b = exp(a)
        -->
        a = exp(x); b = broadcast(a, shape=(2, 3), axes=(0,))

    `x + 0` stays (it turns -0.0 into 0.0), and so does `x * 0` (it is NaN where x is infinite). The bits of a
    NaN are not defined.
    """
    return rewrite(graph, SIMPLIFICATIONS)


def elementwise_first(node: Node) -> Value | None:
    """The elementwise operation hoisted above the broadcast or reshape of its operands."""
    if node.op.kind != "elementwise":
        return None
    makers = {v.node.op.name if v.node is not None else "" for v in node.inputs}
    if makers <= {"broadcast", "full"} and "broadcast" in makers:
        return before_broadcast(node)
    if makers <= {"reshape", "full"} and "reshape" in makers:
        return before_reshape(node)
    return None


def or_elementwise_first(rule: Replace) -> Replace:
    """A rule that, where the given one does not apply, hoists the elementwise operation."""
    return lambda node: elementwise_first(node) if (found := rule(node)) is None else found


ROOT_RULES = {**ARITHMETIC_RULES, **MOVEMENT_RULES, "concat": simplify_concat}
SIMPLIFICATIONS = at_roots({name: or_elementwise_first(r) for name, r in ROOT_RULES.items()}, elementwise_first)


def before_reshape(node: Node) -> Value | None:
    """f(reshape(x), reshape(y), number) as reshape(f(x, y, number)), for x and y of one shape."""
    shapes = {moved_operand(v).shape for v in node.inputs if number_of(v) is None}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    inner = new_value(
        node, node.op.name, *[number_in_shape(node, v, shape) or moved_operand(v) for v in node.inputs], **node.params
    )
    return new_value(node, "reshape", inner, shape=node.outputs[0].shape)


def before_broadcast(node: Node) -> Value | None:
    """f(broadcast(x), broadcast(y), number) as broadcast(f(x, y, number)), on the axes that x or y has."""
    shape = node.outputs[0].shape
    given = [v.node.params["axes"] for v in node.inputs if v.node is not None and number_of(v) is None]
    axes = tuple(sorted({a for own in given for a in own}))
    if len(axes) == len(shape) or node.outputs[0].type.size == 0:  # an empty result needs no element
        return None
    small = tuple([shape[a] for a in axes])
    operands = [number_in_shape(node, v, small) or broadcast_to_fewer(node, v, small, axes) for v in node.inputs]
    inner = new_value(node, node.op.name, *operands, **node.params)
    return new_value(node, "broadcast", inner, shape=shape, axes=axes)


def broadcast_to_fewer(node: Node, v: Value, shape: Sequence[Any], axes: Sequence[int]) -> Value:
    """The operand of a broadcast, broadcast to the given axes alone."""
    x = moved_operand(v)
    assert v.node is not None
    places = tuple([axes.index(a) for a in v.node.params["axes"]])
    return x if x.shape == shape else new_value(node, "broadcast", x, shape=tuple(shape), axes=places)


def moved_operand(v: Value) -> Value:
    """The operand of the movement that makes a value."""
    assert v.node is not None
    return v.node.inputs[0]


def number_in_shape(node: Node, v: Value, shape: Sequence[Any]) -> Value | None:
    """The same number in another shape; None for a value that is not one number in all elements."""
    number = number_of(v)
    return None if number is None else new_value(node, "full", value=number, shape=tuple(shape), dtype=v.dtype)
