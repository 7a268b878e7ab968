"""Common subexpressions: what is computed once need not be computed twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import rewrite


def cse(graph: Graph) -> Graph:
    """Compute equal things once, across the forward and the backward pass alike.

        a = sin(x); b = sin(x); c = add(a, b)
        -->
        a = sin(x); c = add(a, a)

    What stands inside a checkpoint is computed again on purpose; it is another graph, so it never meets its twin.
    """
    known: dict[Any, Node] = {}

    def merged(node: Node) -> tuple[Value, ...] | None:
        key = (node.op.name, node.inputs, tuple([(k, _key(v)) for k, v in node.params.items()]))
        twin = known.setdefault(key, node)
        return None if twin is node else twin.outputs

    return rewrite(graph, merged)


def _key(value: Any) -> Any:
    """A parameter as something that can be compared and hashed; arrays by content, numbers by type and sign of zero."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype, value.tobytes())
    if isinstance(value, tuple):
        return tuple([_key(item) for item in value])
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return (type(value), value)
