"""Constant folding on numbers that stand everywhere in an array."""

from __future__ import annotations

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.algebra import full_like
from wholestep.passes.rewrite import made_by, rewrite
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


def _folded(node: Node) -> Value | None:
    if not node.inputs or node.op.multiple or not all([made_by(v, "full") for v in node.inputs]):
        return None
    numbers = [number_of(v) for v in node.inputs]
    if any(not isinstance(x, bool | int | float | complex) for x in numbers):
        return None
    if node.op.name in MOVES:
        return full_like(node, numbers[0])
    if not isinstance(node.op, Elementwise) and node.op.name not in ("cast", "select"):
        return None
    with np.errstate(all="ignore"):
        made = node.op.ref(*[np.asarray(x, v.dtype) for x, v in zip(numbers, node.inputs, strict=True)], **node.params)
    return None if node.outputs[0].dtype.kind == "V" else full_like(node, np.asarray(made).item())
