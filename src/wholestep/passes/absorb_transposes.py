"""Transposes absorbed by contractions, whose labels give the order of axes at no cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import Uses, at_roots, defining_node, new_value, on_inputs, to_fixpoint
from wholestep.passes.rules.einsum_labels import Contraction, parse_contraction
from wholestep.passes.rules.movement import equal_but_ones, inverse_permutation, permute_value, reshape_value
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import Concat, Pad, Reshape, reshape_groups

Rule = Callable[[Node, Uses], Value | None]


def absorb_transposes(graph: Graph) -> Graph:
    """Absorb permutes and broadcasts into the labels of contractions, and move the other permutes towards one.

        t = permute(w, axes=(1, 0)); y = contract(x, t, spec="ij,jk->ik")
        -->
        y = contract(x, w, spec="ij,kj->ik")

        b = broadcast(x, shape=(5, 2, 3), axes=(1, 2)); y = contract(b, w, spec="bij,bjk->bik")
        -->
        y = contract(x, w, spec="ij,bjk->bik")

    Equal up to rounding: the same products are added, in another order.
    """
    return to_fixpoint(graph, lambda uses: at_roots({}, lambda node: _absorb_at(node, uses)))


def _absorb_at(node: Node, uses: Uses) -> Value | None:
    if node.op.kind == "elementwise":
        return elementwise_of_permuted(node) if node.inputs else None
    return TRANSPOSE_RULES.get(node.op.name, moved_behind)(node, uses)


# Operands of contractions


def contract_of_moved(node: Node, uses: Uses) -> Value | None:
    """A contraction of a moved operand as a contraction of the operand itself."""
    for i, v in enumerate(node.inputs):
        moved = defining_node(v, *OPERAND_RULES)
        if moved is not None:
            found = OPERAND_RULES[moved.op.name](parse_contraction(node), i, moved)
            if found is not None:
                return found
    return None


def reads_permuted(c: Contraction, i: int, permute: Any) -> Value | None:
    back = inverse_permutation(permute.params["axes"])
    return c.with_operand(i, permute.inputs[0], "".join([c.labels[i][a] for a in back])).value()


def reads_broadcast(c: Contraction, i: int, broadcast: Any) -> Value | None:
    """A contraction of a broadcast without the labels that are broadcast."""
    axes, own = broadcast.params["axes"], c.labels[i]
    return c.with_operand(i, broadcast.inputs[0], "".join([own[a] for a in axes])).settled()


def reads_number(c: Contraction, i: int, full: Any) -> Value | None:
    """A contraction of one number everywhere as one with a scalar."""
    if not c.labels[i]:
        return None
    number = new_value(c.node, "full", value=full.params["value"], shape=(), dtype=full.params["dtype"])
    return c.with_operand(i, number, "").settled()


def reads_reshaped(c: Contraction, i: int, reshape: Any) -> Value | None:
    """A contraction of a reshape: inserted axes of size 1 lose their label, merged permuted axes get one each."""
    x, shape = reshape.inputs[0], reshape.outputs[0].shape
    if equal_but_ones(x.shape, shape):
        if len(x.shape) >= len(shape) or 1 in x.shape:
            return None
        return c.without_ones(i, x)
    if defining_node(x, "permute") is None or 0 in x.shape:
        return None
    groups = merged_axes(x.shape, shape)
    other = c.operands[1 - i].node
    if groups is None or (other is not None and other.op.view and not other.op.keeps_order):
        return None  # a view that does not lie in memory row by row is copied for another shape
    return c.split({c.labels[i][a]: sizes for a, sizes in enumerate(groups) if len(sizes) > 1})


OPERAND_RULES: dict[str, Callable[[Contraction, int, Any], Value | None]] = {
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
        while rest and math.prod(group) != size:
            group.append(rest.pop(0))
        if math.prod(group) != size or not group:
            return None
        groups.append(tuple(group))
    return None if rest else groups


# Results of contractions


def permute_of_produced(node: Node, uses: Uses) -> Value | None:
    """A permute of a value with one use, moved up to the contraction that writes it."""
    x, axes = node.inputs[0], node.params["axes"]
    if not absorbs_permutation(x, uses):
        return None
    assert x.node is not None
    if x.node.op.kind == "contraction":
        c = parse_contraction(x.node)
        return c.with_output("".join([c.out[a] for a in axes])).value()
    if isinstance(x.node.op, Reshape):
        before = x.node.inputs[0]
        return (permute_of_ones if equal_but_ones(before.shape, x.shape) else permute_of_merged)(node, before)
    found = x.node.op.permuted(x.node.params, inverse_permutation(axes))
    params = x.node.params if found is None else found[0]
    return new_value(node, x.node.op.name, *[permute_value(node, v, axes) for v in x.node.inputs], **params)


def absorbs_permutation(x: Value, uses: Uses) -> bool:
    """Test whether a permute of this value would be absorbed by the contractions that it moves up to."""
    waiting = [x]
    while waiting:
        v = waiting.pop()
        behind = permuted_with(v) if uses.get(v, 1) == 1 else None
        if behind is None:
            return False
        waiting += behind
    return True


def permuted_with(x: Value) -> Sequence[Value] | None:
    """The values that a permute of this one would move up to; None where it would stay."""
    if x.node is None:
        return None
    op, inputs = x.node.op, x.node.inputs
    if op.kind == "contraction":
        return ()
    if isinstance(op, Reshape):
        old = inputs[0].shape
        return inputs if equal_but_ones(old, x.shape) or merged_axes(old, x.shape) is not None else None
    if isinstance(op, Concat | Pad):
        return inputs
    if op.kind != "elementwise":
        return None
    return [v for v in inputs if number_of(v) is None and defining_node(v, "broadcast") is None] or None


def permute_of_ones(node: Node, x: Value) -> Value:
    """A permute of x with axes of size 1 inserted or removed, as a reshape of a permute of x."""
    shape, axes = node.inputs[0].shape, node.params["axes"]
    own = [a for a in range(x.ndim) if x.shape[a] != 1]
    places = [i for i, n in enumerate(shape) if n != 1]
    order = [own[places.index(a)] for a in axes if shape[a] != 1]
    ones = [a for a in range(x.ndim) if x.shape[a] == 1]
    return reshape_value(node, permute_value(node, x, (*order, *ones)), node.outputs[0].shape)


def permute_of_merged(node: Node, x: Value) -> Value:
    """A permute of x with adjacent axes merged, as a reshape of a permute of x."""
    groups, axes = merged_axes(x.shape, node.inputs[0].shape), iter(range(x.ndim))
    assert groups is not None
    runs = [[next(axes) for _ in group] for group in groups]
    order = [a for i in node.params["axes"] for a in runs[i]]
    return reshape_value(node, permute_value(node, x, tuple(order)), node.outputs[0].shape)


# Permutes sink below operations that do not depend on the order of axes


def elementwise_of_permuted(node: Node) -> Value | None:
    """f(permute(x), permute(y), number, broadcast(z)) as the permutation of f(x, y, number, broadcast(z))."""
    orders = {p.params["axes"] for v in node.inputs if (p := defining_node(v, "permute"))}
    if len(orders) != 1:
        return None
    (axes,) = orders
    back = inverse_permutation(axes)
    if not all(defining_node(v, "permute") or number_of(v) is not None or keeps_order(v, back) for v in node.inputs):
        return None
    return permute_value(node, on_inputs(node, *[permute_value(node, v, back) for v in node.inputs]), axes)


def keeps_order(v: Value, axes: tuple[int, ...]) -> bool:
    """Test whether a permute of a broadcast keeps the order of its operand's axes."""
    repeated = defining_node(v, "broadcast")
    if repeated is None:
        return False
    places = [axes.index(a) for a in repeated.params["axes"]]
    return places == sorted(places)


def moved_behind(node: Node, uses: Uses) -> Value | None:
    """An operation of permuted operands as the permutation of its result, by the rule that the primitive states."""
    permutes = [defining_node(v, "permute") for v in node.inputs]
    orders = {p.params["axes"] if p else None for p in permutes}
    (axes,) = orders if len(orders) == 1 else (None,)
    found = None if axes is None else node.op.permuted(node.params, axes)
    if found is None:
        return None
    made = new_value(node, node.op.name, *[p.inputs[0] for p in permutes if p], **found[0])
    return permute_value(node, made, found[1])


def reshape_of_permuted(node: Node, uses: Uses) -> Value | None:
    """A reshape that splits axes of a permute, or inserts or removes axes of size 1, as the permute of a reshape."""
    permute, shape = defining_node(node.inputs[0], "permute"), node.outputs[0].shape
    if permute is None:
        return None
    x = permute.inputs[0]
    if not equal_but_ones(node.inputs[0].shape, shape):
        runs = reshape_groups(node.inputs[0].shape, shape) or []
        groups = [tuple([shape[j] for j in target]) for source, target in runs if len(source) == 1]
        return permute_of_split(node, x, permute.params["axes"], groups) if len(groups) == x.ndim else None
    there = [a for a in range(x.ndim) if x.shape[a] != 1]
    order = [there.index(a) for a in permute.params["axes"] if x.shape[a] != 1]
    ones = iter(range(len(there), len(shape)))
    rest = iter(order)
    axes = tuple([next(ones) if n == 1 else next(rest) for n in shape])
    plain = reshape_value(node, x, (*[x.shape[a] for a in there], *[1] * (len(shape) - len(there))))
    if order == sorted(order):
        return reshape_value(node, plain, shape)
    return permute_value(node, plain, axes)


def permute_of_split(node: Node, x: Value, axes: tuple[int, ...], groups: Sequence[tuple[Any, ...]]) -> Value:
    """The permute of x with split axes; `groups` are the sizes of each axis of its permute."""
    own = [groups[i] for i in inverse_permutation(axes)]
    first = [sum(map(len, own[:a])) for a in range(x.ndim)]
    order = [first[a] + i for a in axes for i in range(len(own[a]))]
    return permute_value(node, reshape_value(node, x, tuple([n for group in own for n in group])), tuple(order))


TRANSPOSE_RULES: dict[str, Rule] = {
    "contract": contract_of_moved,
    "permute": permute_of_produced,
    "reshape": reshape_of_permuted,
}
"""The rules of single primitives; the others are elementwise or state how they are permuted."""
