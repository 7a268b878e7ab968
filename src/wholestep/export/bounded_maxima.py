"""Maxima along short axes of an array with a lower bound, which is cheaper to apply to the maxima.

max(reshape(maximum(x, c)), axes) = maximum(max(reshape(x), axes), c)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wholestep.export.split_gradients import behind_reshape, bound_in, has_short_axes
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape
from wholestep.primitives.family import number_of


class BoundedMaximum(NamedTuple):
    """The array without its bound, the bound, the axes, and the shape of the array that has them."""

    x: Value
    bound: float
    axes: tuple[int, ...]
    shape: Shape
    inner: frozenset[Node]
    """The operation that becomes unused when the bound comes last."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return (self.x,)


def bounded_maxima_in(graph: Graph) -> dict[Node, BoundedMaximum]:
    """The reductions of a graph to the largest elements of an array with a finite bound."""
    found = {}
    for node in graph.nodes:
        if node.op.name == "max" and has_short_axes(node.types[0], node.params["axes"]):
            bounded = bound_in(behind_reshape(node.inputs[0]))
            if bounded is not None and np.isfinite(number_of(bounded.bound)):
                bound, shape = float(number_of(bounded.bound)), node.types[0].shape
                inner = frozenset((bounded.node,))
                found[node] = BoundedMaximum(bounded.x, bound, node.params["axes"], shape, inner)
    return found
