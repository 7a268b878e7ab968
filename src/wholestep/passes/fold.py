"""Constant folding on numbers that stand everywhere in an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import rewrite
from wholestep.primitives.creation import full
from wholestep.primitives.family import Elementwise, number_of


def fold(graph: Graph) -> Graph:
    """Compute at once what is known: an elementwise operation on numbers, and the movement of a number.

        a = full(2, shape=(3,)); b = full(1, shape=(3,)); c = sub(a, b)
        -->
        c = full(1, shape=(3,))

    The number is computed in the recorded dtype by the reference itself, so nothing is rounded otherwise.
    """
    return rewrite(graph, _folded)


MOVES = frozenset({"broadcast", "reshape", "permute", "flip", "slice"})


def _folded(node: Node) -> Node | None:
    if not node.inputs or node.op.multiple:
        return None
    numbers = [number_of(v) for v in node.inputs]
    if any(not isinstance(x, bool | int | float | complex) for x in numbers):
        return None
    out = node.outputs[0].type
    if node.op.name in MOVES:
        return number_node(node, numbers[0])
    if not isinstance(node.op, Elementwise) and node.op.name != "cast":
        return None
    with np.errstate(all="ignore"):
        made = node.op.ref(*[np.asarray(x, v.dtype) for x, v in zip(numbers, node.inputs, strict=True)], **node.params)
    if out.dtype.kind == "V":
        return None
    return number_node(node, np.asarray(made).item())


def number_node(node: Node, number: Any) -> Node:
    """A `full` in the place of a node."""
    out = node.outputs[0].type
    made = Node(full, (), {"value": number, "shape": out.shape, "dtype": out.dtype}, node.where)
    made.outputs = (Value(out, made, None),)
    return made
