"""Channels last: images between convolutions keep the order of axes in which a library computes them fastest.

y = contract(window(x), w, spec="nchwij,ocij->nohw"); z = maximum(y, 0)
-->
y = contract(window(x), w, spec="nchwij,ocij->nhwo"); z = permute(maximum(y, 0), axes=(0, 3, 1, 2))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wholestep.export.convolutions import ConvolvedProduct, convolution_of
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.absorb_transposes import reads_permuted
from wholestep.passes.rewrite import at_roots, map_nested_graphs, new_value, on_inputs, rewrite
from wholestep.passes.rules.einsum_labels import parse_contraction
from wholestep.passes.rules.movement import inverse_permutation, permute_value

Ints = tuple[int, ...]


def channels_last(graph: Graph, holds: Callable[[ConvolvedProduct], bool]) -> Graph:
    """The graph and its nested graphs, with channels last in the results of convolutions that a target has.

    The permutes that restore the order of axes sink below operations that do not depend on it, and mostly cancel.
    """
    inside = map_nested_graphs(graph, lambda inner: channels_last(inner, holds))
    return rewrite(inside, ChannelsLast(holds).rules)


class ChannelsLast:
    """The rules of the rewrite; `moved` are its own permutes, since the program's permutes stay in place."""

    def __init__(self, holds: Callable[[ConvolvedProduct], bool]) -> None:
        self.holds = holds
        self.moved: set[Value] = set()
        own = {"contract": self.contraction, "reshape": self.reshape, "broadcast": self.broadcast}
        self.rules = at_roots(own, self.other)

    def permuted(self, node: Node, x: Value, axes: Ints) -> Value:
        """x in the order of axes that the program has, to be moved on."""
        found = permute_value(node, x, axes)
        if found.node is not None and found.node.op.name == "permute":
            self.moved.add(found)
        return found

    def order(self, v: Value) -> Ints:
        """The axis of a moved permute's result for each axis of its operand."""
        assert v.node is not None
        return inverse_permutation(v.node.params["axes"])

    def contraction(self, node: Node) -> Value | None:
        """A product with a moved operand, its axes relabeled instead, and a convolution with its channels last."""
        for i, v in enumerate(node.inputs):
            if v in self.moved:
                return reads_permuted(parse_contraction(node), i, v.node)
        convolutions = (convolution_of(node, padded) for padded in (True, False))
        c = next((each for each in convolutions if each is not None and self.holds(each)), None)
        if c is None or c.of_kernel or not c.is_plain:
            return None
        letters = "".join((*c.rows, *c.places, *c.features))
        if letters == c.out:
            return None
        made = parse_contraction(node).with_output(letters).value()
        return self.permuted(node, made, tuple([letters.index(q) for q in c.out]))

    def other(self, node: Node) -> Value | None:
        """An elementwise operation in the order of its first moved operand, or one that states how it is permuted."""
        v = next((v for v in node.inputs if v in self.moved), None)
        if v is None or v.node is None or node.op.multiple:
            return None
        if node.op.kind == "elementwise":
            order = self.order(v)
            made = on_inputs(node, *[permute_value(node, x, order) for x in node.inputs])
            return self.permuted(node, made, inverse_permutation(order))
        found = node.op.permuted(node.params, v.node.params["axes"]) if len(node.inputs) == 1 else None
        if found is None:
            return None
        return self.permuted(node, new_value(node, node.op.name, v.node.inputs[0], **found[0]), found[1])

    def reshape(self, node: Node) -> Value | None:
        """Axes that are cut, or neighbours that are joined, where these are neighbours in the other order, too."""
        (v,), shape = node.inputs, node.outputs[0].shape
        blocks = blocks_of_axes(v.shape, shape) if v in self.moved else None
        return None if blocks is None else self.rearranged(node, blocks, "reshape")

    def broadcast(self, node: Node) -> Value | None:
        """Move a permute below a broadcast: new axes stay behind the axes that they follow."""
        (v,), axes, ndim = node.inputs, node.params["axes"], node.outputs[0].ndim
        if v not in self.moved:
            return None
        starts = [0, *axes[1:], ndim] if axes else []
        blocks = [((i,), tuple(range(starts[i], starts[i + 1]))) for i in range(len(axes))]
        return self.rearranged(node, blocks, "broadcast")

    def rearranged(self, node: Node, blocks: Sequence[tuple[Ints, Ints]], name: str) -> Value | None:
        """The operation on the moved operand, whose axes change by blocks; None if the permute separates a block."""
        v, out = node.inputs[0], node.outputs[0]
        order = self.order(v)
        assert v.node is not None
        first = {before[0]: (before, after) for before, after in blocks}
        wanted: list[int] = []
        places = iter(order)
        for a in places:
            before, after = first.get(a, ((), ()))
            if not before or any(next(places, None) != b for b in before[1:]):
                return None
            wanted += after
        shape = tuple([out.shape[a] for a in wanted])
        params = {"shape": shape}
        if name == "broadcast":
            params["axes"] = tuple([wanted.index(node.params["axes"][a]) for a in order])
        made = new_value(node, name, v.node.inputs[0], **params)
        return self.permuted(node, made, inverse_permutation(tuple(wanted)))


def blocks_of_axes(shape: Sequence[int], other: Sequence[int]) -> list[tuple[Ints, Ints]] | None:
    """The least blocks of neighbouring axes of two shapes that hold as many elements; None where sizes are symbolic,
    or none.

    >>> blocks_of_axes((4, 6, 5), (4, 2, 3, 5))
    [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    """
    if not all(isinstance(n, int) and n > 0 for n in (*shape, *other)):
        return None
    blocks: list[tuple[Ints, Ints]] = []
    i = j = 0
    while i < len(shape):
        a, b = [i], [j] if j < len(other) else []
        i, j = i + 1, j + 1
        while (left := math.prod(shape[k] for k in a)) != (right := math.prod(other[k] for k in b)):
            if left < right:
                a.append(i)
                i += 1
            else:
                b.append(j)
                j += 1
        while i < len(shape) and shape[i] == 1:
            a.append(i)
            i += 1
        while j < len(other) and other[j] == 1:
            b.append(j)
            j += 1
        blocks.append((tuple(a), tuple(b)))
    return blocks if j >= len(other) else None
