"""Reduction splitting: large sums with few results run in two stages, the first of which threads can share.

    sum(x, axes=(0, 1))               ->  sum(sum(x, axes=(1,)), axes=(0,))
    sum(x: f32[100000], axes=(0,))    ->  sum(sum(reshape(x, shape=(50, 2000)), axes=(1,)), axes=(0,))
    contract(x, y, spec="ki,k->i")    ->  sum(contract(reshape(x), reshape(y), spec="cki,ck->ci"), axes=(0,))

The stages depend on the shape alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters

from wholestep import dtypes
from wholestep.dims import Dim, Size
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower.target import SplitLimits
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import GraphRewriter
from wholestep.primitives.contraction import parts


class ReductionSplitter(GraphRewriter):
    """A graph with its large reductions split in two stages."""

    def __init__(self, graph: Graph, limits: SplitLimits) -> None:
        super().__init__(graph)
        self.limits = limits
        for node in graph.nodes:
            inputs = [self.env.get(v, v) for v in node.inputs]
            label = long_label(node, limits) if node.op.kind == "contraction" else ""
            if node.op.fold and worth_splitting(node, limits):
                self.env[node.outputs[0]] = self.reduced(node, inputs[0], sorted(node.params["axes"]))
            elif label:
                self.env[node.outputs[0]] = self.contracted(node, inputs, label)
            else:
                self.keep(node, inputs)
        self.finish()

    def reduced(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x, the last axis first, or the only one in chunks."""

        def over(x: Value, *axes: int) -> Value:
            return self.add(node.op, (x,), {"axes": axes}, node)[0]

        if not has_few_results(x.shape, axes, self.limits) or x.type.size < self.limits.elements:
            return over(x, *axes)
        if len(axes) > 1:
            return self.reduced(node, over(x, axes[-1]), axes[:-1])
        (axis,) = axes
        n = x.shape[axis]
        chunks = chunk_count(n, self.limits)
        if chunks == 1:
            return over(x, axis)
        shape = (*x.shape[:axis], chunks, n // chunks, *x.shape[axis + 1 :])
        chunked = self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]
        return over(over(chunked, axis + 1), axis)

    def contracted(self, node: Node, inputs: Sequence[Value], label: str) -> Value:
        """The contraction of each chunk of a label, and the sum of these."""
        a, b, out = parts(node.params["spec"])
        chunk = next(c for c in ascii_letters if c not in a + b)
        operands: list[Value] = []
        for x, labels in zip(inputs, (a, b), strict=True):
            at = labels.index(label)
            n, count = x.shape[at], chunk_count(x.shape[at], self.limits)
            shape = (*x.shape[:at], count, n // count, *x.shape[at + 1 :])
            operands.append(self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0])
        a, b = (s.replace(label, chunk + label) for s in (a, b))
        sums = self.add(node.op, operands, {"spec": f"{a},{b}->{chunk}{out}"}, node)[0]
        return self.add(OPS["sum"], (sums,), {"axes": (0,)}, node)[0]


def split_reductions(graph: Graph, limits: SplitLimits | None) -> Graph:
    """Split reductions and contractions of many elements to few into two stages, the first of which threads share.

    s = sum(x, axes=(0,))                               where x: f32[100000]
    -->
    r = reshape(x, shape=(50, 2000)); t = sum(r, axes=(1,)); s = sum(t, axes=(0,))
    """
    return graph if limits is None else ReductionSplitter(graph, limits).graph


def chunk_count(n: Size, limits: SplitLimits) -> int:
    """The number of equal chunks of an axis; 1 where there are none."""
    return 1 if isinstance(n, Dim) else next((c for c in range(limits.chunks, 1, -1) if n % c == 0), 1)


def long_label(node: Node, limits: SplitLimits) -> str:
    """The longest label that a contraction sums over, if chunks of it are worth two stages; otherwise nothing."""
    x, y = node.inputs
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    summed = [c for c in sizes if c in a and c in b and c not in out and chunk_count(sizes[c], limits) > 1]
    label = max(summed, key=sizes.__getitem__, default="")
    exact = x.dtype.kind == "f" and dtypes.compute_dtype(x.dtype) == x.dtype
    few = bool(node.outputs[0].type.size < limits.sums)
    return label if label and exact and few and sizes[label] >= limits.elements else ""


def has_few_results(shape: Sequence[int], axes: Sequence[int], limits: SplitLimits) -> bool:
    """True if a reduction has too few results to share among threads."""
    return math.prod([n for i, n in enumerate(shape) if i not in axes]) < limits.results


def worth_splitting(node: Node, limits: SplitLimits) -> bool:
    """True if a reduction is worth two stages; in half precision the first stage would lose too much."""
    x = node.inputs[0]
    exact = dtypes.compute_dtype(x.dtype) == x.dtype
    return exact and bool(x.type.size >= limits.elements) and has_few_results(x.shape, node.params["axes"], limits)


SPLIT_REDUCTIONS = Pass("split_reductions", split_reductions)
