"""Reductions simplified: sums of broadcasts, of sums, of contractions and of products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import Uses, at_roots, defining_node, new_value, to_fixpoint
from wholestep.passes.rules.einsum_labels import Contraction, parse_contraction
from wholestep.passes.rules.movement import broadcast_reduced, permute_value, reshape_value
from wholestep.primitives.contraction import LETTERS

EIGHT_BYTES = frozenset(map(np.dtype, (np.int64, np.uint64)))
"""The dtypes of counts."""


def simplify_reductions(graph: Graph) -> Graph:
    """Merge sums with the operations that compute their operands, and turn sums of products into contractions.

        m = mul(broadcast(x, axes=(0, 1)), broadcast(y, axes=(1, 2))); s = sum(m, axes=(1,))
        -->
        s = contract(x, y, spec="ab,bc->ac")

        c = contract(x, w, spec="ij,jk->ik"); s = sum(c, axes=(0,))
        -->
        t = sum(x, axes=(0,)); s = contract(t, w, spec="j,jk->k")

    Equal up to rounding: the same terms are added, in another order. A contraction that sums nothing, or whose
    operands share all their labels, is left to the elementwise kernels.
    """
    return to_fixpoint(
        graph, lambda uses: at_roots({"sum": lambda node: _simplify_sum(node, uses), "contract": contract_to_product})
    )


def _simplify_sum(node: Node, uses: Uses) -> Value | None:
    """A sum rewritten by the rule of the operation that computes its operand."""
    x, axes, out = node.inputs[0], node.params["axes"], node.outputs[0]
    if not x.type.size:
        # A constant 0, and not an operand times the size 0, which is NaN for an infinite one.
        return new_value(node, "full", value=0, shape=out.shape, dtype=out.dtype)
    if all(x.shape[a] == 1 for a in axes):
        return reshape_value(node, x, out.shape)
    inner = defining_node(x, *SUM_RULES)
    return None if inner is None else SUM_RULES[inner.op.name](node, inner, uses)


def sum_of_sum(node: Node, inner: Any, uses: Uses) -> Value | None:
    x, first = inner.inputs[0], inner.params["axes"]
    if dtypes.compute_dtype(x.dtype) != x.dtype:
        return None  # the first sum was rounded to half precision
    kept = [a for a in range(x.ndim) if a not in first]
    return new_value(node, "sum", x, axes=tuple(sorted([*first, *[kept[a] for a in node.params["axes"]]])))


def sum_of_broadcast(node: Node, broadcast: Any, uses: Uses) -> Value | None:
    """A sum over broadcast axes as a multiplication by their size."""
    x, own, axes = broadcast.inputs[0], broadcast.params["axes"], node.params["axes"]
    shape = broadcast.outputs[0].shape
    count = math.prod([shape[a] for a in axes if a not in own])
    inner = tuple([i for i, a in enumerate(own) if a in axes])
    made = new_value(node, "sum", x, axes=inner) if inner else x
    if count != 1:
        made = new_value(node, "mul", made, new_value(node, "full", value=count, shape=made.shape, dtype=made.dtype))
    return broadcast_reduced(node, made, own)


def sum_of_contract(node: Node, contract: Any, uses: Uses) -> Value | None:
    if uses.get(contract.outputs[0], 1) != 1:
        return None
    c = parse_contraction(contract)
    out = "".join([label for a, label in enumerate(c.out) if a not in node.params["axes"]])
    return c._replace(node=node).with_output(out).settled()


def sum_of_product(node: Node, mul: Any, uses: Uses) -> Value | None:
    """A sum of broadcast products as a contraction; labels of one operand alone are not summed."""
    value, axes = mul.outputs[0], node.params["axes"]
    a, b = [defining_node(v, "broadcast") for v in mul.inputs]
    if a is None or b is None or uses.get(value, 1) != 1 or not value.type.inexact or value.ndim > len(LETTERS):
        return None
    own = [set(p.params["axes"]) for p in (a, b)]
    rows, columns, inner = own[0] - own[1] - set(axes), own[1] - own[0] - set(axes), own[0] & own[1] & set(axes)
    if not rows or not columns or not inner:
        return None
    labels = ["".join([LETTERS[i] for i in p.params["axes"]]) for p in (a, b)]
    out = "".join([LETTERS[i] for i in range(value.ndim) if i not in axes])
    sizes = dict(zip(LETTERS, value.shape, strict=False))
    return Contraction(node, (a.inputs[0], b.inputs[0]), (labels[0], labels[1]), out, sizes).settled()


def sum_of_negative(node: Node, neg: Any, uses: Uses) -> Value | None:
    """A sum of negatives as the negative of the sum, which rounds alike."""
    return new_value(node, "neg", new_value(node, "sum", neg.inputs[0], axes=node.params["axes"]))


def sum_of_truths(node: Node, cast: Any, uses: Uses) -> Value | None:
    """A count in eight-byte integers as a count in four-byte ones, of which a vector holds twice as many."""
    truths, axes, wide = cast.inputs[0], node.params["axes"], node.outputs[0].dtype
    count = math.prod([n for i, n in enumerate(truths.shape) if i in axes])
    if truths.dtype.kind != "b" or wide not in EIGHT_BYTES or not isinstance(count, int) or count >= 2**31:
        return None
    narrow = new_value(node, "cast", truths, dtype=np.dtype(np.int32))
    return new_value(node, "cast", new_value(node, "sum", narrow, axes=axes), dtype=wide)


SUM_RULES: dict[str, Callable[[Node, Any, Uses], Value | None]] = {
    "sum": sum_of_sum,
    "broadcast": sum_of_broadcast,
    "contract": sum_of_contract,
    "mul": sum_of_product,
    "neg": sum_of_negative,
    "cast": sum_of_truths,
}


def contract_to_product(node: Node) -> Value | None:
    """A contraction that sums nothing, or whose operands have the same labels, as an elementwise product and a sum."""
    c = parse_contraction(node)
    inner = set("".join(c.labels)) - set(c.out)
    if inner and all(c.sizes[label] == 1 for label in inner):
        c, inner = c.without_operand_labels(inner), set()
    lone = set(c.labels[0]) ^ set(c.labels[1])
    if inner and (lone or dtypes.compute_dtype(node.inputs[0].dtype) != node.inputs[0].dtype):
        return None  # products of half precision are not rounded before they are added
    full = c.out + "".join(sorted(inner))
    product = new_value(
        node, "mul", *[broadcast_to_labels(node, v, own, full, c) for v, own in zip(c.operands, c.labels, strict=True)]
    )
    return new_value(node, "sum", product, axes=tuple(range(len(c.out), len(full)))) if inner else product


def broadcast_to_labels(node: Node, v: Value, own: str, full: str, c: Contraction) -> Value:
    """An operand permuted and broadcast to all the labels, in their order."""
    there = [label for label in full if label in own]
    turned = permute_value(node, v, tuple([own.index(label) for label in there]))
    if len(there) == len(full):
        return turned
    axes = tuple([full.index(label) for label in there])
    return new_value(node, "broadcast", turned, shape=c.shape(full), axes=axes)
