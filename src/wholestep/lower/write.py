"""Writing: the kernel of a cluster, its loops around the code of the values that it stores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from wholestep.ir.analysis import in_order
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import Builder, Open
from wholestep.kernel.lang import Axis, Index, Kernel, Var
from wholestep.lower.access import Home, Readable, Reader, components, scalar, working
from wholestep.lower.clusters import Clustering
from wholestep.lower.coordinates import Cluster, Coords
from wholestep.lower.indices import At
from wholestep.lower.kinds import FOLDS
from wholestep.lower.plan import Place
from wholestep.lower.target import Machine


class Written(NamedTuple):
    """A kernel and the places of its buffers, in their order."""

    kernel: Kernel
    places: tuple[Place, ...]
    nodes: tuple[Node, ...] = ()
    """The operations that are in it."""


class Writer:
    """One cluster's kernel. `homes` are the values that it may read; `targets` says where its results go."""

    def __init__(
        self,
        clustering: Clustering,
        cluster: Cluster,
        homes: Readable,
        targets: dict[Value, Home],
        machine: Machine,
        grid: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        self.clustering = clustering
        self.cluster = cluster
        self.targets = targets
        self.axes = {a: Axis(f"i{k}", n) for k, (a, n) in enumerate(cluster.sizes.items())}
        self.rows = [a for a in rows or cluster.sizes if a in (cluster.rows or ()) and cluster.sizes[a] != 1]
        self.grid = [a for a in grid or cluster.grid if cluster.sizes[a] != 1]
        self.in_registers = self.fits(machine)
        row = tuple([self.axes[a] for a in self.rows]) if self.in_registers else ()
        self.builder = Builder(name_of(cluster))
        self.reader = Reader(self.builder, homes, row)

    def fits(self, machine: Machine) -> bool:
        """Whether a row is one vector, or a few, so that it stays in registers from its first read to its last."""
        if len(self.rows) != 1 or self.rows[0] != list(self.cluster.sizes)[-1]:
            return False
        reductions = [n for n in self.cluster.members if n in self.clustering.reduced]
        if not reductions or any(n.inputs[0].dtype.kind == "c" or n.op.name == "prod" for n in reductions):
            return False
        extent, axis = self.cluster.sizes[self.rows[0]], self.axes[self.rows[0]]
        lanes = machine.lanes(working(reductions[0].inputs[0].dtype))
        if axis.symbolic or not 0 < extent <= machine.row_vectors * lanes:
            return False
        axis.lanes = lanes
        axis.tile = -(-extent // lanes)
        return True

    def at(self, v: Value) -> At:
        """The coordinates of a member in this kernel's axes."""
        return self.place_of(self.clustering.current(self.clustering.placed[v][1]))

    def place_of(self, coords: Coords) -> At:
        """Coordinates as index expressions."""
        return tuple([self.line(c or ()) for c in coords])

    def line(self, axes: Sequence[int]) -> Index:
        index = Index()
        for a in axes:
            index = index * self.cluster.sizes[a]
            if self.cluster.sizes[a] != 1:
                index = index + Index(0, {self.axes[a]: 1})
        return index

    def written(self) -> Written:
        """The kernel."""
        with self.builder, ExitStack() as loops:
            for a in self.grid:
                loops.enter_context(self.builder.loop(self.axes[a]))
            if self.in_registers:
                loops.enter_context(self.builder.loop(self.axes[self.rows[0]]))
            if self.rows and not self.in_registers:
                self.passes()
            else:
                self.stores(list(self.targets))
        kernel = self.builder.kernel()
        used = tuple(self.needed(list(self.targets)))
        return Written(kernel, tuple([place for place, _ in self.reader.buffers]), used)

    def stores(self, values: Sequence[Value]) -> None:
        """Read the values at the point where the loops are, then write them."""
        self.warm(values)
        found = [(v, self.at(v), self.reader.read(v, self.at(v))) for v in values]
        for v, at, x in found:
            self.reader.store(v, self.targets[v], at, x)

    def warm(self, values: Sequence[Value]) -> None:
        """Read members in the order of the program first, so that reading goes no deeper than one operation."""
        needed = self.needed(values)
        for node in self.cluster.members:
            if node in needed and node not in self.clustering.reduced and node.outputs[0] not in self.reader.homes:
                self.reader.read(node.outputs[0], self.at(node.outputs[0]))

    def needed(self, values: Sequence[Value]) -> dict[Node, None]:
        """The members that values are made of, through what is not stored."""
        members = set(self.cluster.members)
        found: dict[Node, None] = {}
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            v = stack.pop()
            if v in seen or v in self.reader.homes or v.node is None:
                continue
            seen.add(v)
            if v.node in members:
                found[v.node] = None
            stack.extend(v.node.inputs)
        return found

    # Rows too long for registers: one loop over the row after another.

    def stages(self) -> dict[Node, int]:
        """For each needed member how many reductions over the row must be done before it can be read."""
        needed = self.needed(list(self.targets))
        out: dict[Node, int] = {}
        memo: dict[Value, int] = {}

        def read(v: Value) -> Sequence[Value]:
            return () if v in self.reader.homes or v.node is None else v.node.inputs

        def enter(v: Value) -> None:
            after = max([memo[x] for x in read(v)], default=0)
            reduces = v.node in needed and v.node in self.clustering.reduced
            memo[v] = after + (reduces and v not in self.reader.homes)

        def stage(v: Value) -> int:
            in_order(v, memo.__contains__, read, enter)
            return memo[v]

        for node in self.cluster.members:
            if node in needed:
                out[node] = stage(node.outputs[0])
        for v in self.targets:
            if v.node is not None:
                out.setdefault(v.node, stage(v))
        return out

    def passes(self) -> None:
        """Loops over the rows, each with the reductions and results that are due in it; then what is there per row."""
        stages = self.stages()
        level = {v: self.level(v) for v in self.targets}
        points = [v for v in self.targets if level[v] == "point"]
        for stage in range(max(stages.values(), default=0) + 1):
            folds = [n for n, s in stages.items() if n in self.clustering.reduced and s == stage + 1]
            due = [v for v in points if v.node is not None and stages[v.node] == stage]
            if folds or due:
                self.one_pass(folds, due)
        rest = [v for v in self.targets if level[v] == "row"]
        found = [(v, self.reader.read(v, self.at(v))) for v in rest]
        for v, x in found:
            self.reader.store(v, self.targets[v], self.at(v), x)

    def level(self, v: Value) -> str:
        """Whether a result has an element for each point, or for each row."""
        found = self.clustering.level(self.cluster, self.clustering.current(self.clustering.placed[v][1]))
        assert found is not None, "a member has the shape of the points or of the rows"
        return found

    def one_pass(self, folds: Sequence[Node], points: Sequence[Value]) -> None:
        """One nest of loops over the rows."""
        starts = [self.reader.start(FOLDS[n.op.name], n.inputs[0].dtype) for n in folds]
        found = self.row_loops(self.rows, folds, points, starts)
        for node, values in zip(folds, found, strict=True):
            v = node.outputs[0]
            self.reader.keep(v, self.at(v), self.reader.rounded(v, scalar(values)))

    def row_loops(
        self, rows: Sequence[int], folds: Sequence[Node], points: Sequence[Value], init: Sequence[Sequence[Var]]
    ) -> list[list[Var]]:
        """The loops over these rows; what the reductions have come to after them."""
        with self.builder.loop(self.axes[rows[0]]) as loop:
            if len(rows) > 1:
                carried = [[loop.carry(v) for v in values] for values in init]
                inner = self.row_loops(rows[1:], folds, points, carried)
                out = [
                    [loop.hand(c, v) for c, v in zip(cs, vs, strict=True)]
                    for cs, vs in zip(carried, inner, strict=True)
                ]
                loop.ordered = False
                return out
            self.warm([*[n.inputs[0] for n in folds], *points])
            out = [self.fold(loop, node, values) for node, values in zip(folds, init, strict=True)]
            self.stores(points)
        return out

    def fold(self, loop: Open, node: Node, init: Sequence[Var]) -> list[Var]:
        """One reduction of a pass."""
        at = self.place_of(self.clustering.current(self.clustering.reduced[node]))
        values = components(self.reader.read(node.inputs[0], at))
        return [loop.fold(FOLDS[node.op.name], v, init=i) for v, i in zip(values, init, strict=True)]


def name_of(cluster: Cluster) -> str:
    """What a kernel does, by its most telling operations."""
    names = [n.op.name for n in cluster.members]
    telling = [n for n in dict.fromkeys(names) if n in FOLDS or n in ("contract", "exp", "tanh", "gather")]
    return "_".join(telling[:4] or names[:2])
