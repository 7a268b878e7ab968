"""Gradients of a maximum or minimum, split evenly among the elements that are equal to it.

hit = cast(equal(x, broadcast(y)));  g = mul(broadcast(mul(gy, div(1, sum(hit)))), hit)       y = max(x, axes)

Where x is reshape(maximum(u, 0)), mul(wins(u, 0), reshape(g)) too: only elements of u that y equals have a gradient,
and where y is 0 all elements of x are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape, Type
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.family import number_of

SHORT = 4
"""The longest axis that is worth a slice for each of its elements."""


class SplitGradient(NamedTuple):
    """A gradient in parts: the array, its extreme elements along axes, and the gradient with respect to these."""

    x: Value
    y: Value
    gy: Value
    axes: tuple[int, ...]
    shape: Shape
    """The shape of x that has the axes."""
    rectified: bool
    """True where y is the largest of maximum(x, 0), and the gradient is that of x."""
    inner: frozenset[Node]
    """The operations that become unused when the split is one operation."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.x, self.y, self.gy


def split_gradients_in(graph: Graph) -> dict[Node, SplitGradient]:
    """The products of a graph that split a gradient along axes of few elements."""
    found = dict[Node, SplitGradient]()
    for node in graph.nodes:
        for a, b in (node.inputs, reversed(node.inputs)) if node.op.name == "mul" else ():
            split = split_of(a, b) or rectified_split(a, b, found)
            if split is not None:
                found[node] = split
                break
    return found


def split_of(repeated: Value, hit: Value) -> SplitGradient | None:
    """The split that multiplies a repeated share by the mask `hit` of its elements."""
    cast, spread = defining_node(hit, "cast"), defining_node(repeated, "broadcast")
    equal = None if cast is None else defining_node(cast.inputs[0], "equal")
    product = None if spread is None else defining_node(spread.inputs[0], "mul")
    if cast is None or equal is None or spread is None or product is None:
        return None
    kept = spread.params["axes"]
    axes = tuple([i for i in range(len(hit.shape)) if i not in kept])
    for gy, inverse in (product.inputs, reversed(product.inputs)):
        for x, extreme in (equal.inputs, reversed(equal.inputs)):
            source, counted = defining_node(extreme, "broadcast"), defining_node(inverse, "div")
            summed = None if counted is None else defining_node(counted.inputs[1], "sum")
            if source is None or counted is None or summed is None or source.params["axes"] != kept:
                continue
            whole = number_of(counted.inputs[0]) == 1 and summed.inputs[0] is hit and summed.params["axes"] == axes
            if whole and has_short_axes(hit.type, axes) and x.dtype == hit.dtype:
                inner = frozenset((cast, equal, spread, product, source, counted, summed))
                return SplitGradient(x, source.inputs[0], gy, axes, x.type.shape, False, inner)
    return None


def rectified_split(share: Value, product: Value, found: Mapping[Node, SplitGradient]) -> SplitGradient | None:
    """A split among the largest of maximum(x, 0) times the share of x in that."""
    wins, split = defining_node(share, "wins"), behind_reshape(product).node
    known = None if split is None else found.get(split)
    if wins is None or split is None or known is None or known.rectified or number_of(wins.inputs[1]) != 0:
        return None
    bounded, largest = bound_in(behind_reshape(known.x)), defining_node(known.y, "max")
    if bounded is None or bounded.x is not wins.inputs[0] or number_of(bounded.bound) != 0 or largest is None:
        return None
    if largest.inputs[0] is not known.x or largest.params["axes"] != known.axes:
        return None
    return known._replace(x=bounded.x, rectified=True, inner=known.inner | {wins, split, bounded.node})


def behind_reshape(v: Value) -> Value:
    """The value that another one is a reshape of, or itself."""
    node = defining_node(v, "reshape")
    return v if node is None else node.inputs[0]


class LowerBound(NamedTuple):
    """An array and the number that its elements are at least made: maximum(x, bound)."""

    node: Node
    x: Value
    bound: Value


def bound_in(v: Value) -> LowerBound | None:
    """The lower bound that a value has; None where it has none."""
    node = defining_node(v, "maximum")
    for x, bound in () if node is None else (node.inputs, reversed(node.inputs)):
        if node is not None and number_of(bound) is not None:
            return LowerBound(node, x, bound)
    return None


def has_short_axes(x: Type, axes: Sequence[int]) -> bool:
    """True for float32 and float64 where axes have few elements each, which libraries reduce one after another."""
    short = all([isinstance(x.shape[axis], int) and 0 < x.shape[axis] <= SHORT for axis in axes])
    return bool(axes) and short and x.dtype.kind == "f" and x.dtype.itemsize > 2
