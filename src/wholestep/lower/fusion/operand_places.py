"""The places at which a group reads its own members: at others it would compute them, and whole reductions, again."""

from __future__ import annotations

from wholestep.ir.graph import Node, Value
from wholestep.lower.fusion.iteration_space import AxisRuns, FusionGroup, IterationSpaces
from wholestep.passes.one_hot_indexing import iota_axis
from wholestep.primitives.indexing import Gather


class OperandPlaces(IterationSpaces):
    """The groups that values are computed from, and the coordinates at which they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.floating: dict[Value, tuple[int, set[FusionGroup]]] = {}
        """Cheap values that are recomputed where they are read, not members of a group yet: their cost, and the groups
        that they need."""
        self.reduced: dict[Node, AxisRuns] = {}
        """The coordinates of the operand of each reduction over rows."""

    def sources(self, v: Value) -> set[FusionGroup]:
        """The groups that a reader of a value depends on directly."""
        found, seen, waiting = set[FusionGroup](), {v}, [v]
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

    def reads_in_place(self, group: FusionGroup, x: Value, coords: AxisRuns) -> bool:
        """True if a value at these coordinates is computed from the members of a group at the same ones.

        At others the kernel would compute the members, and whole reductions, again for each element.
        """
        if group not in self.sources(x):
            return True
        node = x.node
        if x in self.placed:
            own = self.unify_axes(group, x.shape, [self.current(self.placed[x][1])])
            return own is not None and self.unify_axes(group, x.shape, [coords]) == own
        if node is None:
            return False
        if node.op.view:
            before = self.before(group, coords, node)
            return before is not None and self.reads_in_place(group, node.inputs[0], before)
        if node.op.kind == "elementwise":
            return all([self.reads_in_place(group, y, coords) for y in node.inputs])
        return isinstance(node.op, Gather) and self.gathers_in_row(group, node, coords)

    def gathers_in_row(self, group: FusionGroup, node: Node, coords: AxisRuns) -> bool:
        """True if a gather reads a single element of each row of a group, within that row."""
        x, *indices = node.inputs
        found, rows = self.trace(x), group.rows
        if found is None or found[0] is not group or rows is None or any([group in self.sources(i) for i in indices]):
            return False
        if any([a in rows for c in coords for a in c or ()]):
            return False
        axes = node.params["axes"]
        lines = [iota_axis(i) for i in indices]
        read = {a: None if line is None else coords[line] for a, line in zip(axes, lines, strict=True)}
        read |= dict(zip([i for i in range(x.ndim) if i not in axes], coords[indices[0].ndim :], strict=True))
        return all([rows.issuperset(c or ()) or c == read[i] for i, c in enumerate(found[1])])

    def is_stencil(self, group: FusionGroup, other: FusionGroup, names: dict[int, int]) -> bool:
        """Refuse stencil fusion: a member that reads another group at other points would recompute it, exponentially
        along a chain."""
        ours = {b: a for a, b in names.items()}
        for node in group.members:
            own = self.current(self.reduced.get(node, self.placed[node.outputs[0]][1]))
            for x in node.inputs:
                if other not in self.sources(x):
                    continue
                if node.op.kind == "contraction":
                    return True  # a contraction reads points other than its own, for any operand shape
                if node.op.kind == "indexing":
                    there = tuple([c and tuple([ours.get(a, a) for a in c]) for c in own])
                    if not self.gathers_in_row(other, node, there):
                        return True
                    continue
                found = self.trace(x)
                if found is None or found[0] is not other or len(found[1]) != len(own):
                    return True
                for theirs, here in zip(found[1], own, strict=True):
                    if theirs is not None and tuple([names[a] for a in theirs if a in names]) != (here or ()):
                        return True
        return False
