"""Contraction operands: merge adjacent labels and copy awkward operands, so that every operand has constant strides.

contract(x, w, "aXY,YZ->aXZ")   ->  reshape(contract(reshape(x), w, "pY,YZ->pZ"))
contract(g, w, "ik,jk->ij")     ->  contract(g, copy(permute(w)), "ik,kj->ij")
"""

from __future__ import annotations

import math

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import linear_index, row_major_strides, temporary_strides
from wholestep.kernel.lang import Axis, Index, Var
from wholestep.lower.target import Target
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import GraphRewriter
from wholestep.primitives.contraction import LETTERS, parts
from wholestep.primitives.movement import Reshape


class ContractionRewriter(GraphRewriter):
    """A graph with its contractions rewritten; `copies` are the values to materialize for it."""

    def __init__(self, graph: Graph, target: Target) -> None:
        super().__init__(graph)
        self.target, self.limits = target, target.operands
        self.copies: set[Value] = set()
        for node in graph.nodes:
            inputs = [self.env.get(v, v) for v in node.inputs]
            if node.op.kind == "contraction" and all(v.type.size for v in (*inputs, *node.outputs)):
                self.env[node.outputs[0]] = self.contraction(node, *inputs)
            else:
                self.keep(node, inputs)
        self.finish()

    def contraction(self, node: Node, x: Value, y: Value) -> Value:
        """The contraction with merged labels and strided operands, reshaped back."""
        a, b, out = parts(node.params["spec"])
        sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
        self.affine(x)
        self.affine(y)
        x, a = self.without_ones(node, x, a, sizes)
        y, b = self.without_ones(node, y, b, sizes)
        out = "".join([c for c in out if sizes[c] != 1])
        groups = merge_labels(a, b, out) if self.whole(x) and self.whole(y) else [c for c in dict.fromkeys(a + b)]
        names = {group: group[0] for group in groups if len(group) > 1}
        for group, name in names.items():
            sizes[name] = math.prod([sizes[c] for c in group])
            a, b, out = (s.replace(group, name) for s in (a, b, out))
        x, y = self.shaped(node, x, a, sizes), self.shaped(node, y, b, sizes)
        lane = out[-1] if out and sizes[out[-1]] >= self.limits.lane else None
        x, a = self.downhill(node, x, a)
        width = 0 if lane is None or lane in a else self.panel_width(node, y, b, out, sizes)
        if lane is not None and width:
            panel, column = [c for c in LETTERS if c not in sizes][:2]
            sizes |= {panel: sizes[lane] // width, column: width}
            b, out = [s.replace(lane, panel + column) for s in (b, out)]
            y, lane = self.shaped(node, y, b, sizes), column
        packed = self.packed(node, a, b, out, sizes)
        x, a = self.even(node, x, a, lane, a, self.turns(x, a, out, sizes, packed))
        y, b = self.even(node, y, b, lane, a, self.turns(y, b, out, sizes, packed))
        found = self.add(node.op, (x, y), {"spec": f"{a},{b}->{out}"}, node)[0]
        shape = node.outputs[0].shape
        return found if found.shape == shape else self.add(OPS["reshape"], (found,), {"shape": shape}, node)[0]

    def without_ones(self, node: Node, x: Value, labels: str, sizes: dict[str, int]) -> tuple[Value, str]:
        """An operand without its axes of size 1."""
        kept = "".join([c for c in labels if sizes[c] != 1])
        return self.shaped(node, x, kept, sizes), kept

    def shaped(self, node: Node, x: Value, labels: str, sizes: dict[str, int]) -> Value:
        """An operand reshaped to the sizes of its labels."""
        shape = tuple([sizes[c] for c in labels])
        return x if shape == x.shape else self.add(OPS["reshape"], (x,), {"shape": shape}, node)[0]

    def affine(self, x: Value) -> None:
        """Copy the source of an operand's reshape if the reshape has no constant strides."""
        inner = x
        while self.strides(x) is None and inner.node is not None and inner.node.op.view:
            shaping = isinstance(inner.node.op, Reshape)
            inner = inner.node.inputs[0]
            if shaping and self.strides(inner) is not None:
                self.copies.add(inner)

    def downhill(self, node: Node, x: Value, labels: str) -> tuple[Value, str]:
        """A moved operand with its axes in memory order, the largest stride first."""
        steps = self.strides(x)
        if steps is None or self.whole(x):
            return x, labels
        order = "".join([labels[i] for i in sorted(range(len(labels)), key=lambda i: -abs(steps[i]))])
        return self.permuted(node, x, labels, order), order

    def permuted(self, node: Node, x: Value, labels: str, order: str) -> Value:
        """An operand with its labels in another order."""
        axes = tuple([labels.index(c) for c in order])
        return x if order == labels else self.add(OPS["permute"], (x,), {"axes": axes}, node)[0]

    def panel_width(self, node: Node, y: Value, labels: str, out: str, sizes: dict[str, int]) -> int:
        """The columns of the panels in which an operand lies once it is copied, as kernels of convolutions do,
        so that blocks of the contraction need no packing; 0 where it is not copied, or has one panel."""
        lane, steps, dtype = out[-1], self.strides(y), node.outputs[0].dtype
        summed = [c for c in labels if c not in out]
        width = self.target.panel_columns(dtype.itemsize)
        if len(summed) < 2 or len(labels) != len(summed) + 1 or lane not in labels or not width:
            return 0
        if not isinstance(sizes[lane], int) or sizes[lane] % width or sizes[lane] == width:
            return 0
        if steps and steps[labels.index(lane)] in (0, 1):
            return 0
        rows, terms = [math.prod([sizes[c] for c in own]) for own in (out[:-1], summed)]
        return width if self.target.packs_operands(rows, sizes[lane], terms, dtype) else 0

    def packed(self, node: Node, a: str, b: str, out: str, sizes: dict[str, int]) -> bool:
        """True if the target packs the operands of a contraction, so that their memory order is irrelevant."""
        summed = [c for c in a if c in b and c not in out]
        if len(summed) != 1 or not out or any(c not in out for c in a + b if c not in summed):
            return False
        own, other = (a, b) if out[-1] in a else (b, a)
        if out[-1] in other:
            return False
        columns = math.prod([sizes[c] for c in out if c in own and c not in other])
        rows = math.prod([sizes[c] for c in out if c not in own])
        batched = any(c in own and c in other for c in out)
        return self.target.packs_operands(rows, columns, sizes[summed[0]], node.outputs[0].dtype, batched)

    def turns(self, x: Value, labels: str, out: str, sizes: dict[str, int], packed: bool) -> bool:
        """True if an operand whose terms are contiguous is read in place: kernels transpose squares of it in registers,
        while packing it or for few rows."""
        steps = self.strides(x)
        rows = math.prod([sizes[c] for c in out if c not in labels])
        if steps is None or (rows > self.limits.rows and not packed):
            return False
        return any(
            n == 1 and c not in out and sizes[c] >= self.limits.terms for c, n in zip(labels, steps, strict=True)
        )

    def even(
        self, node: Node, x: Value, labels: str, lane: str | None, first: str, turns: bool = False
    ) -> tuple[Value, str]:
        """An operand with a constant stride along each label, and unit stride along the lane unless it `turns`."""
        steps = self.strides(x)
        if steps is not None and (lane is None or lane not in labels or turns or steps[labels.index(lane)] in (0, 1)):
            return x, labels
        order = labels
        if lane is not None and lane in labels:
            summed = sorted([c for c in labels if c in first and c != lane], key=first.index)
            order = "".join([c for c in labels if c not in summed and c != lane]) + "".join(summed) + lane
        x = self.permuted(node, x, labels, order)
        if self.moved(x):
            self.copies.add(x)
        return x, order

    def moved(self, x: Value) -> bool:
        """True if a value is read through movement."""
        return x not in self.copies and x.node is not None and x.node.op.view

    def whole(self, x: Value) -> bool:
        """True if an operand is stored as it is, up to its shape."""
        while self.moved(x) and x.node is not None and isinstance(x.node.op, Reshape):
            x = x.node.inputs[0]
        return not self.moved(x)

    def strides(self, v: Value) -> tuple[int, ...] | None:
        """The strides of a value that is read through movement of a stored one; None if they are not constant."""
        builder = KernelBuilder("strides")
        axes = [Axis(f"i{k}", n) for k, n in enumerate(v.shape)]
        builder.depths.update({a: 0 for a in axes})
        with builder:
            at = tuple([Index(0, {a: 1}) for a in axes])
            while self.moved(v) and not self.whole(v):
                assert v.node is not None
                at = v.node.op.index_map(builder, v.node, at)
                v = v.node.inputs[0]
            line = linear_index(at, row_major_strides(v.shape) if v.node is None else temporary_strides(v.shape))
        if any(isinstance(k, Var) for k in line.terms):
            return None
        return tuple([line.coefficient(a) for a in axes])


def merge_labels(a: str, b: str, out: str) -> list[str]:
    """Groups of labels that are adjacent, in the same order, wherever they occur."""
    groups: list[str] = []
    for c in dict.fromkeys(a + b):
        last = groups[-1] if groups else ""
        if last and all((last + c in s) or (last[-1] not in s and c not in s) for s in (a, b, out)):
            groups[-1] = last + c
        else:
            groups.append(c)
    return groups


def arrange_contractions(graph: Graph, target: Target) -> tuple[Graph, set[Value]]:
    """Merge labels of contractions, and read operands with constant strides; also the values to materialize for that.

    c = contract(x, w, spec="aXY,YZ->aXZ")
    -->
    r = reshape(x); t = contract(r, w, spec="pY,YZ->pZ"); c = reshape(t)
    """
    found = ContractionRewriter(graph, target)
    return found.graph, found.copies


CONTRACTION_OPERANDS = Pass("contraction_operands", arrange_contractions)
