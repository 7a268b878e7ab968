"""Reduction splitting: large sums with few results run in two stages, the first of which threads can share.

    sum(x, axes=(0, 1))               ->  sum(sum(x, axes=(1,)), axes=(0,))
    sum(x: f32[100000], axes=(0,))    ->  sum(sum(reshape(x, shape=(50, 2000)), axes=(1,)), axes=(0,))
    contract(x, y, spec="ki,k->i")    ->  sum(contract(reshape(x), reshape(y), spec="cki,ck->ci"), axes=(0,))

The stages depend on the shape alone, so that the bits do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
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
                axes = sorted(node.params["axes"])
                split = self.in_parts if limits.terms else self.reduced
                self.env[node.outputs[0]] = split(node, inputs[0], axes)
            elif label:
                self.env[node.outputs[0]] = self.contracted(node, inputs, label)
            else:
                self.keep(node, inputs)
        self.finish()

    def reduced(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x, the last axis first, or the only one in chunks."""
        if not has_few_results(x.shape, axes, self.limits) or x.type.size < self.limits.elements:
            return self.over(node, x, axes)
        if len(axes) > 1:
            return self.reduced(node, self.over(node, x, axes[-1:]), axes[:-1])
        (axis,) = axes
        n = x.shape[axis]
        chunks = chunk_count(n, self.limits)
        if chunks == 1:
            return self.over(node, x, axes)
        return self.in_two_stages(node, x, axes, 0, chunks)

    def in_parts(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x over its parts: steps of the first axes, and equal stretches of the one that follows."""
        wanted, kept = part_count(x.shape, axes, self.limits), 0
        if wanted < 2:
            return self.over(node, x, axes)
        while (n := x.shape[axes[kept]]) <= wanted // 2:
            wanted, kept = wanted // n, kept + 1
        axis = axes[kept]
        count = stretch_count(n, wanted, exact=not node.op.combiner)
        if n % count:
            ends = (0, n - n % count, n)
            whole, rest = [self.slice_along(node, x, axis, *pair) for pair in pairwise(ends)]
            found = self.in_two_stages(node, whole, axes, kept, count)
            return self.add(OPS[node.op.combiner], (found, self.in_parts(node, rest, axes)), {}, node)[0]
        return self.in_two_stages(node, x, axes, kept, count)

    def in_two_stages(self, node: Node, x: Value, axes: Sequence[int], kept: int, count: int) -> Value:
        """The reduction in two stages: first over the later axes and inside `count` stretches of axis number `kept`,
        then over these stretches and the axes before."""
        axis = axes[kept]
        shape = (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
        parts = self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]
        return self.over(node, self.over(node, parts, [a + 1 for a in axes[kept:]]), axes[: kept + 1])

    def over(self, node: Node, x: Value, axes: Sequence[int]) -> Value:
        """The reduction of x over axes at once."""
        return self.add(node.op, (x,), {"axes": tuple(axes)}, node)[0]

    def slice_along(self, node: Node, x: Value, axis: int, start: int, stop: int) -> Value:
        """The elements of x from a place to another along an axis."""
        ends = [
            tuple([end if i == axis else n for i, n in enumerate(full)])
            for full, end in zip(((0,) * x.type.ndim, x.shape), (start, stop), strict=True)
        ]
        return self.add(OPS["slice"], (x,), {"start": ends[0], "stop": ends[1], "step": (1,) * x.type.ndim}, node)[0]

    def contracted(self, node: Node, inputs: Sequence[Value], label: str) -> Value:
        """The contraction of each chunk of a label, and the sum of these."""
        a, b, out = parts(node.params["spec"])
        chunk = next(c for c in ascii_letters if c not in a + b)
        operands: list[Value] = []
        for x, labels in zip(inputs, (a, b), strict=True):
            at = labels.index(label)
            n, count = x.shape[at], product_chunks(node, label, self.limits)
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


def part_count(shape: Sequence[Size], axes: Sequence[int], limits: SplitLimits) -> int:
    """The number of parts of each result of a reduction; 1 where two stages would not pay."""
    sizes = [n for n in shape if isinstance(n, int)]
    if len(sizes) < len(shape) or not has_few_results(sizes, axes, limits):
        return 1
    terms = math.prod([sizes[a] for a in axes])
    results = math.prod(sizes) // max(terms, 1)
    return min(limits.chunks // max(results, 1), terms // limits.terms) if terms >= limits.elements else 1


def stretch_count(n: int, wanted: int, exact: bool) -> int:
    """The number of equal stretches of an axis, about as many as wanted: a divisor, or, where none is near and the
    result need not be `exact`, a number with a small remainder."""
    divisor = next(c for c in range(wanted, 0, -1) if n % c == 0)
    if exact or 2 * divisor > wanted:
        return divisor
    return min(range(wanted, wanted // 2, -1), key=lambda c: n % c)


def long_label(node: Node, limits: SplitLimits) -> str:
    """The longest label that a contraction sums over, if chunks of it are worth two stages; otherwise nothing."""
    x, y = node.inputs
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    summed = [c for c in sizes if c in a and c in b and c not in out and product_chunks(node, c, limits) > 1]
    label = max(summed, key=sizes.__getitem__, default="")
    exact = x.dtype.kind == "f" and dtypes.compute_dtype(x.dtype) == x.dtype
    few = bool(node.outputs[0].type.size < limits.sums)
    long = bool(label) and (bool(limits.terms) or sizes[label] >= limits.elements)
    return label if exact and few and long else ""


def product_chunks(node: Node, label: str, limits: SplitLimits) -> int:
    """The number of equal chunks of a label that a contraction sums over; 1 where there are none."""
    x, y = node.inputs
    a, b, out = parts(node.params["spec"])
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    if not limits.terms or any(isinstance(n, Dim) for n in sizes.values()):
        return chunk_count(sizes[label], limits)
    terms = math.prod([n for c, n in sizes.items() if c not in out])
    results = math.prod([sizes[c] for c in out])
    if terms < limits.products:
        return 1
    wanted = min(terms // limits.terms, limits.chunks * limits.terms // max(results, 1))
    return next((c for c in range(wanted, 1, -1) if sizes[label] % c == 0), 1)


def has_few_results(shape: Sequence[int], axes: Sequence[int], limits: SplitLimits) -> bool:
    """True if a reduction has too few results to share among threads, or to read rows from memory whole."""
    results, last = math.prod([n for i, n in enumerate(shape) if i not in axes]), len(shape) - 1
    narrow = last not in axes and results == shape[last] <= limits.columns and math.prod(shape) >= limits.far
    return results < limits.results or narrow


def worth_splitting(node: Node, limits: SplitLimits) -> bool:
    """True if a reduction is worth two stages; in half precision the first stage would lose too much."""
    x = node.inputs[0]
    exact = dtypes.compute_dtype(x.dtype) == x.dtype
    return exact and bool(x.type.size >= limits.elements) and has_few_results(x.shape, node.params["axes"], limits)


SPLIT_REDUCTIONS = Pass("split_reductions", split_reductions)
