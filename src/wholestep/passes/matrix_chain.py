"""Matrix chain ordering: products of several arrays in the order with the fewest operations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from wholestep.dims import most
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import Uses, at_roots, defining_node, new_value, to_fixpoint
from wholestep.passes.rules.einsum_labels import parse_contraction
from wholestep.primitives.contraction import LETTERS

MAX_OPERANDS = 6
"""The most operands of a chain whose orders are compared; there are 3 to the power of this many splits."""
MAX_COST_SHARE = 0.9
"""The fraction of the present cost below which another order replaces it."""


def matrix_chain(graph: Graph) -> Graph:
    """Multiply in the order with the fewest operations, where inner products are read nowhere else.

        m = contract(a, b, spec="ij,jk->ik"); y = contract(m, x, spec="ik,k->i")
        -->
        t = contract(b, x, spec="ab,b->a"); y = contract(a, t, spec="ab,b->a")

    Equal up to rounding: the same products are added, in another order.
    """
    return to_fixpoint(graph, lambda uses: at_roots({"contract": lambda node: reorder_chain(node, uses)}))


class MatrixChain(NamedTuple):
    """A contraction of several operands: each with its labels, the labels of the result, and its present cost."""

    operands: list[tuple[Value, str]]
    out: str
    sizes: dict[str, Any]
    cost: int


def reorder_chain(node: Node, uses: Uses) -> Value | None:
    """The contraction in its cheapest order, where that is much cheaper."""
    if not any(defining_node(v, "contract") and uses.get(v, 1) == 1 for v in node.inputs):
        return None
    product = flatten_chain(node, uses)
    if len(product.operands) < 3 or 0 in product.sizes.values():
        return None
    plan = optimal_splits(product)
    whole = (1 << len(product.operands)) - 1
    return (
        build_chain(node, product, plan, whole)[0]
        if most(plan[whole].cost) < MAX_COST_SHARE * most(product.cost)
        else None
    )


def flatten_chain(node: Node, uses: Uses) -> MatrixChain:
    """A contraction as the chain of its operands, with inner contractions of a single use replaced by their own."""
    free = iter(LETTERS)
    root = parse_contraction(node)
    names = {label: next(free) for label in root.sizes}
    sizes = {names[label]: n for label, n in root.sizes.items()}
    leaves: list[tuple[Value, str]] = []
    waiting = [(v, rename_labels(own, names)) for v, own in zip(root.operands, root.labels, strict=True)]
    cost = math.prod(sizes.values())
    while waiting:
        v, own = waiting.pop(0)
        inner = defining_node(v, "contract")
        if inner is None or uses.get(v, 1) != 1 or len(leaves) + len(waiting) + 2 > MAX_OPERANDS:
            leaves.append((v, own))
            continue
        c = parse_contraction(inner)
        names = dict(zip(c.out, own, strict=True))
        fresh = {label: next(free, "") for label in c.sizes if label not in names}
        if "" in fresh.values():
            leaves.append((v, own))
            continue
        names.update(fresh)
        sizes.update({names[label]: n for label, n in c.sizes.items()})
        cost += math.prod(c.sizes.values())
        waiting[:0] = [(x, rename_labels(labels, names)) for x, labels in zip(c.operands, c.labels, strict=True)]
    return MatrixChain(
        leaves, rename_labels(root.out, {label: LETTERS[i] for i, label in enumerate(root.sizes)}), sizes, cost
    )


def rename_labels(labels: str, names: dict[str, str]) -> str:
    """Labels under their new names."""
    return "".join([names[label] for label in labels])


class ChainSplit(NamedTuple):
    """The least cost of multiplying a set of operands, and the two subsets multiplied last; 0 and 0 for one."""

    cost: int
    left: int
    right: int


def optimal_splits(product: MatrixChain) -> dict[int, ChainSplit]:
    """The cheapest split of each set of operands, sets as bits of a number, by dynamic programming."""
    count = len(product.operands)
    plan = {1 << i: ChainSplit(0, 0, 0) for i in range(count)}
    for members in range(1, 1 << count):
        if members in plan:
            continue
        ways = []
        for left in proper_subsets(members):
            right = members ^ left
            labels = set(remaining_labels(product, left)) | set(remaining_labels(product, right))
            here = math.prod([product.sizes[label] for label in labels])
            ways.append(ChainSplit(plan[left].cost + plan[right].cost + here, left, right))
        plan[members] = min(ways)
    return plan


def proper_subsets(members: int) -> Iterable[int]:
    """The proper subsets that hold the first member of a set."""
    first = members & -members
    left = (members - 1) & members
    while left:
        if left & first:
            yield left
        left = (left - 1) & members


def remaining_labels(product: MatrixChain, members: int) -> str:
    """The labels that the product of these operands keeps: those that the result or another operand has."""
    inside = [own for i, (_, own) in enumerate(product.operands) if members >> i & 1]
    outside = [own for i, (_, own) in enumerate(product.operands) if not members >> i & 1]
    if len(inside) == 1:
        return inside[0]
    needed = set(product.out).union(*outside)
    return "".join(dict.fromkeys(label for own in inside for label in own if label in needed))


def build_chain(node: Node, product: MatrixChain, plan: dict[int, ChainSplit], members: int) -> tuple[Value, str]:
    """The product of a set of operands, and its labels."""
    step = plan[members]
    if not step.left:
        return product.operands[members.bit_length() - 1]
    (x, a), (y, b) = [build_chain(node, product, plan, side) for side in (step.left, step.right)]
    out = product.out if members == (1 << len(product.operands)) - 1 else remaining_labels(product, members)
    return new_value(node, "contract", x, y, spec=f"{a},{b}->{out}"), out
