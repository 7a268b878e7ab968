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
from wholestep.primitives.movement import Broadcast, Permute, Reshape, reshape_groups

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


def convolutions_channels_last(graph: Graph) -> Graph:
    """Lay the results of convolutions out channels last, and what is done to them in the same order of axes.

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
        for node in graph.nodes:
            rule = LayoutPropagation.pointwise if node.op.kind == "elementwise" else LAYOUT_RULES.of(node.op)
            if rule is None or not rule(self, node):
                self.keep(node, [self.plain(v) for v in node.inputs])
        self.finish([self.plain(v) for v in graph.outputs])

    def plain(self, v: Value) -> Value:
        """A value in program layout."""
        if v in self.laid:
            base, axes = self.laid[v]
            self.env[v] = self.permuted(base, axes)
            del self.laid[v]
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

    def enter(self, node: Node, base: Value, axes: AxisOrder) -> bool:
        """Record that a node's result is a permutation of another value."""
        if axes == tuple(range(len(axes))):
            self.env[node.outputs[0]] = base
        else:
            self.laid[node.outputs[0]] = PermutedValue(base, axes)
        return True

    # Rules: each rewrites a node whose operands may be permuted, or returns False.

    def contraction(self, node: Node) -> bool:
        a, b, out = parts(node.params["spec"])
        x, y = node.inputs
        if reads_window(x) == reads_window(y):
            lane = None
        else:
            other, seen = (b, a) if reads_window(x) else (a, b)
            own = [c for c in out if c in other and c not in seen]
            lane = max(own, key=lambda c: node.outputs[0].shape[out.index(c)], default=None)
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
        return self.enter(node, found, tuple([made.index(c) for c in out]))

    def pointwise(self, node: Node) -> bool:
        known = [self.laid[v] for v in node.inputs if v in self.laid]
        if not known:
            return False
        like = max(known, key=lambda laid: len(laid.axes))
        inputs = [self.turned(v, like) for v in node.inputs]
        return self.enter(node, self.add(node.op, inputs, node.params, node)[0], like.axes)

    def permute(self, node: Node) -> bool:
        if node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
        return self.enter(node, base, tuple([axes[a] for a in node.params["axes"]]))

    def broadcast(self, node: Node) -> bool:
        if node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
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
        return self.enter(
            node, self.add(node.op, (base,), params, node)[0], tuple([places[a] for a in range(len(shape))])
        )

    def reshape(self, node: Node) -> bool:
        """A reshape keeps the layout if it only splits and merges axes that stay adjacent."""
        if node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
        found = reshape_groups(node.inputs[0].shape, node.params["shape"])
        if found is None:
            return False
        blocks = sorted(found, key=lambda run: min([axes[a] for a in run[0]], default=-1))
        for source, _ in found:
            places = [axes[a] for a in source]
            if places != list(range(places[0], places[0] + len(places))) if places else False:
                return False
        order = [a for _, target in blocks for a in target]
        shape = tuple([node.params["shape"][a] for a in order])
        made = self.add(node.op, (base,), {"shape": shape}, node)[0]
        return self.enter(node, made, tuple([order.index(a) for a in range(len(order))]))

    def commuted(self, node: Node) -> bool:
        """An operation on one operand, by the rule that the primitive states for a permuted one."""
        if len(node.inputs) != 1 or node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
        found = node.op.permuted(node.params, axes)
        if found is None:
            return False
        return self.enter(node, self.add(node.op, (base,), found[0], node)[0], found[1])


LAYOUT_RULES: ClassTable[Callable[[LayoutPropagation, Node], bool]] = ClassTable(
    {
        Contract: LayoutPropagation.contraction,
        Permute: LayoutPropagation.permute,
        Broadcast: LayoutPropagation.broadcast,
        Reshape: LayoutPropagation.reshape,
        Primitive: LayoutPropagation.commuted,
    }
)
"""What a permutation moves on through, besides what is elementwise."""


CHANNELS_LAST = Pass("channels_last", convolutions_channels_last)
