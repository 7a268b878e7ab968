"""Algebra that is exact for every input: infinities, NaN and the sign of zero included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.algebra import ALGEBRA, Rule
from wholestep.passes.places import PLACES
from wholestep.passes.rewrite import make, rewrite
from wholestep.primitives.family import number_of

RULES: dict[str, Rule] = {**ALGEBRA, **PLACES}


def simplify(graph: Graph) -> Graph:
    """Drop operations that change nothing, merge those that undo or repeat each other, and compute before repeating.

        a = mul(x, full(1)); b = reshape(reshape(a, shape=(6,)), shape=(2, 3)); c = neg(neg(b))
        -->
        c = reshape(x, shape=(2, 3))

        a = broadcast(x, shape=(2, 3), axes=(0,)); b = exp(a)
        -->
        a = exp(x); b = broadcast(a, shape=(2, 3), axes=(0,))

    `x + 0` stays (it turns -0.0 into 0.0), and so does `x * 0` (it is NaN where x is infinite). The bits of a NaN are
    nobody's business.
    """
    return rewrite(graph, simpler)


def simpler(node: Node) -> Value | None:
    """What a node is the same as, or None."""
    rule = RULES.get(node.op.name)
    if rule is not None:
        found = rule(node)
        if found is not None:
            return found
    return computed_first(node) if node.op.kind == "elementwise" and node.inputs else None


def computed_first(node: Node) -> Value | None:
    """An elementwise operation before the repetition or the new shape of its operands, not after it."""
    makers = {v.node.op.name if v.node is not None else "" for v in node.inputs}
    if makers <= {"broadcast", "full"} and "broadcast" in makers:
        return before_broadcast(node)
    if makers <= {"reshape", "full"} and "reshape" in makers:
        return before_reshape(node)
    return None


def before_reshape(node: Node) -> Value | None:
    """f(reshape(x), reshape(y), number) as reshape(f(x, y, number)), for x and y of one shape."""
    shapes = {source(v).shape for v in node.inputs if number_node(v) is None}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    inner = make(node, node.op.name, *[number_at(node, v, shape) or source(v) for v in node.inputs], **node.params)
    return make(node, "reshape", inner, shape=node.outputs[0].shape)


def before_broadcast(node: Node) -> Value | None:
    """f(broadcast(x), broadcast(y), number) as broadcast(f(x, y, number)), on the axes that x or y has."""
    shape = node.outputs[0].shape
    given = [v.node.params["axes"] for v in node.inputs if v.node is not None and number_node(v) is None]
    axes = tuple(sorted({a for own in given for a in own}))
    if len(axes) == len(shape):
        return None
    small = tuple([shape[a] for a in axes])
    operands = [number_at(node, v, small) or lifted(node, v, small, axes) for v in node.inputs]
    inner = make(node, node.op.name, *operands, **node.params)
    return make(node, "broadcast", inner, shape=shape, axes=axes)


def lifted(node: Node, v: Value, shape: Sequence[Any], axes: Sequence[int]) -> Value:
    """The operand of a broadcast, repeated to fewer axes."""
    x = source(v)
    assert v.node is not None
    places = tuple([axes.index(a) for a in v.node.params["axes"]])
    return x if x.shape == shape else make(node, "broadcast", x, shape=tuple(shape), axes=places)


def source(v: Value) -> Value:
    """What the value's movement moves."""
    assert v.node is not None
    return v.node.inputs[0]


def number_node(v: Value) -> Node | None:
    """The node of a value that is one number everywhere."""
    return v.node if number_of(v) is not None else None


def number_at(node: Node, v: Value, shape: Sequence[Any]) -> Value | None:
    """The same number in another shape; None for what is no number."""
    found = number_node(v)
    return None if found is None else make(node, "full", value=found.params["value"], shape=tuple(shape), dtype=v.dtype)
