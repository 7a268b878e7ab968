"""Products of several arrays in the order that costs least."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from wholestep.dims import most
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.labels import labelled
from wholestep.passes.rewrite import Uses, count_uses, made_by, make, repeated, rewrite
from wholestep.primitives.contraction import LETTERS

MOST = 6
"""Operands of a product whose orders are compared; there are 3 to the power of this many pairs of parts."""
SAVED = 0.9
"""What share of the cost may be left for another order to be worth it."""


def chains(graph: Graph) -> Graph:
    """Multiply in the order with the fewest operations, where inner products are read nowhere else.

        m = contract(a, b, spec="ij,jk->ik"); y = contract(m, x, spec="ik,k->i")
        -->
        t = contract(b, x, spec="ab,b->a"); y = contract(a, t, spec="ab,b->a")

    Equal up to rounding: the same products are added, in another order.
    """
    return repeated(_once, graph)


def _once(graph: Graph) -> Graph:
    uses = count_uses(graph)
    return rewrite(graph, lambda node: reordered(node, uses) if node.op.name == "contract" else None, uses)


class Product(NamedTuple):
    """A contraction of several operands: each with its labels, the labels of the result, and what it costs as it is."""

    operands: list[tuple[Value, str]]
    out: str
    sizes: dict[str, Any]
    cost: int


def reordered(node: Node, uses: Uses) -> Value | None:
    """The contraction in its cheapest order, where that is much cheaper."""
    if not any(made_by(v, "contract") and uses.get(v, 1) == 1 for v in node.inputs):
        return None
    product = flattened(node, uses)
    if len(product.operands) < 3 or 0 in product.sizes.values():
        return None
    plan = cheapest(product)
    whole = (1 << len(product.operands)) - 1
    return built(node, product, plan, whole)[0] if most(plan[whole].cost) < SAVED * most(product.cost) else None


def flattened(node: Node, uses: Uses) -> Product:
    """The operands of a contraction and of those that make its operands and nothing else."""
    free = iter(LETTERS)
    root = labelled(node)
    names = {label: next(free) for label in root.sizes}
    sizes = {names[label]: n for label, n in root.sizes.items()}
    leaves: list[tuple[Value, str]] = []
    waiting = [(v, renamed(own, names)) for v, own in zip(root.operands, root.labels, strict=True)]
    cost = math.prod(sizes.values())
    while waiting:
        v, own = waiting.pop(0)
        inner = made_by(v, "contract")
        if inner is None or uses.get(v, 1) != 1 or len(leaves) + len(waiting) + 2 > MOST:
            leaves.append((v, own))
            continue
        c = labelled(inner)
        names = dict(zip(c.out, own, strict=True))
        fresh = {label: next(free, "") for label in c.sizes if label not in names}
        if "" in fresh.values():
            leaves.append((v, own))
            continue
        names.update(fresh)
        sizes.update({names[label]: n for label, n in c.sizes.items()})
        cost += math.prod(c.sizes.values())
        waiting[:0] = [(x, renamed(labels, names)) for x, labels in zip(c.operands, c.labels, strict=True)]
    return Product(leaves, renamed(root.out, {label: LETTERS[i] for i, label in enumerate(root.sizes)}), sizes, cost)


def renamed(labels: str, names: dict[str, str]) -> str:
    """These labels under their new names."""
    return "".join([names[label] for label in labels])


class Step(NamedTuple):
    """What the best way to a set of operands costs, and the two sets that it multiplies last; 0 and 0 for one."""

    cost: int
    left: int
    right: int


def cheapest(product: Product) -> dict[int, Step]:
    """The best way to multiply each set of operands, sets being bits of a number."""
    count = len(product.operands)
    plan = {1 << i: Step(0, 0, 0) for i in range(count)}
    for members in range(1, 1 << count):
        if members in plan:
            continue
        ways = []
        for left in parts_of(members):
            right = members ^ left
            labels = set(kept(product, left)) | set(kept(product, right))
            here = math.prod([product.sizes[label] for label in labels])
            ways.append(Step(plan[left].cost + plan[right].cost + here, left, right))
        plan[members] = min(ways)
    return plan


def parts_of(members: int) -> Iterable[int]:
    """The sets that hold the first member of a set and not all of it."""
    first = members & -members
    left = (members - 1) & members
    while left:
        if left & first:
            yield left
        left = (left - 1) & members


def kept(product: Product, members: int) -> str:
    """The labels that a product of these operands still has: those that the result or another operand needs."""
    inside = [own for i, (_, own) in enumerate(product.operands) if members >> i & 1]
    outside = [own for i, (_, own) in enumerate(product.operands) if not members >> i & 1]
    if len(inside) == 1:
        return inside[0]
    needed = set(product.out).union(*outside)
    return "".join(dict.fromkeys(label for own in inside for label in own if label in needed))


def built(node: Node, product: Product, plan: dict[int, Step], members: int) -> tuple[Value, str]:
    """The product of a set of operands, and its labels."""
    step = plan[members]
    if not step.left:
        return product.operands[members.bit_length() - 1]
    (x, a), (y, b) = [built(node, product, plan, side) for side in (step.left, step.right)]
    out = product.out if members == (1 << len(product.operands)) - 1 else kept(product, members)
    return make(node, "contract", x, y, spec=f"{a},{b}->{out}"), out
