"""Reduction splitting: large reductions to few results run in two stages, the first of which threads can share.

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
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import GraphRewriter

MIN_ELEMENTS = 1 << 15
"""Minimum number of elements that is worth threads."""
MAX_RESULTS = 16
"""With this many results or more there is enough to share among threads already."""
MAX_CHUNKS = 64
"""Maximum number of chunks of an axis."""


class ReductionSplitter(GraphRewriter):
    """A graph with its large reductions split in two stages."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        for node in graph.nodes:
            inputs = [self.env.get(v, v) for v in node.inputs]
            if node.op.fold and worth_splitting(node):
                self.env[node.outputs[0]] = self.reduced(node, inputs[0], sorted(node.params["axes"]))
            else:
                self.keep(node, inputs)
        self.finish()

    def reduced(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x, the last axis first, or the only one in chunks."""

        def over(x: Value, *axes: int) -> Value:
            return self.add(node.op, (x,), {"axes": axes}, node)[0]

        if not has_few_results(x.shape, axes) or x.type.size < MIN_ELEMENTS:
            return over(x, *axes)
        if len(axes) > 1:
            return self.reduced(node, over(x, axes[-1]), axes[:-1])
        (axis,) = axes
        n = x.shape[axis]
        chunks = 1 if isinstance(n, Dim) else next((c for c in range(MAX_CHUNKS, 1, -1) if n % c == 0), 1)
        if chunks == 1:
            return over(x, axis)
        shape = (*x.shape[:axis], chunks, n // chunks, *x.shape[axis + 1 :])
        parts = self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]
        return over(over(parts, axis + 1), axis)


def split_reductions(graph: Graph) -> Graph:
    """Split reductions of many elements to few into two stages, the first of which threads share.

    s = sum(x, axes=(0,))                               where x: f32[100000]
    -->
    r = reshape(x, shape=(50, 2000)); t = sum(r, axes=(1,)); s = sum(t, axes=(0,))
    """
    return ReductionSplitter(graph).graph


def has_few_results(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """True if a reduction has too few results to share among threads."""
    return math.prod([n for i, n in enumerate(shape) if i not in axes]) < MAX_RESULTS


def worth_splitting(node: Node) -> bool:
    """True if a reduction is worth two stages; in half precision the first stage would lose too much."""
    x = node.inputs[0]
    exact = dtypes.compute_dtype(x.dtype) == x.dtype
    return exact and bool(x.type.size >= MIN_ELEMENTS) and has_few_results(x.shape, node.params["axes"])


SPLIT_REDUCTIONS = Pass("split_reductions", split_reductions)
