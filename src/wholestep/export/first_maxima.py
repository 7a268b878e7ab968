"""Maxima of which the first of equal elements gets the whole gradient, as in `nn.max_pool2d`.

hit = equal(x, broadcast(max(x, axes))) | isnan(x)
first = equal(places, broadcast(min(select(hit, places, n), axes)))
y = sum(select(first, x, 0), axes)                          is max(x, axes)
g = select(first, broadcast(gy), 0)                         the gradient, by where the first largest element is

Where x is reshape(select(less_equal(u, 0), 0, u)), select(less_equal(u, 0), 0, reshape(g)) too: an element that is
largest is above 0 where y is, so gy may be cut instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wholestep.export.fused.formulas import same_elements
from wholestep.export.split_gradients import behind_reshape
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.family import number_of


class FirstPlaces(NamedTuple):
    """Places of the first of the largest elements along axes: the array, these elements, and the operations between."""

    x: Value
    y: Value
    axes: tuple[int, ...]
    inner: frozenset[Node]


class FirstMaximum(NamedTuple):
    """The first largest elements, whose values are the maxima."""

    y: Value
    inner: frozenset[Node]
    """The operations that become unused when the maxima take the place of the sum."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return (self.y,)


class FirstGradient(NamedTuple):
    """A gradient that the first of the largest elements has."""

    x: Value
    y: Value
    gy: Value
    axes: tuple[int, ...]
    rectified: bool
    """True if it is the gradient of u where x is the rectifier of u."""
    inner: frozenset[Node]
    """The operations that become unused when the gradient is one operation."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.x, self.y, self.gy


def first_maxima_in(graph: Graph) -> dict[Node, FirstMaximum]:
    """The sums of a graph that take the first of the largest elements."""
    found = {}
    for node in graph.nodes:
        chosen = defining_node(node.inputs[0], "select") if node.op.name == "sum" else None
        first = None if chosen is None else first_places(chosen.inputs[0])
        if chosen is None or first is None or first.axes != node.params["axes"]:
            continue
        if chosen.inputs[1] is first.x and number_of(chosen.inputs[2]) == 0:
            found[node] = FirstMaximum(first.y, first.inner | {chosen})
    return found


def first_gradients_in(graph: Graph) -> dict[Node, FirstGradient]:
    """The choices of a graph that hand a gradient to the first of the largest elements."""
    found = dict[Node, FirstGradient]()
    for node in graph.nodes:
        if node.op.name == "select":
            made = first_gradient(node) or rectified_gradient(node, found)
            if made is not None:
                found[node] = made
    return found


def first_gradient(node: Node) -> FirstGradient | None:
    """The gradient that a choice hands back; None for another choice."""
    condition, repeated, other = node.inputs
    spread = defining_node(repeated, "broadcast")
    first = None if spread is None or number_of(other) != 0 else first_places(condition)
    if spread is None or first is None:
        return None
    kept = tuple([i for i in range(repeated.ndim) if i not in first.axes])
    gy = spread.inputs[0]
    if spread.params["axes"] != kept or gy.type != first.y.type:
        return None
    return FirstGradient(first.x, first.y, gy, first.axes, False, first.inner | {spread})


def rectified_gradient(node: Node, found: Mapping[Node, FirstGradient]) -> FirstGradient | None:
    """The gradient behind the rectifier that made the array; None for another choice."""
    condition, zero, product = node.inputs
    made = behind_reshape(product).node
    known = None if made is None else found.get(made)
    if made is None or known is None or known.rectified or number_of(zero) != 0:
        return None
    rectifier = defining_node(behind_reshape(known.x), "select")
    if rectifier is None or rectifier.inputs[0] is not condition or not is_rectifier(rectifier):
        return None
    return known._replace(rectified=True, inner=known.inner | {made})


def is_rectifier(node: Node) -> bool:
    """True for select(less_equal(u, 0), 0, u)."""
    below = defining_node(node.inputs[0], "less_equal") if node.op.name == "select" else None
    if below is None or number_of(node.inputs[1]) != 0:
        return False
    return below.inputs[0] is node.inputs[2] and number_of(below.inputs[1]) == 0


def first_places(condition: Value) -> FirstPlaces | None:
    """The first places of largest elements that a condition is; None for another one."""
    equal = defining_node(condition, "equal")
    for places, others in () if equal is None else (equal.inputs, equal.inputs[::-1]):
        spread = defining_node(others, "broadcast")
        least = None if spread is None else defining_node(spread.inputs[0], "min")
        chosen = None if least is None else defining_node(least.inputs[0], "select")
        if equal is None or spread is None or least is None or chosen is None or chosen.inputs[1] is not places:
            continue
        axes, count = least.params["axes"], math.prod([places.shape[axis] for axis in least.params["axes"]])
        if not are_counted(places, axes, count) or number_of(chosen.inputs[2]) != count:
            continue
        hit = largest_hit(chosen.inputs[0], axes)
        if hit is not None:
            return hit._replace(inner=hit.inner | {equal, spread, least, chosen})
    return None


def are_counted(places: Value, axes: tuple[int, ...], count: int) -> bool:
    """True if `places` numbers the elements along some axes, and is constant along the others."""
    spread = defining_node(places, "broadcast")
    made = None if spread is None else defining_node(behind_reshape(spread.inputs[0]), "constant")
    if spread is None or made is None:
        return False
    moving = tuple([a for a, n in zip(spread.params["axes"], spread.types[0].shape, strict=True) if n > 1])
    along = tuple([axis for axis in axes if places.shape[axis] > 1])
    return moving == along and np.array_equal(np.ravel(made.params["value"]), np.arange(count))


def largest_hit(hit: Value, axes: tuple[int, ...]) -> FirstPlaces | None:
    """The array and its maxima along axes, if `hit` is the condition that an element is a maximum or NaN."""
    either = defining_node(hit, "bitwise_or")
    for largest, spoilt in () if either is None else (either.inputs, either.inputs[::-1]):
        equal, unequal = defining_node(largest, "equal"), defining_node(behind_reshape(spoilt), "not_equal")
        if either is None or equal is None or unequal is None or unequal.inputs[0] is not unequal.inputs[1]:
            continue
        for x, repeated in (equal.inputs, equal.inputs[::-1]):
            spread = defining_node(repeated, "broadcast")
            y = repeated if spread is None else same_elements(spread.inputs[0])[-1]
            made = defining_node(y, "max")
            if spread is None or made is None or made.inputs[0] is not x or made.params["axes"] != axes:
                continue
            kept = tuple([i for i in range(x.ndim) if i not in axes])
            if spread.params["axes"] == kept and behind_reshape(unequal.inputs[0]) is behind_reshape(x):
                return FirstPlaces(x, y, axes, frozenset((either, equal, unequal, spread)))
    return None
