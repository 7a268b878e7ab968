"""Layout propagation: convolutions produce channels-last results, and the operations after them keep that layout.

    contract(window(x), w, "nchwij,ocij->nohw")  ->  permute(contract(window(x), w, "nchwij,ocij->nhwo"), ...)

A permutation moves through all operations that have a rule for it, until a contraction absorbs it or an output needs
the layout of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import GraphRewriter
from wholestep.primitives.class_table import ClassTable
from wholestep.primitives.contraction import Contract, Window, parts
from wholestep.primitives.family import Primitive, number_of
from wholestep.primitives.movement import Broadcast, Concat, Pad, Permute, Reshape, reshape_groups

AxisOrder = tuple[int, ...]


class PermutedValue(NamedTuple):
    """A value as a permutation of another one: `v = permute(base, axes)`."""

    base: Value
    axes: AxisOrder

    @property
    def inverse(self) -> AxisOrder:
        """For each axis of the base the axis of the value."""
        return tuple([self.axes.index(i) for i in range(len(self.axes))])


def reads_window(x: Value) -> bool:
    """True if an operand is read through a sliding window."""
    while x.node is not None and x.node.op.view:
        if isinstance(x.node.op, Window):
            return True
        x = x.node.inputs[0]
    return False


def place_axes(graph: Graph) -> dict[Value, set[int]]:
    """The axes of tokens that windows read as images: those that a reshape splits into axes along which windows slide.

    They are known of the values that are reshaped, and of those from which these are moved or computed element by
    element.
    """
    slid: dict[Value, set[int]] = {}
    places: dict[Value, set[int]] = {}
    for node in reversed(graph.nodes):
        out, x = node.outputs[0], node.inputs[0] if node.inputs else None
        if x is None:
            continue
        if isinstance(node.op, Window):
            slid.setdefault(x, set()).update(range(x.ndim - len(node.params["size"]), x.ndim))
        elif isinstance(node.op, Reshape):
            for source, target in reshape_groups(x.shape, node.params["shape"]) or ():
                if len(source) == 1 and len(slid.get(out, set()).intersection(target)) > 1:
                    places.setdefault(x, set()).update(source)
        elif isinstance(node.op, Pad | Permute) or node.op.kind == "elementwise":
            order = node.params["axes"] if isinstance(node.op, Permute) else range(out.ndim)
            for known in (slid, places):
                for v in node.inputs if out in known else ():
                    known.setdefault(v, set()).update([order[i] for i in known[out]])
    return places


def convolutions_channels_last(graph: Graph) -> Graph:
    """Lay out the results of convolutions channels last, and the operations on them in the same order of axes.

    c = contract(window(x), w, spec="nchwij,ocij->nohw")
    -->
    t = contract(window(x), w, spec="nchwij,ocij->nhwo"); c = permute(t, axes=(0, 3, 1, 2))
    """
    if not any(n.op.kind == "contraction" and any(map(reads_window, n.inputs)) for n in graph.nodes):
        return graph
    return LayoutPropagation(graph).graph


class LayoutPropagation(GraphRewriter):
    """One walk over a graph; `laid` holds the values that are a permutation of another one."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.laid: dict[Value, PermutedValue] = {}
        self.places = place_axes(graph)
        for node in graph.nodes:
            found = self.rewritten(node)
            if found is None:
                self.keep(node, [self.plain(v) for v in node.inputs])
            elif found.axes == tuple(range(len(found.axes))):
                self.env[node.outputs[0]] = found.base
            else:
                self.laid[node.outputs[0]] = found
        self.finish([self.plain(v) for v in graph.outputs])

    def plain(self, v: Value) -> Value:
        """A value in program layout."""
        if v in self.laid and v not in self.env:
            self.env[v] = self.permuted(*self.laid[v])
        return self.env.get(v, v)

    def permuted(self, v: Value, axes: AxisOrder) -> Value:
        return v if axes == tuple(range(v.ndim)) else self.add(OPS["permute"], (v,), {"axes": axes})[0]

    def turned(self, v: Value, like: PermutedValue) -> Value:
        """A value in the layout of another's base."""
        if v in self.laid and self.laid[v].axes == like.axes:
            return self.laid[v].base
        node = v.node
        shape = tuple([v.shape[a] for a in like.inverse])
        if node is not None and v not in self.laid and number_of(v) is not None:
            return self.add(node.op, (), {**node.params, "shape": shape})[0]
        if node is not None and v not in self.laid and isinstance(node.op, Broadcast):
            source, axes = node.inputs[0], node.params["axes"]
            places = [like.axes[a] for a in axes]
            order = tuple(sorted(range(len(places)), key=lambda i: places[i]))
            moved = self.permuted(self.plain(source), order)
            return self.add(node.op, (moved,), {"shape": shape, "axes": tuple(sorted(places))})[0]
        return self.permuted(self.plain(v), like.inverse)

    def rewritten(self, node: Node) -> PermutedValue | None:
        """A node's result as a permutation of a new value; None where its operands go back to the program's layout."""
        if node.op.kind == "elementwise":
            return self.pointwise(node)
        if isinstance(node.op, Contract):
            return self.contraction(node)
        if isinstance(node.op, Concat):
            return self.concatenation(node)
        rule = LAYOUT_RULES.of(node.op)
        known = self.laid.get(node.inputs[0]) if node.inputs else None
        return None if known is None or rule is None else rule(self, node, *known)

    def lies_permuted(self, v: Value) -> bool:
        """True if an operand is read, through movement, from a value that lies in another order than the program's."""
        while v not in self.laid and v.node is not None and v.node.op.view:
            found = self.env.get(v, v).node
            if found is not None and isinstance(found.op, Permute):
                return True
            v = v.node.inputs[0]
        stored = self.env.get(v, v).node
        return v in self.laid or (stored is not None and isinstance(stored.op, Permute))

    def last_label(self, node: Node) -> str | None:
        """The label that lies last in the result of a contraction; None where the result stays as it is."""
        a, b, out = parts(node.params["spec"])
        sizes = dict(zip(out, node.outputs[0].shape, strict=True))
        places = {out[i] for i in self.places.get(node.outputs[0], ())}
        tokens = next((labels for labels in (a, b) if places and places.issubset(labels)), None)
        if tokens is not None:
            return max([c for c in out if c not in tokens], key=sizes.__getitem__, default=None)
        x, y = node.inputs
        if reads_window(x) == reads_window(y):
            return None
        other, seen = (b, a) if reads_window(x) else (a, b)
        own = [c for c in out if c in other and c not in seen and sizes[c] != 1]
        # A depthwise convolution shares its channels with the other operand: they stay last where they are.
        if not own and self.lies_permuted(x if reads_window(x) else y):
            own = [c for c in out if c in other]
        return max(own, key=sizes.__getitem__, default=None)

    def contraction(self, node: Node) -> PermutedValue:
        a, b, out = parts(node.params["spec"])
        (x, y), lane = node.inputs, self.last_label(node)
        names = []
        for v, labels in ((x, a), (y, b)):
            if v in self.laid:
                base, axes = self.laid[v]
                names.append((base, "".join([labels[axes.index(i)] for i in range(len(axes))])))
            else:
                names.append((self.env.get(v, v), labels))
        made = out if lane is None else out.replace(lane, "") + lane
        (p, a), (q, b) = names
        found = self.add(node.op, (p, q), {"spec": f"{a},{b}->{made}"}, node)[0]
        return PermutedValue(found, tuple([made.index(c) for c in out]))

    def pointwise(self, node: Node) -> PermutedValue | None:
        known = [self.laid[v] for v in node.inputs if v in self.laid]
        if not known:
            return None
        like = max(known, key=lambda laid: len(laid.axes))
        inputs = [self.turned(v, like) for v in node.inputs]
        return PermutedValue(self.add(node.op, inputs, node.params, node)[0], like.axes)

    def concatenation(self, node: Node) -> PermutedValue | None:
        """Parts one after the other, all in the layout of the largest that has one."""
        known = [v for v in node.inputs if v in self.laid]
        if not known:
            return None
        like = self.laid[max(known, key=lambda v: v.type.size)]
        parts = [self.turned(v, like) for v in node.inputs]
        params, axes = node.op.permuted(node.params, like.axes)
        return PermutedValue(self.add(node.op, parts, params, node)[0], axes)

    # Rules for an operand that is a permutation: the new value, and the result as a permutation of it.

    def permute(self, node: Node, base: Value, axes: AxisOrder) -> PermutedValue:
        return PermutedValue(base, tuple([axes[a] for a in node.params["axes"]]))

    def broadcast(self, node: Node, base: Value, axes: AxisOrder) -> PermutedValue:
        shape, given = node.params["shape"], node.params["axes"]
        order = [given[axes.index(i)] for i in range(base.ndim)]
        for a in range(len(shape)):
            if a not in given:
                order.insert(order.index(a - 1) + 1 if a else 0, a)
        places = {a: i for i, a in enumerate(order)}
        params = {
            "shape": tuple([shape[a] for a in order]),
            "axes": tuple([places[given[axes.index(i)]] for i in range(base.ndim)]),
        }
        made = self.add(node.op, (base,), params, node)[0]
        return PermutedValue(made, tuple([places[a] for a in range(len(shape))]))

    def reshape(self, node: Node, base: Value, axes: AxisOrder) -> PermutedValue | None:
        """A reshape keeps the layout if it only splits and merges axes that stay adjacent."""
        found = reshape_groups(node.inputs[0].shape, node.params["shape"])
        if found is None:
            return None
        blocks = sorted(found, key=lambda run: min([axes[a] for a in run[0]], default=-1))
        for source, _ in found:
            places = [axes[a] for a in source]
            if places and places != list(range(places[0], places[0] + len(places))):
                return None
        order = [a for _, target in blocks for a in target]
        shape = tuple([node.params["shape"][a] for a in order])
        made = self.add(node.op, (base,), {"shape": shape}, node)[0]
        return PermutedValue(made, tuple([order.index(a) for a in range(len(order))]))

    def commuted(self, node: Node, base: Value, axes: AxisOrder) -> PermutedValue | None:
        """An operation on one operand, by the rule that the primitive states for a permuted one."""
        found = node.op.permuted(node.params, axes) if len(node.inputs) == 1 else None
        return None if found is None else PermutedValue(self.add(node.op, (base,), found[0], node)[0], found[1])


LAYOUT_RULES: ClassTable[Callable[[LayoutPropagation, Node, Value, AxisOrder], PermutedValue | None]] = ClassTable(
    {
        Permute: LayoutPropagation.permute,
        Broadcast: LayoutPropagation.broadcast,
        Reshape: LayoutPropagation.reshape,
        Primitive: LayoutPropagation.commuted,
    }
)
"""The operations that a permutation moves through, besides contractions and elementwise ones."""


CHANNELS_LAST = Pass("channels_last", convolutions_channels_last)
