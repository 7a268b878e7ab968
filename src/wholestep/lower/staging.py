"""Staging: a reduction of many elements to few is done in two, so that the first can be shared out among threads.

    sum(x, axes=(0, 1))               ->  sum(sum(x, axes=(1,)), axes=(0,))
    sum(x: f32[100000], axes=(0,))    ->  sum(sum(reshape(x, shape=(50, 2000)), axes=(1,)), axes=(0,))

The stages depend on the shape alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower.kinds import FOLDS
from wholestep.lower.rewriting import Rewriting

MANY = 1 << 15
"""From how many elements on threads are worth it."""
FEW = 16
"""With fewer results than this there is too little to share out."""
CHUNKS = 64
"""Into at most how many parts one axis is cut."""


class Staged(Rewriting):
    """A graph with its large reductions done in two stages."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        for node in graph.nodes:
            inputs = [self.env.get(v, v) for v in node.inputs]
            if node.op.name in FOLDS and large(node):
                self.env[node.outputs[0]] = self.reduced(node, inputs[0], sorted(node.params["axes"]))
            else:
                self.keep(node, inputs)
        self.finish([self.env.get(v, v) for v in graph.outputs])

    def reduced(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x, the last axis first, or the only one in parts."""
        if not few(x.shape, axes) or x.type.size < MANY:
            return self.add(node.op, (x,), {"axes": tuple(axes)}, node)[0]
        if len(axes) > 1:
            inner = self.add(node.op, (x,), {"axes": (axes[-1],)}, node)[0]
            return self.reduced(node, inner, axes[:-1])
        (axis,) = axes
        n = x.shape[axis]
        if isinstance(n, Dim):
            return self.add(node.op, (x,), {"axes": (axis,)}, node)[0]
        chunks = next((c for c in range(CHUNKS, 1, -1) if n % c == 0), 1)
        if chunks == 1:
            return self.add(node.op, (x,), {"axes": (axis,)}, node)[0]
        shape = (*x.shape[:axis], chunks, n // chunks, *x.shape[axis + 1 :])
        parts = self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]
        inner = self.add(node.op, (parts,), {"axes": (axis + 1,)}, node)[0]
        return self.add(node.op, (inner,), {"axes": (axis,)}, node)[0]


def staged(graph: Graph) -> Graph:
    """The same program with its large reductions done in two stages."""
    return Staged(graph).graph


def few(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether a reduction leaves too few results to share out."""
    return math.prod([n for i, n in enumerate(shape) if i not in axes]) < FEW


def large(node: Node) -> bool:
    """Whether a reduction is worth two stages; of half precision the first stage would lose too much."""
    x = node.inputs[0]
    exact = dtypes.compute_dtype(x.dtype) == x.dtype
    return exact and bool(x.type.size >= MANY) and few(x.shape, node.params["axes"])
