"""Lowering: which values are stored, by which kernels, in which order, and where."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower import opaque
from wholestep.lower.access import Home, Readable
from wholestep.lower.clusters import Clustering, virtual
from wholestep.lower.clusters import opaque as opaque_node
from wholestep.lower.coordinates import Cluster
from wholestep.lower.expand import expanded
from wholestep.lower.indices import strides_of
from wholestep.lower.kinds import FOLDS, MAPS
from wholestep.lower.layouts import channels_last
from wholestep.lower.operands import arranged
from wholestep.lower.order import ordered
from wholestep.lower.plan import Place
from wholestep.lower.schedule import scheduled
from wholestep.lower.staging import staged
from wholestep.lower.storage import Storage, unshaped
from wholestep.lower.symbolic import blamed
from wholestep.lower.work import Context, Lowered, Work, home_of, kernel_work
from wholestep.lower.write import Writer
from wholestep.passes.optional import attempted
from wholestep.primitives.prices import LIMIT, price


class Lowering(Storage):
    """One graph with given places for its inputs and outputs; `works` is what is to be done, in no order yet."""

    def __init__(self, graph: Graph, context: Context, inputs: Sequence[Home], outputs: Sequence[Home]) -> None:
        graph, self.kept = rearranged(expanded(graph))
        super().__init__(graph, context, dict(zip(graph.inputs, inputs, strict=True)))
        self.works: list[Work] = []
        self.clustering = Clustering(self.graph, self.kept)
        self.stored: dict[Cluster, list[Value]] = {}
        self.late: list[Value] = []
        for node in self.graph.nodes:
            if node.op.name == "constant":
                value = np.ascontiguousarray(node.params["value"])
                self.homes[node.outputs[0]] = home_of(node.outputs[0], context.constant(value))
        for v, home in zip(self.graph.outputs, outputs, strict=True):
            if v.type.size:
                self.place_output(v, home)
        self.demand()
        self.write()
        self.pin()

    def nested(self, graph: Graph, inputs: Sequence[Home], outputs: Sequence[Home]) -> Lowered:
        return lowered(graph, self.context, inputs, outputs, Place(0))

    # What is stored.

    def place_output(self, v: Value, home: Home) -> None:
        """Store an output where it is wanted; what has a place already, or is only moved, is copied there."""
        if v in self.homes and home.place.memory() is self.homes[v].place.memory():
            return
        # Only in its own shape can a value be written with other steps than those of rows.
        base = unshaped(v) if home.strides == strides_of(v.shape) else v
        made_by = base.node
        if base in self.homes or made_by is None or virtual(made_by):
            copy = Node(OPS["identity"], (v,), {}, made_by.where if made_by else None)
            copy.outputs = (Value(v.type, copy, None),)
            base = copy.outputs[0]
        self.homes[base] = home if base.shape == v.shape else home_of(base, home.place)
        self.pending.append(base)

    def demand(self) -> None:
        """Find every value that must be stored, from what is wanted back to what that is read from."""
        for cluster in self.clustering.clusters:
            if cluster.kind == "opaque":
                opaque.demands(self, cluster.members[0])
        for _, index, _ in opaque.checked(self.graph):
            self.want_leaves(index)
        while self.pending:
            v = self.pending.pop()
            if v not in self.clustering.placed:
                self.clustering.alone(v)
                self.late.append(v)
            cluster = self.clustering.placed[v][0]
            self.stored.setdefault(cluster, []).append(v)
            if cluster.kind != "opaque":
                self.visit(v, cluster)

    def visit(self, v: Value, cluster: Cluster) -> None:
        """Walk through what a kernel reads for a value; store what it cannot make itself."""
        seen: set[Value] = set()
        stack = [(v, False)]
        while stack:
            x, operand = stack.pop()
            node = x.node
            if x in seen or node is None or (x in self.homes and x is not v):
                continue
            seen.add(x)
            if x is not v and not self.made_here(x, cluster, operand):
                self.want(x)
                continue
            operand = node.op.name == "contract" or (operand and virtual(node))
            stack.extend((y, operand) for y in node.inputs)

    def made_here(self, x: Value, cluster: Cluster, operand: bool) -> bool:
        """Whether a kernel makes a value itself: a member, something moved, or something cheap of what is stored."""
        assert x.node is not None
        if x in self.kept:
            return False
        if virtual(x.node):
            return True
        if operand:
            return False
        found = self.clustering.placed.get(x)
        if x in self.clustering.floating or (found is not None and found[0] is cluster):
            return True
        cost, base = self.foundation(x)
        return cost <= LIMIT and sum(v.type.nbytes for v in base) <= x.type.nbytes and x not in base

    def foundation(self, x: Value, limit: int = LIMIT) -> tuple[int, set[Value]]:
        """How many cheap operations make a value, more than the limit where too many, and what they need stored."""
        total, base, waiting = 0, set[Value](), [x]
        while waiting:
            y = waiting.pop()
            if y in self.homes or y.node is None:
                continue
            own = 0 if virtual(y.node) else price(y.node)
            if own > limit - total:
                base.add(y)
                continue
            total += own
            waiting += reversed(y.node.inputs)
        return total, base

    def pin(self) -> None:
        """Note the places of values that the user wants kept or made again, where they are stored at all."""
        for node in self.graph.nodes:
            if node.op.name == "pin" and (home := self.homes.get(unshaped(node.inputs[0]))):
                self.context.pinned[home.place] = node.params["label"]

    # Kernels.

    def write(self) -> None:
        """The work of every cluster that stores something."""
        self.works += opaque.check_works(self)
        position = {v: i for i, node in enumerate(self.graph.nodes) for v in node.outputs}
        for cluster in self.clustering.clusters:
            values = sorted(self.stored.get(cluster, ()), key=lambda v: position.get(v, len(position)))
            if not values:
                continue
            first = cluster.members[0] if cluster.members else values[0].node
            assert first is not None, "what is stored is made by something"
            with blamed(first):
                if cluster.kind == "opaque":
                    self.works += opaque.works(self, first)
                else:
                    self.works.append(self.kernel(cluster, values))

    def kernel(self, cluster: Cluster, values: Sequence[Value]) -> Work:
        """The kernel of a cluster that stores these values."""
        targets = {v: self.homes[v] for v in values}
        # What was stored later for others, and waits for this kernel, is read through here.
        waiting = [v for v in self.late if self.clustering.path(self.clustering.placed[v][0], cluster)]
        readable = Readable(self.homes, {self.homes[v].place for v in (*targets, *waiting)})

        def write(grid: Sequence[int] | None, rows: Sequence[int] | None) -> Writer:
            return Writer(self.clustering, cluster, readable, targets, self.context.machine, grid, rows)

        return kernel_work(scheduled(write, self.context.machine))


def rearranged(graph: Graph) -> tuple[Graph, set[Value]]:
    """The graph with its reductions, layouts and operands as kernels do best with; the values stored for that."""
    for name, change in (("staging", staged), ("layouts", channels_last)):
        graph = attempted(name, change, graph, graph)
    nothing: set[Value] = set()
    graph, copies = attempted("operands", arranged, graph, (graph, nothing))
    return graph, copies | far(graph)


MOVES = 32
"""Through so many moves a value is read where it was made: each is a level of a recursion."""


def far(graph: Graph) -> set[Value]:
    """The values at the end of so many moves, with what is done element by element between them; they are stored."""
    moves: dict[Value, int] = {}
    found: set[Value] = set()
    for node in graph.nodes:
        moved = node.op.name in MAPS
        if moved or not (node.op.name == "contract" or node.op.name in FOLDS or opaque_node(node)):
            count = max([moves.get(v, 0) for v in node.inputs], default=0) + moved
            if moved and count >= MOVES:
                found.add(node.outputs[0])
            elif count:
                moves[node.outputs[0]] = count
    return found


def lowered(graph: Graph, context: Context, inputs: Sequence[Home], outputs: Sequence[Home], arena: Place) -> Lowered:
    """What a graph has to do, in order, with temporary values that will lie in `arena`."""
    # All that they lie in: where the graph around this one takes a detour, a place in between becomes the outermost. A
    # result's own place becomes a temporary one where this graph takes one.
    given = [home.place for home in inputs] + [home.place.base or home.place for home in outputs]
    outside = frozenset([p for place in given for p in place.around()])
    works = ordered(Lowering(graph, context, inputs, outputs).works, outside)
    beside_files(works, outside)
    return Lowered(tuple(works), arena, outside)


def beside_files(works: Sequence[Work], outside: Collection[Place]) -> None:
    """What a kernel makes of a whole value in a file, and is no smaller, has no room in memory either."""
    for work in works:
        whole = [p.nbytes for p in work.reads if p.root().file and p.root().nbytes == p.nbytes]
        if work.written is None or not whole:
            continue
        for root in [p.root() for p in work.writes if p.nbytes >= max(whole)]:
            root.file = root.file or (root.ref is None and root not in outside)
