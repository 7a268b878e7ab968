"""Sparse rows: the update of a table that gathers read a few rows of becomes an update of those rows, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.ir.analysis import reordered, slimmed
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.named_pass import Pass
from wholestep.passes.rules.arithmetic import is_positive_zero
from wholestep.passes.sparse_rows.backgrounds import Computed, Same
from wholestep.passes.sparse_rows.rewriter import Findings, RowRewriter, RowWrite, is_large_scatter
from wholestep.passes.sparse_rows.row_sets import GatherGradient, RowSet, RowwiseValue
from wholestep.primitives.loops import Scan
from wholestep.primitives.structure import Cond


class RowUpdates(NamedTuple):
    """A graph with updates of rows, a note on the update of each large table, and the inputs with such rows."""

    graph: Graph
    notes: tuple[str, ...] = ()
    written: frozenset[int] = frozenset()


def sparse_rows(graph: Graph) -> RowUpdates:
    """Update the rows of a table that were gathered, alone where no other row would change.

        g = scatter_add(full(0, shape=(1000000, 16)), u, ids); new = sub(table, mul(broadcast(lr), g))
        -->
        rows, order = sort(ids); s = u summed over equal ids; old = gather(table, rows)
        new = scatter(table, sub(old, mul(broadcast(lr), s)), rows)

    A value is followed row by row as long as its other rows are one number or those of an input: 0 * lr is 0, p - 0 is
    p, and select(False, new, old) is old. Elementwise operations, norms, tests and branches are computed on the rows.
    Where every row changes, as by the moments of Adam, all are updated with a gradient of 0, and the gathered ones are
    written over it. Gradients that an operation needs whole stay as they are. Sums over rows are in another order.
    """
    if not any(map(is_large_scatter, [node for part in graph.family() for node in part.nodes])):
        return RowUpdates(graph)
    names = dict(zip(graph.inputs, graph.input_names or [""] * len(graph.inputs), strict=True))
    found = Findings()
    while True:
        found = Findings(found.refused, reasons=found.reasons)
        walk = SparseRows(graph, found, names, {})
        walk.run()
        made = walk.finish()
        nodes = [node for part in made.family() for node in part.nodes]
        whole = {found.mirrors[node] for node in nodes if node in found.mirrors}
        if not whole:
            writes = [found.writes[node] for node in nodes if node in found.writes]
            leads = {write.set.lead for write in writes}
            written = [i for i, v in enumerate(graph.inputs) if any(v.shape[: len(lead)] == lead for lead in leads)]
            return RowUpdates(made if writes else graph, notes(found, writes), frozenset(written))
        found.refused |= whole


def notes(found: Findings, writes: Sequence[RowWrite]) -> tuple[str, ...]:
    """A line for each table."""
    said: dict[str, str] = {}
    for source, name in found.names.items():
        own = [write for write in writes if source in write.set.sources]
        why = found.reasons.get(source, "its gradient is needed whole")
        if own and all([write.alone for write in own]):
            said[name] = f"{name}: {own[0].set.slots:,} of {own[0].set.rows:,} rows are updated"
        elif own or source in found.refused or source in found.reasons:
            rows = f", {own[0].set.slots:,} by a gradient" if own else ""
            said[name] = f"{name}: every row is updated{rows}, since {why}"
    return tuple(said.values())


class SparseRows(RowRewriter):
    """One graph with the graphs nested in it: branches get rows for whole operands, and loops stack them."""

    def nested(self, node: Node) -> bool:
        if isinstance(node.op, Cond):
            return self.cond(node)
        return isinstance(node.op, Scan) and self.scan(node)

    def cond(self, node: Node) -> bool:
        """Emit a conditional whose branches have the rows of their operands as inputs."""
        for v in node.inputs:
            self.settle(v)
        operands, branches = node.inputs[1:], node.params["branches"]
        lent = Lent(self, operands)
        graphs = [self.branch(branch, operands, lent) for branch in branches]
        if not lent.values and all(a is b for a, b in zip(graphs, branches, strict=True)):
            return False
        graphs, values = slimmed(graphs, [*[self.env.get(v, v) for v in operands], *lent.values])
        index = self.env.get(node.inputs[0], node.inputs[0])
        outputs = self.add(node.op, [index, *values], {"branches": tuple(graphs)}, node)
        self.env.update(zip(node.outputs, outputs, strict=True))
        return True

    def branch(self, graph: Graph, operands: Sequence[Value], lent: Lent) -> Graph:
        """A branch with the values of `lent` as additional inputs."""
        inputs = [Value(v.type, None, None) for v in lent.values]
        given = lent.rows(graph.inputs, inputs)
        names = {x: self.names[v] for x, v in zip(graph.inputs, operands, strict=True) if v in self.names}
        wide = Graph((*graph.inputs, *inputs), graph.nodes, graph.outputs, graph.name) if inputs else graph
        walk = SparseRows(wide, self.findings, names, given)
        walk.run()
        return walk.finish()

    def scan(self, node: Node) -> bool:
        """Emit a loop; gradients of gathers that it only accumulates are stacked instead, and summed after it."""
        graph, (c, k) = node.params["graph"], node.params["sizes"]
        known = [(x, v) for x, v in zip(graph.inputs[: c + k], node.inputs, strict=False) if v in self.names]
        walk = SparseRows(graph, self.findings, {x: self.names[v] for x, v in known}, {})
        walk.run()
        found = self.summed_carries(node, walk)
        if not found and walk.finish() is graph:
            return False
        stacked = [v for _, parts in found for part in parts for v in (part.updates, *part.indices)]
        kept = [i for i in range(len(graph.outputs)) if i not in [i for i, _ in found]]
        body = walk.finish([*[walk.env.get(graph.outputs[i], graph.outputs[i]) for i in kept], *stacked])
        places = [i for i in range(len(graph.inputs)) if i - c not in [i for i, _ in found]]
        body = reordered(body, places, range(len(body.outputs)))
        inputs = [self.env.get(node.inputs[i], node.inputs[i]) for i in places]
        outs = self.add(node.op, inputs, {**node.params, "graph": body, "sizes": (c, k - len(found))}, node)
        self.env.update((node.outputs[i], v) for i, v in zip(kept, outs, strict=False))
        self.enter_stacked(node, found, list(outs[len(kept) :]))
        return True

    def summed_carries(self, node: Node, walk: RowRewriter) -> list[tuple[int, tuple[GatherGradient, ...]]]:
        """The carries that begin with zeros, and to which a step adds gradients of gathers and nothing else."""
        graph, (c, k), length = node.params["graph"], node.params["sizes"], node.params["length"]
        found: list[tuple[int, tuple[GatherGradient, ...]]] = []
        for i, out in enumerate(graph.outputs[:k]):
            x, parts = walk.sums.get(out, (None, ()))
            if x is graph.inputs[c + i] and isinstance(length, int) and is_positive_zero(node.inputs[c + i]):
                lead = out.shape[: len(parts[0].indices)]
                if self.fits(parts[0].source, lead, length * sum([part.slots for part in parts])):
                    found.append((i, parts))
        return found

    def enter_stacked(
        self, node: Node, found: Sequence[tuple[int, tuple[GatherGradient, ...]]], rows: list[Value]
    ) -> None:
        """Enter the sums of the gradients that a loop has stacked, whole and by parts."""
        for i, parts in found:
            out = node.outputs[i]
            whole = self.full(0, out.shape, out.dtype)
            own: list[GatherGradient] = []
            for part in parts:
                updates, *indices = [rows.pop(0) for _ in range(1 + len(part.indices))]
                own.append(GatherGradient(part.source, updates, tuple(indices)))
                whole = self.op("scatter_add", whole, updates, *indices, axes=part.source.params["axes"])
                self.findings.mirrors[self.nodes[-1]] = part.source
            self.env[out], self.parts[out] = whole, tuple(own)


class Lent:
    """The additional inputs of branches: rows, their numbers, and the arrays that they belong to."""

    def __init__(self, walk: RowRewriter, operands: Sequence[Value]) -> None:
        self.operands, self.known = operands, walk.rows
        self.values: list[Value] = []
        for v in operands:
            if v in walk.rows:
                own, value, background = walk.rows[v]
                based = [background.value] if walk.is_input(background) else []
                for x in (value, own.ids, own.first, *based):
                    if x not in self.values:
                        self.values.append(x)

    def rows(self, inputs: Sequence[Value], lent: Sequence[Value]) -> dict[Value, RowwiseValue]:
        """The inputs of a branch that are known row by row, in terms of its own inputs."""
        own = dict(zip(self.values, lent, strict=True))
        sets: dict[RowSet, RowSet] = {}
        found: dict[Value, RowwiseValue] = {}
        for x, v in zip(inputs, self.operands, strict=False):
            if v not in self.known:
                continue
            given, value, background = self.known[v]
            if given not in sets:
                sets[given] = RowSet(given.lead, given.slots, own[given.ids], own[given.first], given.sources)
            if isinstance(background, Same | Computed):  # a computed one would be an array beside the operand
                background = Same(own[background.value]) if background.value in own else None
            found[x] = RowwiseValue(sets[given], own[value], background)
        return found


SPARSE_ROWS = Pass("sparse_rows", sparse_rows)
