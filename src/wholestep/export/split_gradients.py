"""Gradients that a largest or smallest element hands back, split evenly among those that are equal to it.

hit = cast(equal(x, broadcast(y)));  mul(broadcast(mul(gy, div(1, sum(hit)))), hit)       y = max(x, axes)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type
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
    inner: frozenset[Node]
    """The operations that nothing needs where the split is one."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.x, self.y, self.gy


def split_gradients_in(graph: Graph) -> dict[Node, SplitGradient]:
    """The products of a graph that split a gradient along axes of few elements."""
    found = {}
    for node in graph.nodes:
        if node.op.name == "mul":
            tries = (split_of(*node.inputs), split_of(*reversed(node.inputs)))
            found[node] = next((each for each in tries if each is not None), None)
    return {node: each for node, each in found.items() if each is not None}


def split_of(repeated: Value, hit: Value) -> SplitGradient | None:
    """The split whose parts are a repeated share, and whose elements are those hit."""
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
                return SplitGradient(x, source.inputs[0], gy, axes, inner)
    return None


def has_short_axes(x: Type, axes: Sequence[int]) -> bool:
    """True for float32 and float64 where axes have few elements each, which libraries reduce one after another."""
    short = all([isinstance(x.shape[axis], int) and 0 < x.shape[axis] <= SHORT for axis in axes])
    return bool(axes) and short and x.dtype.kind == "f" and x.dtype.itemsize > 2
