"""Tests that all elements of an array are finite: all(isfinite(x)), which its least and largest element answer."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.export.split_gradients import node_of
from wholestep.ir.graph import Graph, Node, Value


class FiniteArray(NamedTuple):
    """A test of a whole array: the array, and the operation that tests its elements."""

    x: Value
    inner: frozenset[Node]
    """The operations that nothing needs where the test is one."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The array that it reads."""
        return (self.x,)


def finite_arrays_in(graph: Graph) -> dict[Node, FiniteArray]:
    """The reductions of a graph that test whole arrays, of float32 or float64 and not empty."""
    found = {}
    for node in graph.nodes:
        tested = node_of(node.inputs[0], "isfinite") if node.op.name == "all" else None
        if tested is not None and 0 < tested.outputs[0].ndim == len(node.params["axes"]):
            (x,) = tested.inputs
            known = all([isinstance(n, int) and n > 0 for n in x.shape])
            if known and x.dtype.kind == "f" and x.dtype.itemsize > 2:
                found[node] = FiniteArray(x, frozenset((tested,)))
    return found
