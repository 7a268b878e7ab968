"""Operands: contractions rewritten so that every operand is read evenly: labels merged, awkward operands copied.

contract(x, w, "aXY,YZ->aXZ")   ->  reshape(contract(reshape(x), w, "pY,YZ->pZ"))
contract(g, w, "ik,jk->ij")     ->  contract(g, copy(permute(w)), "ik,kj->ij")
"""

from __future__ import annotations

import math

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import Axis, Index, Var
from wholestep.lower.indices import flat, memory_strides, strides_of
from wholestep.lower.kinds import MAPS
from wholestep.lower.rewriting import Rewriting
from wholestep.primitives.contraction import parts

WIDE = 4
"""An axis shorter than this is not worth a vector along it."""


class Arranged(Rewriting):
    """A graph with its contractions arranged; `copies` are the values that must be stored for it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.copies: set[Value] = set()
        for node in graph.nodes:
            inputs = [self.env.get(v, v) for v in node.inputs]
            if node.op.name == "contract" and all(v.type.size for v in (*inputs, *node.outputs)):
                self.env[node.outputs[0]] = self.contraction(node, *inputs)
            else:
                self.keep(node, inputs)
        self.finish([self.env.get(v, v) for v in graph.outputs])

    def contraction(self, node: Node, x: Value, y: Value) -> Value:
        """The contraction with merged labels and even operands, back in its own shape."""
        a, b, out = parts(node.params["spec"])
        sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
        self.affine(x)
        self.affine(y)
        x, a, sizes = self.without_ones(node, x, a, sizes)
        y, b, sizes = self.without_ones(node, y, b, sizes)
        out = "".join([c for c in out if sizes[c] != 1])
        groups = merged(a, b, out) if self.whole(x) and self.whole(y) else [c for c in dict.fromkeys(a + b)]
        names = {group: group[0] for group in groups if len(group) > 1}
        for group, name in names.items():
            sizes[name] = math.prod([sizes[c] for c in group])
            a, b, out = (s.replace(group, name) for s in (a, b, out))
        x, y = self.shaped(node, x, a, sizes), self.shaped(node, y, b, sizes)
        lane = out[-1] if out and sizes[out[-1]] >= WIDE else None
        x, a = self.downhill(node, x, a)
        x, a = self.even(node, x, a, lane, a)
        y, b = self.even(node, y, b, lane, a)
        found = self.add(node.op, (x, y), {"spec": f"{a},{b}->{out}"}, node)[0]
        shape = node.outputs[0].shape
        return found if found.shape == shape else self.add(OPS["reshape"], (found,), {"shape": shape}, node)[0]

    def without_ones(
        self, node: Node, x: Value, labels: str, sizes: dict[str, int]
    ) -> tuple[Value, str, dict[str, int]]:
        """An operand without its axes of size 1."""
        if all(sizes[c] != 1 for c in labels):
            return x, labels, sizes
        kept = "".join([c for c in labels if sizes[c] != 1])
        return self.shaped(node, x, kept, sizes), kept, sizes

    def shaped(self, node: Node, x: Value, labels: str, sizes: dict[str, int]) -> Value:
        """An operand in the shape of its labels."""
        shape = tuple([sizes[c] for c in labels])
        return x if shape == x.shape else self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]

    def affine(self, x: Value) -> None:
        """Copy what a reshape of an operand cannot merge, so that its steps are constant."""
        inner = x
        while self.strides(x) is None and inner.node is not None and inner.node.op.name in MAPS:
            shaping = inner.node.op.name == "reshape"
            inner = inner.node.inputs[0]
            if shaping and self.strides(inner) is not None:
                self.copies.add(inner)

    def downhill(self, node: Node, x: Value, labels: str) -> tuple[Value, str]:
        """A moved operand with its axes in the order in which they lie in memory, the widest step first."""
        steps = self.strides(x)
        if steps is None or self.whole(x):
            return x, labels
        axes = tuple(sorted(range(len(labels)), key=lambda i: -abs(steps[i])))
        if axes == tuple(range(len(labels))):
            return x, labels
        return self.add(OPS["permute"], (x,), {"axes": axes}, node)[0], "".join([labels[i] for i in axes])

    def even(self, node: Node, x: Value, labels: str, lane: str | None, first: str) -> tuple[Value, str]:
        """An operand whose elements are a constant step apart along each label, a step of one along the lane label."""
        steps = self.strides(x)
        if steps is not None and (lane is None or lane not in labels or steps[labels.index(lane)] in (0, 1)):
            return x, labels
        order = labels
        if lane is not None and lane in labels:
            summed = sorted([c for c in labels if c in first and c != lane], key=first.index)
            order = "".join([c for c in labels if c not in summed and c != lane]) + "".join(summed) + lane
        if order != labels:
            axes = tuple([labels.index(c) for c in order])
            x = self.add(OPS["permute"], (x,), {"axes": axes}, node)[0]
        if not self.moved(x):
            return x, order
        self.copies.add(x)
        return x, order

    def moved(self, x: Value) -> bool:
        """Whether a value is read through movement."""
        return x not in self.copies and x.node is not None and x.node.op.name in MAPS

    def whole(self, x: Value) -> bool:
        """Whether an operand is stored as it is, but for its shape."""
        return not self.moved(self.unshaped(x))

    def unshaped(self, x: Value) -> Value:
        """The value that an operand is a reshape of."""
        while self.moved(x) and x.node is not None and x.node.op.name == "reshape":
            x = x.node.inputs[0]
        return x

    def strides(self, v: Value) -> tuple[int, ...] | None:
        """How far apart the elements of a value lie along each axis, where it is read through movement of something
        stored; None where that is no constant."""
        builder = Builder("strides")
        axes = [Axis(f"i{k}", n) for k, n in enumerate(v.shape)]
        builder.depths.update({a: 0 for a in axes})
        with builder:
            at = tuple([Index(0, {a: 1}) for a in axes])
            while self.moved(v) and not self.whole(v):
                assert v.node is not None
                at = MAPS[v.node.op.name](builder, v.node, at)
                v = v.node.inputs[0]
            line = flat(at, strides_of(v.shape) if v.node is None else memory_strides(v.shape))
        if any(isinstance(k, Var) for k in line.terms):
            return None
        return tuple([line.coefficient(a) for a in axes])


def merged(a: str, b: str, out: str) -> list[str]:
    """Runs of labels that stand together, in one order, wherever they stand."""
    groups: list[str] = []
    for c in dict.fromkeys(a + b):
        last = groups[-1] if groups else ""
        if last and all((last + c in s) or (last[-1] not in s and c not in s) for s in (a, b, out)):
            groups[-1] = last + c
        else:
            groups.append(c)
    return groups


def arranged(graph: Graph) -> tuple[Graph, set[Value]]:
    """The same program with its contractions arranged, and the values that must be stored for it."""
    found = Arranged(graph)
    return found.graph, found.copies
