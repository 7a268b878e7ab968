"""Tests that all elements of arrays are finite: all(isfinite(x)) & …, which their least and largest elements answer."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node


class FiniteArrays(NamedTuple):
    """A test of whole arrays: the arrays, and the operations that test them one by one."""

    operands: tuple[Value, ...]
    """The arrays that it reads."""
    inner: frozenset[Node]
    """The operations that become unused when the test is one operation."""


def finite_arrays_in(graph: Graph, mixed: bool = False) -> dict[Node, FiniteArrays]:
    """The tests of whole arrays in a graph, float32 or float64 and not empty; tests joined by `&` are one.

    Tests are joined for arrays of one dtype, and with `mixed` of both dtypes.
    """
    found: dict[Node, FiniteArrays] = {}
    for node in graph.nodes:
        parts = [found.get(v.node) or tested_number(v) for v in node.inputs if v.node is not None]
        if node.op.name == "all":
            tested = tested_array(node)
            if tested is not None:
                found[node] = tested
        elif node.op.name == "bitwise_and" and len(parts) == 2 and None not in parts:
            a, b = parts
            assert a is not None and b is not None
            if mixed or a.operands[0].dtype == b.operands[0].dtype:
                joined = frozenset([v.node for v in node.inputs if v.node is not None])
                found[node] = FiniteArrays((*a.operands, *b.operands), a.inner | b.inner | joined)
    return found


def tested_array(node: Node) -> FiniteArrays | None:
    """The test of a whole array that a reduction is; None for another one."""
    tested = defining_node(node.inputs[0], "isfinite")
    if tested is None or not 0 < tested.outputs[0].ndim == len(node.params["axes"]):
        return None
    return FiniteArrays(tested.inputs, frozenset((tested,))) if is_testable(tested.inputs[0]) else None


def tested_number(v: Value) -> FiniteArrays | None:
    """The test of a value without axes; None for another value."""
    tested = defining_node(v, "isfinite")
    if tested is None or v.ndim or not is_testable(tested.inputs[0]):
        return None
    return FiniteArrays(tested.inputs, frozenset((tested,)))


def is_testable(x: Value) -> bool:
    """True for float32 and float64 of a shape that is known and not empty."""
    known = all([isinstance(n, int) and n > 0 for n in x.shape])
    return known and x.dtype.kind == "f" and x.dtype.itemsize > 2
