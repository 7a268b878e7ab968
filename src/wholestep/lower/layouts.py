"""Layouts: where there are convolutions, channels lie last in memory, and what follows them keeps that order.

    contract(window(x), w, "nchwij,ocij->nohw")  ->  permute(contract(window(x), w, "nchwij,ocij->nhwo"), ...)

A permutation moves on through everything that does not mind it, until a contraction takes it up or an output asks
for the order of the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower.kinds import FOLDS, MAPS
from wholestep.lower.rewriting import Rewriting
from wholestep.primitives.contraction import parts

Order = tuple[int, ...]


class Laid(NamedTuple):
    """A value as another one with its axes permuted: `v = permute(base, axes)`."""

    base: Value
    axes: Order

    @property
    def inverse(self) -> Order:
        """For each axis of the base, which axis of the value it is."""
        return tuple([self.axes.index(i) for i in range(len(self.axes))])


def windowed(x: Value) -> bool:
    """Whether an operand is read through a sliding window."""
    while x.node is not None and x.node.op.name in MAPS:
        if x.node.op.name == "window":
            return True
        x = x.node.inputs[0]
    return False


def channels_last(graph: Graph) -> Graph:
    """The same program with the results of convolutions laid out channels last."""
    if not any(n.op.name == "contract" and any(map(windowed, n.inputs)) for n in graph.nodes):
        return graph
    return Layouts(graph).graph


class Layouts(Rewriting):
    """One walk over a graph; `laid` says which values are another one permuted."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.laid: dict[Value, Laid] = {}
        for node in graph.nodes:
            rule = RULES.get(node.op.name, Layouts.pointwise if node.op.kind == "elementwise" else None)
            if rule is None or not rule(self, node):
                self.keep(node, [self.plain(v) for v in node.inputs])
        self.finish([self.plain(v) for v in graph.outputs])

    def plain(self, v: Value) -> Value:
        """A value in the order of the program."""
        if v in self.laid:
            base, axes = self.laid[v]
            self.env[v] = self.permuted(base, axes)
            del self.laid[v]
        return self.env.get(v, v)

    def permuted(self, v: Value, axes: Order) -> Value:
        return v if axes == tuple(range(v.ndim)) else self.add(OPS["permute"], (v,), {"axes": axes})[0]

    def turned(self, v: Value, like: Laid) -> Value:
        """A value in the order of another's base."""
        if v in self.laid and self.laid[v].axes == like.axes:
            return self.laid[v].base
        node = v.node
        shape = tuple([v.shape[a] for a in like.inverse])
        if node is not None and v not in self.laid and node.op.name == "full":
            return self.add(node.op, (), {**node.params, "shape": shape})[0]
        if node is not None and v not in self.laid and node.op.name == "broadcast":
            source, axes = node.inputs[0], node.params["axes"]
            places = [like.axes[a] for a in axes]
            order = tuple(sorted(range(len(places)), key=lambda i: places[i]))
            moved = self.permuted(self.plain(source), order)
            return self.add(node.op, (moved,), {"shape": shape, "axes": tuple(sorted(places))})[0]
        return self.permuted(self.plain(v), like.inverse)

    def enter(self, node: Node, base: Value, axes: Order) -> bool:
        """Note that a node's result is another value permuted."""
        if axes == tuple(range(len(axes))):
            self.env[node.outputs[0]] = base
        else:
            self.laid[node.outputs[0]] = Laid(base, axes)
        return True

    # Rules: each rewrites a node whose operands may be laid out, or says that it cannot.

    def contraction(self, node: Node) -> bool:
        a, b, out = parts(node.params["spec"])
        x, y = node.inputs
        if windowed(x) == windowed(y):
            lane = None
        else:
            other, seen = (b, a) if windowed(x) else (a, b)
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

    def reduction(self, node: Node) -> bool:
        if node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
        gone = sorted(axes[a] for a in node.params["axes"])
        left = [i for i in range(base.ndim) if i not in gone]
        found = self.add(node.op, (base,), {**node.params, "axes": tuple(gone)}, node)[0]
        kept = [axes[a] for a in range(base.ndim) if a not in node.params["axes"]]
        return self.enter(node, found, tuple([left.index(a) for a in kept]))

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
        """Where the reshape splits and merges only runs that lie together, they stay together."""
        if node.inputs[0] not in self.laid:
            return False
        base, axes = self.laid[node.inputs[0]]
        found = runs(node.inputs[0].shape, node.params["shape"])
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

    def by_axis(self, node: Node) -> bool:
        """Operations with one parameter for each axis."""
        if node.inputs[0] not in self.laid or len(node.inputs) != 1:
            return False
        base, axes = self.laid[node.inputs[0]]
        inverse = self.laid[node.inputs[0]].inverse
        params: dict[str, Any] = {k: tuple([value[a] for a in inverse]) for k, value in node.params.items()}
        return self.enter(node, self.add(node.op, (base,), params, node)[0], axes)


def runs(source: Sequence[int], shape: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """A reshape as runs of axes with equal products; None where a run is empty on one side, or nothing has elements."""
    if 0 in source:
        return None
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(shape):
        left, right = [i] if i < len(source) else [], [j] if j < len(shape) else []
        if not left or not right:
            return None
        i, j = i + 1, j + 1
        while math.prod([source[a] for a in left]) != math.prod([shape[a] for a in right]):
            if math.prod([source[a] for a in left]) < math.prod([shape[a] for a in right]):
                left, i = [*left, i], i + 1
            else:
                right, j = [*right, j], j + 1
        out.append((left, right))
    return out


RULES: dict[str, Callable[[Layouts, Node], bool]] = {
    "contract": Layouts.contraction,
    "permute": Layouts.permute,
    "broadcast": Layouts.broadcast,
    "reshape": Layouts.reshape,
    "slice": Layouts.by_axis,
    "pad": Layouts.by_axis,
    **{name: Layouts.reduction for name in FOLDS},
}
"""What a permutation moves on through, besides what is elementwise."""
