"""Clusters: which operations share the loops of one kernel.

A cluster has a point space, the axes of its loops. Some of them may be rows: axes that a reduction of the cluster runs
over. A member has coordinates: for each of its axes the axes of the point space that it runs along.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from wholestep.ir.graph import Graph, Node, Value
from wholestep.lower.access import RULES
from wholestep.lower.coordinates import Cluster, Coordinates, Coords
from wholestep.lower.kinds import FOLDS, MAPS
from wholestep.primitives.prices import CHEAP, LIMIT

JOINED = 1024
"""From how many elements on an array is joined part by part, and not chosen element by element."""


def virtual(node: Node) -> bool:
    """Whether a node only says where elements are, or makes them from nothing."""
    return node.op.name in MAPS or node.op.name in ("full", "iota")


def opaque(node: Node) -> bool:
    """Whether a node has a kernel or routine of its own."""
    if node.op.name == "concat":
        return bool(node.outputs[0].type.size >= JOINED)
    return not (bool(node.op.kind == "elementwise") or node.op.name in RULES)


class Clustering(Coordinates):
    """The clusters of a graph, found in one walk over its nodes."""

    def __init__(self, graph: Graph, kept: Container[Value] = ()) -> None:
        super().__init__()
        self.graph = graph
        self.kept = kept
        self.floating: dict[Value, tuple[int, set[Cluster]]] = {}
        """Cheap values of nothing but floating and external ones: their cost, and the clusters they need."""
        self.reduced: dict[Node, Coords] = {}
        """The coordinates of what each reduction over rows reads."""
        self.through: dict[Value, set[Cluster | Value]] = {}
        """The clusters, and the other floating values, that read through a floating one."""
        self.clusters: list[Cluster] = []
        self.positions = {node: i for i, node in enumerate(graph.nodes)}
        for node in graph.nodes:
            self.place(node)

    # Where a value comes from.

    def sources(self, v: Value) -> set[Cluster]:
        """The clusters that reading a value depends on at once."""
        found, seen, waiting = set[Cluster](), {v}, [v]
        while waiting:
            x = waiting.pop()
            if x in self.placed:
                found.add(self.placed[x][0])
            elif x in self.floating:
                found |= self.floating[x][1]
            elif x.node is not None:
                new = [y for y in x.node.inputs if y not in seen]
                seen.update(new)
                waiting += new
        return found

    # Where a node goes.

    def place(self, node: Node) -> None:
        """Put a node in a cluster, or leave it to those that read it."""
        if node.op.name == "constant":
            return
        if virtual(node):
            if node.outputs[0] in self.kept:
                self.alone(node.outputs[0])
            return
        if opaque(node):
            self.fresh(node, "opaque")
        elif not node.outputs[0].type.size:
            self.fresh(node, "map")
        elif node.op.name == "contract":
            self.fresh(node, "contract")
        elif node.op.name in FOLDS and not node.inputs[0].type.size:
            self.fresh(node, "map")
        elif node.op.name in FOLDS:
            self.place_reduction(node)
        elif node.op.name in RULES and node.op.name != "gather":
            self.fresh(node, "map")
        else:
            self.place_pointwise(node)

    def fresh(self, node: Node, kind: str, shape: Sequence[int] | None = None) -> Cluster:
        """A new cluster for a node, its point space that of the node's output unless said otherwise."""
        point = node.outputs[0].shape if shape is None else shape
        axes = [next(self.names) for _ in point]
        made = self.made(Cluster(dict(zip(axes, point, strict=True)), kind))
        coords: Coords = tuple([(a,) for a in axes])
        if shape is None:
            self.enter(made, node, coords)
        return made

    def made(self, cluster: Cluster) -> Cluster:
        """A new cluster, numbered."""
        cluster.number = len(self.clusters)
        self.clusters.append(cluster)
        return cluster

    def alone(self, v: Value) -> Cluster:
        """A cluster of its own for a value that would otherwise be read through."""
        axes = [next(self.names) for _ in v.shape]
        made = self.made(Cluster(dict(zip(axes, v.shape, strict=True))))
        if v.node is not None:
            made.first = self.positions.get(v.node, len(self.positions))
            made.reach(made.first)
            for x in v.node.inputs:
                made.need(self.sources(x))
                self.reads_through(made, x)
        self.placed[v] = (made, tuple([(a,) for a in axes]))
        made.moved.append(v)
        return made

    def enter(self, cluster: Cluster, node: Node, coords: Coords) -> None:
        """Make a node a member, and with it what would be computed anew for it alone."""
        at = self.positions[node]
        cluster.first = min(cluster.first, at)
        cluster.reach(at)
        for v in node.inputs:
            cluster.need(self.sources(v))
        for x in node.inputs if node.op.kind == "elementwise" else ():
            if x in self.floating and x.node is not None and not self.awaits_reader(cluster, x):
                del self.floating[x]
                self.enter(cluster, x.node, coords)
                self.settle(x, cluster)
        cluster.members.append(node)
        for v in node.inputs:
            self.reads_through(cluster, v)
        for v in node.outputs:
            self.placed[v] = (cluster, coords)

    def floats(self, v: Value) -> Iterator[Value]:
        """The floating values through which a value is read."""
        seen: set[Value] = set()
        stack = [v]
        while stack:
            x = stack.pop()
            if x in seen or x in self.placed or x.node is None:
                continue
            seen.add(x)
            if x in self.floating:
                yield x
            stack.extend(x.node.inputs)

    def reads_through(self, reader: Cluster | Value, v: Value) -> None:
        """Note who reads a value, for each floating value that it is read through."""
        for x in self.floats(v):
            self.through.setdefault(x, set()).add(reader)

    def awaits_reader(self, cluster: Cluster, x: Value) -> bool:
        """Whether a cluster waits for another one that reads x, and so cannot be where x is made."""
        readers = self.through.get(x, ())
        return any(self.path(cluster, c) for c in readers if isinstance(c, Cluster) and c is not cluster)

    def settle(self, x: Value, cluster: Cluster) -> None:
        """Whoever read through a value that was floating waits for the cluster where it is made from now on."""
        for reader in self.through.pop(x, ()):
            if isinstance(reader, Cluster):
                reader.need([cluster])
            elif reader in self.floating:
                cost, needs = self.floating[reader]
                self.floating[reader] = (cost, needs | {cluster})

    def place_pointwise(self, node: Node) -> None:
        traces = [self.trace(x) for x in node.inputs] if node.op.kind == "elementwise" else []
        candidates = {t[0]: None for t in traces if t is not None and t[0].kind != "opaque"}
        ordered = sorted(candidates, key=lambda c: c.number, reverse=True)
        for cluster in ordered:
            coords = self.unified(
                cluster, node.outputs[0].shape, [t[1] for t in traces if t is not None and t[0] is cluster]
            )
            if coords is not None and self.may_join(cluster, node, coords, traces):
                self.enter(cluster, node, coords)
                for other in ordered:
                    if other is not cluster:
                        self.merge(cluster, other, node, traces)
                return
        cost, needs = self.floating_cost(node)
        if cost <= LIMIT:
            self.floating[node.outputs[0]] = (cost, needs)
            for v in node.inputs:
                self.reads_through(node.outputs[0], v)
        else:
            self.fresh(node, "map")

    def floating_cost(self, node: Node) -> tuple[int, set[Cluster]]:
        """What computing a node anew where it is read costs, and the clusters that it needs."""
        own = 1 if node.op.name in CHEAP or node.op.name == "gather" else 100
        needs: set[Cluster] = set()
        for x in node.inputs:
            base = origin(x)
            cost, more = self.floating.get(base, (0, self.sources(base)))
            own, needs = own + cost, needs | more
        return own, needs

    def may_join(
        self, cluster: Cluster, node: Node, coords: Coords, traces: Sequence[tuple[Cluster, Coords] | None]
    ) -> bool:
        """Whether a node fits the loops of a cluster, and reads nothing that waits for the cluster."""
        if self.level(cluster, coords) is None:
            return False
        for x, t in zip(node.inputs, traces, strict=True):
            if t is None and cluster in self.sources(x) and origin(x) not in self.floating:
                return False
        return not self.waits(cluster, node)

    def path(self, start: Cluster, goal: Cluster) -> bool:
        """Whether a cluster waits for another, at once or through others."""
        seen: set[Cluster] = set()
        stack = [start]
        while stack:
            here = stack.pop()
            if here is goal:
                return True
            # Of those that wait for the goal, at once or not, a member stands after the goal's first.
            if here not in seen and here.last > goal.first:
                seen.add(here)
                stack.extend(here.needs)
        return False

    def merge(
        self, cluster: Cluster, other: Cluster, node: Node, traces: Sequence[tuple[Cluster, Coords] | None]
    ) -> None:
        """Make one cluster of two that a node has brought together, where their loops are the same."""
        kinds = {cluster.kind, other.kind}
        rows = {cluster.rows, other.rows} - {None}
        if "opaque" in kinds or (cluster.kind == other.kind == "contract") or (rows and "contract" in kinds):
            return
        coords = next(t[1] for t in traces if t is not None and t[0] is other)
        own = self.placed[node.outputs[0]][1]
        names: dict[int, int] = {}
        for theirs, ours in zip(
            self.unified(other, node.outputs[0].shape, [coords]) or (), self.current(own), strict=False
        ):
            if theirs is None or ours is None or len(theirs) != len(ours):
                return
            names.update(zip(theirs, ours, strict=True))
        if [names.get(a) for a, n in other.sizes.items() if n != 1] != [a for a, n in cluster.sizes.items() if n != 1]:
            return
        if any(other.sizes[a] != cluster.sizes[b] for a, b in names.items()):
            return
        mapped = {frozenset(names[a] for a in other.rows if a in names)} if other.rows is not None else set()
        if cluster.rows is not None and mapped and mapped != {cluster.rows}:
            return
        if self.between(cluster, other) or self.elsewhere(cluster, other, names):
            return
        self.join(cluster, other, names, next(iter(mapped), None))

    def between(self, a: Cluster, b: Cluster) -> bool:
        """Whether a third cluster stands between two, so that they cannot be one."""
        starts = [(a, b), (b, a)]
        return any(self.path(n, goal) for start, goal in starts for n in start.needs if n is not goal)

    def elsewhere(self, cluster: Cluster, other: Cluster, names: dict[int, int]) -> bool:
        """Whether a member of a cluster reads another cluster at other points than its own: it would make them anew,
        and each of them others, twice as many with every such step."""
        for node in cluster.members:
            own = self.current(self.reduced.get(node, self.placed[node.outputs[0]][1]))
            for x in node.inputs:
                if other not in self.sources(x):
                    continue
                if node.op.name == "contract":
                    return True  # whose sum runs over points that are not its own, of whatever shape they are
                found = self.trace(x)
                if found is None or found[0] is not other or len(found[1]) != len(own):
                    return True
                for theirs, ours in zip(found[1], own, strict=True):
                    if theirs is not None and tuple([names[a] for a in theirs if a in names]) != (ours or ()):
                        return True
        return False

    def join(self, cluster: Cluster, other: Cluster, names: dict[int, int], rows: frozenset[int] | None) -> None:
        """Take over the members of another cluster."""

        def renamed(coords: Coords) -> Coords:
            known = self.current(coords)
            return tuple([c if c is None else tuple([names[a] for a in c if a in names]) for c in known])

        for v in [*other.moved, *[v for node in other.members for v in node.outputs]]:
            self.placed[v] = (cluster, renamed(self.placed[v][1]))
        for node in other.members:
            if node in self.reduced:
                self.reduced[node] = renamed(self.reduced[node])
        cluster.moved += other.moved
        cluster.members = sorted([*cluster.members, *other.members], key=self.positions.__getitem__)
        cluster.first = min(cluster.first, other.first)
        cluster.kind = "contract" if "contract" in (cluster.kind, other.kind) else "map"
        cluster.rows = rows if cluster.rows is None else cluster.rows
        self.clusters.remove(other)
        for c in other.needs:
            c.waiting.remove(other)
        for c in other.waiting:
            c.needs.remove(other)
            c.need([cluster])
        cluster.need(other.needs)
        cluster.reach(other.last)
        for readers in self.through.values():
            if other in readers:
                readers.remove(other)
                readers.add(cluster)
        for v, (cost, needs) in self.floating.items():
            if other in needs:
                self.floating[v] = (cost, (needs - {other}) | {cluster})

    def place_reduction(self, node: Node) -> None:
        x, axes = node.inputs[0], node.params["axes"]
        found = self.trace(x, refine=True)
        if found is not None and found[0].kind == "map":
            cluster, coords = found
            unified = self.unified(cluster, x.shape, [coords])
            if unified is not None and self.level(cluster, unified) == "point":
                rows = frozenset(a for i in axes for a in unified[i] or ())
                if cluster.rows in (None, rows) and rows and not self.waits(cluster, node):
                    cluster.rows = rows
                    self.reduced[node] = unified
                    self.enter(cluster, node, tuple([c for i, c in enumerate(unified) if i not in axes]))
                    return
        cluster = self.fresh(node, "map", x.shape)
        names = list(cluster.sizes)
        cluster.rows = frozenset(names[a] for a in axes)
        self.reduced[node] = tuple([(a,) for a in names])
        self.enter(cluster, node, tuple([(a,) for i, a in enumerate(names) if i not in axes]))

    def waits(self, cluster: Cluster, node: Node) -> bool:
        """Whether a node reads something that waits for a cluster."""
        return any(self.path(other, cluster) for x in node.inputs for other in self.sources(x) - {cluster})


def origin(v: Value) -> Value:
    """The value that is only moved."""
    while v.node is not None and v.node.op.name in MAPS:
        v = v.node.inputs[0]
    return v
