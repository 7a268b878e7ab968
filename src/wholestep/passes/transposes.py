"""Transposes cost nothing where a contraction reads or writes them: its labels say the order of axes already."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.labels import Labelled, labelled
from wholestep.passes.places import inverse, ones_apart, permuted, reshaped
from wholestep.passes.rewrite import Uses, count_uses, made_by, make, repeated, rewrite, same
from wholestep.primitives.family import number_of

Rule = Callable[[Node, Uses], Value | None]


def transposes(graph: Graph) -> Graph:
    """Absorb permutations and repetitions into the labels of contractions, and move the others towards one.

        t = permute(w, axes=(1, 0)); y = contract(x, t, spec="ij,jk->ik")
        -->
        y = contract(x, w, spec="ij,kj->ik")

        b = broadcast(x, shape=(5, 2, 3), axes=(1, 2)); y = contract(b, w, spec="bij,bjk->bik")
        -->
        y = contract(x, w, spec="ij,bjk->bik")

    Equal up to rounding: the same products are added, in another order.
    """
    return repeated(_once, graph)


def _once(graph: Graph) -> Graph:
    uses = count_uses(graph)
    return rewrite(graph, lambda node: transposed(node, uses), uses)


def transposed(node: Node, uses: Uses) -> Value | None:
    rule = RULES.get(node.op.name)
    if rule is not None:
        return rule(node, uses)
    return elementwise_of_permuted(node) if node.op.kind == "elementwise" and node.inputs else None


# What a contraction reads


def contract_of_moved(node: Node, uses: Uses) -> Value | None:
    """A contraction that reads through movements reads what they move."""
    for i, v in enumerate(node.inputs):
        name = v.node.op.name if v.node is not None else ""
        if name in OPERANDS:
            found = OPERANDS[name](labelled(node), i, v.node)
            if found is not None:
                return found
    return None


def reads_permuted(c: Labelled, i: int, permute: Any) -> Value | None:
    back = inverse(permute.params["axes"])
    return c.with_operand(i, permute.inputs[0], "".join([c.labels[i][a] for a in back])).value()


def reads_broadcast(c: Labelled, i: int, broadcast: Any) -> Value | None:
    """A repeated operand lacks the labels along which it is repeated."""
    axes, own = broadcast.params["axes"], c.labels[i]
    return c.with_operand(i, broadcast.inputs[0], "".join([own[a] for a in axes])).settled()


def reads_number(c: Labelled, i: int, full: Any) -> Value | None:
    """One number everywhere has no axes."""
    if not c.labels[i]:
        return None
    number = make(c.node, "full", value=full.params["value"], shape=(), dtype=full.params["dtype"])
    return c.with_operand(i, number, "").settled()


def reads_reshaped(c: Labelled, i: int, reshape: Any) -> Value | None:
    """Axes of size 1 that a reshape put in need no label; axes that it merged after a permutation have one each."""
    x, shape = reshape.inputs[0], reshape.outputs[0].shape
    if ones_apart(x.shape, shape):
        if len(x.shape) >= len(shape) or 1 in x.shape:
            return None
        return c.without_ones(i, x)
    if made_by(x, "permute") is None or 0 in x.shape:
        return None
    groups = merged_axes(x.shape, shape)
    other = c.operands[1 - i]
    if groups is None or (other.node is not None and other.node.op.name in SCATTERED):
        return None
    return c.split({c.labels[i][a]: sizes for a, sizes in enumerate(groups) if len(sizes) > 1})


SCATTERED = frozenset({"permute", "broadcast", "window", "slice", "flip"})
"""What makes views that do not lie in memory row by row, so that another shape of one is a copy."""

OPERANDS: dict[str, Callable[[Labelled, int, Any], Value | None]] = {
    "permute": reads_permuted,
    "broadcast": reads_broadcast,
    "full": reads_number,
    "reshape": reads_reshaped,
}


def merged_axes(shape: Sequence[Any], merged: Sequence[Any]) -> list[tuple[Any, ...]] | None:
    """The neighbours in `shape` that each size of `merged` is the product of, or None where an axis is cut or is 1."""
    rest, groups = list(shape), []
    if 1 in rest:
        return None
    for size in merged:
        group: list[Any] = []
        while rest and math.prod(group) < size:
            group.append(rest.pop(0))
        if math.prod(group) != size or not group:
            return None
        groups.append(tuple(group))
    return None if rest else groups


# What is done to what a contraction writes


def permute_of(node: Node, uses: Uses) -> Value | None:
    """A permutation of what is read nowhere else is the order in which a contraction writes it."""
    x, axes = node.inputs[0], node.params["axes"]
    if not absorbs(x, uses):
        return None
    assert x.node is not None
    if x.node.op.name == "contract":
        c = labelled(x.node)
        return c.writing("".join([c.out[a] for a in axes])).value()
    if x.node.op.name == "reshape":
        return permute_of_ones(node, x.node.inputs[0])
    if x.node.op.name == "concat":
        parts = [permuted(node, v, axes) for v in x.node.inputs]
        return make(node, "concat", *parts, axis=axes.index(x.node.params["axis"]))
    if x.node.op.name == "pad":
        params = {k: tuple([v[a] for a in axes]) for k, v in x.node.params.items()}
        return make(node, "pad", permuted(node, x.node.inputs[0], axes), **params)
    return same(x.node, *[permuted(node, v, axes) for v in x.node.inputs])


def absorbs(x: Value, uses: Uses) -> bool:
    """Whether a permutation of this value would vanish in the contraction behind it."""
    waiting = [x]
    while waiting:
        v = waiting.pop()
        behind = turned_with(v) if uses.get(v, 1) == 1 else None
        if behind is None:
            return False
        waiting += behind
    return True


def turned_with(x: Value) -> Sequence[Value] | None:
    """The values that a permutation of this one would move on to; None where it would stay."""
    if x.node is None:
        return None
    name, inputs = x.node.op.name, x.node.inputs
    if name == "contract":
        return ()
    if name == "reshape":
        return inputs if ones_apart(inputs[0].shape, x.shape) else None
    if name in ("concat", "pad"):
        return inputs
    if x.node.op.kind != "elementwise":
        return None
    return [v for v in inputs if number_of(v) is None and made_by(v, "broadcast") is None] or None


def permute_of_ones(node: Node, x: Value) -> Value:
    """A permutation of x with axes of size 1 put in or left out: that of its other axes, and its own of size 1 last."""
    shape, axes = node.inputs[0].shape, node.params["axes"]
    own = [a for a in range(x.ndim) if x.shape[a] != 1]
    places = [i for i, n in enumerate(shape) if n != 1]
    order = [own[places.index(a)] for a in axes if shape[a] != 1]
    ones = [a for a in range(x.ndim) if x.shape[a] == 1]
    return reshaped(node, permuted(node, x, (*order, *ones)), node.outputs[0].shape)


# Permutations move behind what does not care, where they may meet a contraction or each other


def elementwise_of_permuted(node: Node) -> Value | None:
    """f(permute(x), permute(y), number, broadcast(z)) as the permutation of f(x, y, number, broadcast(z))."""
    orders = {p.params["axes"] for v in node.inputs if (p := made_by(v, "permute"))}
    if len(orders) != 1:
        return None
    (axes,) = orders
    back = inverse(axes)
    if not all(made_by(v, "permute") or number_of(v) is not None or turns_freely(v, back) for v in node.inputs):
        return None
    return permuted(node, same(node, *[permuted(node, v, back) for v in node.inputs]), axes)


def turns_freely(v: Value, axes: tuple[int, ...]) -> bool:
    """Whether a permutation of a broadcast leaves what is repeated as it is."""
    repeated = made_by(v, "broadcast")
    if repeated is None:
        return False
    places = [axes.index(a) for a in repeated.params["axes"]]
    return places == sorted(places)


def reduction_of_permuted(node: Node, uses: Uses) -> Value | None:
    permute = made_by(node.inputs[0], "permute")
    if permute is None:
        return None
    axes, order = node.params["axes"], permute.params["axes"]
    reduced = sorted([order[a] for a in axes])
    made = make(node, node.op.name, permute.inputs[0], axes=tuple(reduced))
    kept = [a for a in range(len(order)) if a not in reduced]
    return permuted(node, made, tuple([kept.index(a) for i, a in enumerate(order) if i not in axes]))


def along_axes_of_permuted(node: Node, uses: Uses) -> Value | None:
    """A slice or a pad, whose parameters are one for each axis."""
    permute = made_by(node.inputs[0], "permute")
    if permute is None:
        return None
    axes = permute.params["axes"]
    params = {k: tuple([v[a] for a in inverse(axes)]) for k, v in node.params.items()}
    return permuted(node, make(node, node.op.name, permute.inputs[0], **params), axes)


def flip_of_permuted(node: Node, uses: Uses) -> Value | None:
    permute = made_by(node.inputs[0], "permute")
    if permute is None:
        return None
    axes = permute.params["axes"]
    flipped = make(node, "flip", permute.inputs[0], axes=tuple(sorted([axes[a] for a in node.params["axes"]])))
    return permuted(node, flipped, axes)


def concat_of_permuted(node: Node, uses: Uses) -> Value | None:
    permutes = [made_by(v, "permute") for v in node.inputs]
    orders = {p.params["axes"] if p else None for p in permutes}
    (axes,) = orders if len(orders) == 1 else (None,)
    if axes is None:
        return None
    parts = [p.inputs[0] for p in permutes if p]
    return permuted(node, make(node, "concat", *parts, axis=axes[node.params["axis"]]), axes)


def reshape_of_permuted(node: Node, uses: Uses) -> Value | None:
    """Axes of size 1 come and go before the permutation, at the end."""
    permute, shape = made_by(node.inputs[0], "permute"), node.outputs[0].shape
    if permute is None or not ones_apart(node.inputs[0].shape, shape):
        return None
    x = permute.inputs[0]
    there = [a for a in range(x.ndim) if x.shape[a] != 1]
    order = [there.index(a) for a in permute.params["axes"] if x.shape[a] != 1]
    ones = iter(range(len(there), len(shape)))
    rest = iter(order)
    axes = tuple([next(ones) if n == 1 else next(rest) for n in shape])
    plain = reshaped(node, x, (*[x.shape[a] for a in there], *[1] * (len(shape) - len(there))))
    if order == sorted(order):
        return reshaped(node, plain, shape)
    return permuted(node, plain, axes)


RULES: dict[str, Rule] = {
    "contract": contract_of_moved,
    "permute": permute_of,
    "sum": reduction_of_permuted,
    "max": reduction_of_permuted,
    "min": reduction_of_permuted,
    "any": reduction_of_permuted,
    "all": reduction_of_permuted,
    "slice": along_axes_of_permuted,
    "pad": along_axes_of_permuted,
    "flip": flip_of_permuted,
    "concat": concat_of_permuted,
    "reshape": reshape_of_permuted,
}
