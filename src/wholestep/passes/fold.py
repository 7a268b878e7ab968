"""Constant folding of arrays that hold one number everywhere."""

from __future__ import annotations

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node, rewrite
from wholestep.passes.rules.arithmetic import output_full_of
from wholestep.primitives.family import number_of


def fold_constants(graph: Graph) -> Graph:
    """Evaluate elementwise operations on numbers, and movements of a number, at compile time.

        a = full(2, shape=(3,)); b = full(1, shape=(3,)); c = sub(a, b)
        -->
        c = full(1, shape=(3,))

    The number is computed in the recorded dtype by the reference itself, so nothing is rounded otherwise.
    """
    return rewrite(graph, _fold_node)


def _fold_node(node: Node) -> Value | None:
    if not node.inputs or node.op.multiple or not all([defining_node(v, "full") for v in node.inputs]):
        return None
    numbers = [number_of(v) for v in node.inputs]
    if any(not isinstance(x, bool | int | float | complex) for x in numbers):
        return None
    if node.op.view and node.op.kind == "movement":
        return output_full_of(node, numbers[0])
    if node.op.kind != "elementwise":
        return None
    with np.errstate(all="ignore"):
        made = node.op.ref(*[np.asarray(x, v.dtype) for x, v in zip(numbers, node.inputs, strict=True)], **node.params)
    return None if node.outputs[0].dtype.kind == "V" else output_full_of(node, np.asarray(made).item())
