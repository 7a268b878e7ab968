"""Fusion: group operations that share the loops of one kernel.

A group has an iteration space, the axes of its loops. Some of them may be row axes, over which a reduction of the group
runs. A member has coordinates: for each of its axes the loop axes that it runs along.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape
from wholestep.lower.fusion.iteration_space import AxisRuns, FusionGroup, Places
from wholestep.lower.fusion.operand_places import OperandPlaces
from wholestep.primitives.family import RECOMPUTE_LIMIT

SIBLINGS = 4
"""The most reductions that share a kernel because they read one array: each takes registers from the others' tiles."""


def is_virtual(node: Node) -> bool:
    """True if a node only moves elements or generates them from indices."""
    return bool(node.op.view or node.op.generated)


class FusionAnalysis(OperandPlaces):
    """The fusion groups of a graph, found in one pass over its nodes."""

    def __init__(
        self, graph: Graph, opaque: Callable[[Node], bool], kept: Container[Value] = (), beside: bool = False
    ) -> None:
        super().__init__()
        self.beside = beside
        """True where independent kernels run beside each other, so that a kernel should depend on few others."""
        self.opaque = opaque
        """Predicate of nodes with a kernel or routine of their own."""
        self.graph = graph
        self.kept = kept
        self.readers_through: dict[Value, set[FusionGroup | Value]] = {}
        """The groups and floating values that read through each floating value."""
        self.read_by: defaultdict[FusionGroup, set[Value]] = defaultdict(set)
        """The floating values that each group reads, or has read, through."""
        self.needing: defaultdict[FusionGroup, set[Value]] = defaultdict(set)
        """The floating values that need each group, or have needed it."""
        self.reductions: dict[tuple[Shape, Shape, Places], Node] = {}
        """The last reduction over memory, by the shape of its operand, the reduced axes, and an array that it reads."""
        self.groups: list[FusionGroup] = []
        self.folded = {x for node in graph.nodes if node.op.fold for x in node.inputs}
        """The operands of reductions: a map runs its reductions in its own kernel, and a contraction cannot."""
        self.positions = {node: i for i, node in enumerate(graph.nodes)}
        for node in graph.nodes:
            self.place_node(node)

    # Placement.

    def place_node(self, node: Node) -> None:
        """Put a node in a group, or leave it to be recomputed by its readers."""
        if node.op.literal:
            return
        if is_virtual(node):
            if node.outputs[0] in self.kept:
                self.isolate(node.outputs[0])
            return
        if self.opaque(node):
            self.new_group(node, "opaque")
        elif not node.outputs[0].type.size:
            self.new_group(node, "map")
        elif node.op.kind == "contraction":
            self.new_group(node, "contract")
        elif node.op.fold and not node.inputs[0].type.size:
            self.new_group(node, "map")
        elif node.op.fold:
            self.place_reduction(node)
        elif node.op.kind not in ("elementwise", "indexing"):
            self.new_group(node, "map")
        else:
            self.place_pointwise(node)

    def new_group(self, node: Node, kind: str, shape: Sequence[int] | None = None) -> FusionGroup:
        """A new group for a node; its iteration space is the node's output shape unless given."""
        point = node.outputs[0].shape if shape is None else shape
        axes = [next(self.names) for _ in point]
        made = self.register(FusionGroup(dict(zip(axes, point, strict=True)), kind))
        coords: AxisRuns = tuple([(a,) for a in axes])
        if shape is None:
            self.add_member(made, node, coords)
        return made

    def register(self, group: FusionGroup) -> FusionGroup:
        """Register a new group."""
        group.number = len(self.groups)
        self.dependences.append(group)
        self.groups.append(group)
        return group

    def isolate(self, v: Value) -> FusionGroup:
        """A group of its own for a value that would otherwise be read through."""
        axes = [next(self.names) for _ in v.shape]
        made = self.register(FusionGroup(dict(zip(axes, v.shape, strict=True))))
        if v.node is not None:
            for x in v.node.inputs:
                self.dependences.add(made, self.sources(x))
                self.reads_through(made, x)
        self.placed[v] = (made, tuple([(a,) for a in axes]))
        made.moved.append(v)
        return made

    def add_member(self, group: FusionGroup, node: Node, coords: AxisRuns) -> None:
        """Make a node a member, together with the floating values that only it reads."""
        for v in node.inputs:
            self.dependences.add(group, self.sources(v))
        for x in node.inputs if node.op.kind == "elementwise" else ():
            if x in self.floating and x.node is not None and not self.depends_on_reader(group, x):
                del self.floating[x]
                self.add_member(group, x.node, coords)
                self.settle_readers(x, group)
        group.members.append(node)
        for v in node.inputs:
            self.reads_through(group, v)
        for v in node.outputs:
            self.placed[v] = (group, coords)

    def floating_operands(self, v: Value) -> Iterator[Value]:
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

    def reads_through(self, reader: FusionGroup | Value, v: Value) -> None:
        """Record the reader of a value for each floating value in between."""
        for x in self.floating_operands(v):
            self.readers_through.setdefault(x, set()).add(reader)
            if isinstance(reader, FusionGroup):
                self.read_by[reader].add(x)

    def depends_on_reader(self, group: FusionGroup, x: Value) -> bool:
        """True if a group depends on another reader of x, so that x cannot become its member."""
        readers = self.readers_through.get(x, ())
        return any(group.depends_on(c) for c in readers if isinstance(c, FusionGroup) and c is not group)

    def settle_readers(self, x: Value, group: FusionGroup) -> None:
        """Make the readers of a formerly floating value depend on the group that now computes it."""
        for reader in self.readers_through.pop(x, ()):
            if isinstance(reader, FusionGroup):
                self.dependences.add(reader, [group])
            elif reader in self.floating:
                cost, needs = self.floating[reader]
                self.let_float(reader, cost, needs | {group})

    def let_float(self, v: Value, cost: int, needs: set[FusionGroup]) -> None:
        """Leave a cheap value to be recomputed by its readers, or update its cost and the groups that it needs."""
        self.floating[v] = (cost, needs)
        for group in needs:
            self.needing[group].add(v)

    def place_pointwise(self, node: Node) -> None:
        operands = node.inputs if node.op.kind == "elementwise" else ()
        traces = [self.trace(x) or self.trace_contraction(x) for x in operands]
        candidates = {t[0]: None for t in traces if t is not None and t[0].kind != "opaque"}
        if self.beside and self.combines_rows(node):
            candidates = {c: None for c in candidates if c.rows is None}
            if not candidates:
                self.new_group(node, "map")
                return
        folded = node.outputs[0] in self.folded
        ordered = sorted(candidates, key=lambda c: (folded and c.kind != "contract", c.number), reverse=True)
        for group in ordered:
            coords = self.unify_axes(
                group, node.outputs[0].shape, [t[1] for t in traces if t is not None and t[0] is group]
            )
            if coords is not None and self.may_join(group, node, coords, traces):
                self.add_member(group, node, coords)
                for other in ordered:
                    if other is not group:
                        self.merge(group, other, node, traces)
                return
        cost, needs = self.floating_cost(node)
        if cost <= RECOMPUTE_LIMIT:
            self.let_float(node.outputs[0], cost, needs)
            for v in node.inputs:
                self.reads_through(node.outputs[0], v)
        else:
            self.new_group(node, "map")

    def trace_contraction(self, v: Value) -> tuple[FusionGroup, AxisRuns] | None:
        """The group and coordinates of a contraction's result with its axes split, where a launch is saved so."""
        source = moved_source(v)
        found = self.placed.get(source) if self.beside else None
        return self.trace(v, refine=True) if found is not None and found[0].kind == "contract" else None

    def combines_rows(self, node: Node) -> bool:
        """True for a number computed from a reduction and another value, on which the fused reduction would depend."""
        found = {c for x in node.inputs for c in self.sources(x)}
        return not node.outputs[0].shape and len(found) > 1 and any(c.rows is not None for c in found)

    def floating_cost(self, node: Node) -> tuple[int, set[FusionGroup]]:
        """The cost of recomputing a node where it is read, and the groups that it needs."""
        own = 1 if node.op.price == 1 or node.op.kind == "indexing" else 100
        needs: set[FusionGroup] = set()
        for x in node.inputs:
            base = moved_source(x)
            cost, more = self.floating.get(base, (0, self.sources(base)))
            own, needs = own + cost, needs | more
        return own, needs

    def may_join(
        self, group: FusionGroup, node: Node, coords: AxisRuns, traces: Sequence[tuple[FusionGroup, AxisRuns] | None]
    ) -> bool:
        """True if a node fits the loops of a group and reads nothing that depends on the group."""
        if self.level(group, coords) is None:
            return False
        for x, t in zip(node.inputs, traces, strict=True):
            if t is None and not self.reads_in_place(group, x, coords):
                return False
        return not self.would_form_cycle(group, node)

    def merge(
        self, group: FusionGroup, other: FusionGroup, node: Node, traces: Sequence[tuple[FusionGroup, AxisRuns] | None]
    ) -> None:
        """Merge two groups that a node has joined, if their iteration spaces agree."""
        kinds = {group.kind, other.kind}
        rows = {group.rows, other.rows} - {None}
        if "opaque" in kinds or (group.kind == other.kind == "contract") or (rows and "contract" in kinds):
            return
        if other.kind == "contract" and node.outputs[0] in self.folded:
            return
        coords = next(t[1] for t in traces if t is not None and t[0] is other)
        own = self.placed[node.outputs[0]][1]
        names: dict[int, int] = {}
        for theirs, ours in zip(
            self.unify_axes(other, node.outputs[0].shape, [coords]) or (), self.current(own), strict=False
        ):
            if theirs is None or ours is None or len(theirs) != len(ours):
                return
            names.update(zip(theirs, ours, strict=True))
        if [names.get(a) for a, n in other.sizes.items() if n != 1] != [a for a, n in group.sizes.items() if n != 1]:
            return
        if any(other.sizes[a] != group.sizes[b] for a, b in names.items()):
            return
        mapped = {frozenset(names[a] for a in other.rows if a in names)} if other.rows is not None else set()
        if group.rows is not None and mapped and mapped != {group.rows}:
            return
        if self.has_group_between(group, other) or self.is_stencil(group, other, names):
            return
        self.absorb(group, other, names, next(iter(mapped), None))

    def has_group_between(self, a: FusionGroup, b: FusionGroup) -> bool:
        """True if a third group lies on a dependence path between two, so that merging would be a cycle."""
        starts = [(a, b), (b, a)]
        return any(n.depends_on(goal) for start, goal in starts for n in start.dependencies if n is not goal)

    def absorb(
        self, group: FusionGroup, other: FusionGroup, names: dict[int, int], rows: frozenset[int] | None
    ) -> None:
        """Take over the members of another group."""

        def renamed(coords: AxisRuns) -> AxisRuns:
            known = self.current(coords)
            return tuple([c if c is None else tuple([names[a] for a in c if a in names]) for c in known])

        for v in [*other.moved, *[v for node in other.members for v in node.outputs]]:
            self.placed[v] = (group, renamed(self.placed[v][1]))
        for node in other.members:
            if node in self.reduced:
                self.reduced[node] = renamed(self.reduced[node])
        group.moved += other.moved
        group.members = sorted([*group.members, *other.members], key=self.positions.__getitem__)
        group.kind = "contract" if "contract" in (group.kind, other.kind) else "map"
        group.rows = rows if group.rows is None else group.rows
        self.groups.remove(other)
        for c in other.dependencies:
            c.dependents.remove(other)
        for c in other.dependents:
            c.dependencies.remove(other)
            self.dependences.add(c, [group])
        self.dependences.add(group, other.dependencies)
        for x in self.read_by.pop(other, ()):
            readers = self.readers_through.get(x, set())
            if other in readers:
                readers.remove(other)
                readers.add(group)
                self.read_by[group].add(x)
        for v in self.needing.pop(other, ()):
            cost, needs = self.floating.get(v, (0, set[FusionGroup]()))
            if other in needs:
                self.let_float(v, cost, (needs - {other}) | {group})

    def place_reduction(self, node: Node) -> None:
        x, axes = node.inputs[0], node.params["axes"]
        found = self.producer(node)
        if found is None:
            arrays = self.arrays_read(x)
            found = self.sibling(node, arrays)
            if found is None:
                group = self.new_group(node, "map", x.shape)
                group.rows = frozenset(list(group.sizes)[a] for a in axes)
                found = group, tuple([(a,) for a in group.sizes])
            self.reductions.update(dict.fromkeys([(x.shape, axes, read) for read in arrays], node))
        group, self.reduced[node] = found
        self.add_member(group, node, tuple([c for i, c in enumerate(found[1]) if i not in axes]))

    def producer(self, node: Node) -> tuple[FusionGroup, AxisRuns] | None:
        """The group of the operand of a reduction, if it can run over rows of that group, and the operand's
        coordinates."""
        x = node.inputs[0]
        found = self.trace(x, refine=True)
        if found is None or found[0].kind != "map":
            return None
        group, coords = found
        unified = self.unify_axes(group, x.shape, [coords])
        if unified is None or self.level(group, unified) != "point":
            return None
        rows = frozenset(a for i in node.params["axes"] for a in unified[i] or ())
        if group.rows not in (None, rows) or not rows:
            return None
        group.rows = rows
        return group, unified

    def sibling(self, node: Node, arrays: Iterable[Places]) -> tuple[FusionGroup, AxisRuns] | None:
        """The group of a reduction over the same axes that reads one of these arrays in the same places, and the
        coordinates of its operand."""
        x = node.inputs[0]
        for read in arrays:
            other = self.reductions.get((x.shape, node.params["axes"], read))
            if other is not None:
                group = self.placed[other.outputs[0]][0]
                room = sum([m in self.reduced for m in group.members]) < SIBLINGS
                if room and group not in self.sources(x) and not self.would_form_cycle(group, node):
                    return group, self.current(self.reduced[other])
        return None

    def would_form_cycle(self, group: FusionGroup, node: Node) -> bool:
        """True if a node reads something that depends on a group."""
        return any(other.depends_on(group) for x in node.inputs for other in self.sources(x) - {group})


def moved_source(v: Value) -> Value:
    """The source of a value behind all movement operations."""
    while v.node is not None and v.node.op.view:
        v = v.node.inputs[0]
    return v
