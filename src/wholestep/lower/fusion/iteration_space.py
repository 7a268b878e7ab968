"""Iteration spaces: the loop axes along which each value runs, traced through movement operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from wholestep.ir.graph import Node, Value
from wholestep.ir.types import Shape

AxisRuns = tuple[tuple[int, ...] | None, ...]
"""For each axis of a value the loop axes that it runs along, outermost first; None if it may be any."""
Places = tuple[Value, tuple[tuple[Shape, Shape | None, Shape], ...]]
"""An array, and the movements through which it is read, as their shapes and axes, the last movement first."""
NEAR = 64
"""The most values that the search for the arrays of a reduction visits."""


@dataclass(eq=False)
class FusionGroup:
    """Operations that share loops. `sizes` maps the axes of the iteration space, in order, to their extents."""

    sizes: dict[int, int]
    kind: str = "map"
    rows: frozenset[int] | None = None
    number: int = 0
    """Groups are numbered in order of creation."""
    order: int = 0
    """The position of the group in a topological order: each group comes after all groups that it depends on."""
    members: list[Node] = field(default_factory=list)
    moved: list[Value] = field(default_factory=list)
    """Values that the group stores although no member computes them."""
    dependencies: set[FusionGroup] = field(default_factory=set)
    dependents: set[FusionGroup] = field(default_factory=set)
    """The groups that depend on it."""

    def depends_on(self, goal: FusionGroup) -> bool:
        """True if the group depends on another, directly or through others, or is that one."""
        found, waiting = {self}, [self]
        while waiting and goal not in found:
            for group in waiting.pop().dependencies:
                if group.order >= goal.order and group not in found:
                    found.add(group)
                    waiting.append(group)
        return goal in found

    @property
    def grid(self) -> list[int]:
        """The axes that no reduction of the group runs over."""
        return [a for a in self.sizes if a not in (self.rows or ())]


class DependenceGraph:
    """The groups in a topological order, which is updated as dependences are found."""

    def __init__(self) -> None:
        self.sequence: list[FusionGroup] = []

    def append(self, group: FusionGroup) -> None:
        """Append a group that no other group depends on."""
        group.order = len(self.sequence)
        self.sequence.append(group)

    def add(self, group: FusionGroup, needed: Iterable[FusionGroup]) -> None:
        """Let a group depend on others from now on."""
        for other in needed:
            if other is not group and other not in group.dependencies:
                group.dependencies.add(other)
                other.dependents.add(group)
                if other.order > group.order:
                    self.move_after(group, other)

    def move_after(self, group: FusionGroup, other: FusionGroup) -> None:
        """Restore the order of a group that stands before one that it depends on: move the dependents of the group
        after the other, or the dependencies of the other before the group, whichever are found in fewer steps.

        The search is limited to the part of the order between the two, as in Pearce and Kelly 2006, A dynamic
        topological sort algorithm for directed acyclic graphs.
        """
        first, last = group.order, other.order
        later, earlier, forward, backward = {group}, {other}, [group], [other]
        while forward and backward:
            new = [g for g in forward.pop().dependents if g.order < last and g not in later]
            later.update(new)
            forward += new
            new = [g for g in backward.pop().dependencies if g.order > first and g not in earlier]
            earlier.update(new)
            backward += new
        part = self.sequence[first : last + 1]
        moved = earlier if forward else later
        those, rest = [g for g in part if g in moved], [g for g in part if g not in moved]
        self.sequence[first : last + 1] = those + rest if forward else rest + those
        for place in range(first, last + 1):
            self.sequence[place].order = place


class IterationSpaces:
    """The coordinates of values. An axis may be split later on; `current` applies the splits."""

    def __init__(self) -> None:
        self.placed: dict[Value, tuple[FusionGroup, AxisRuns]] = {}
        self.splits: dict[int, tuple[int, int]] = {}
        self.names, self.dependences = count(), DependenceGraph()

    def trace(self, v: Value, refine: bool = False) -> tuple[FusionGroup, AxisRuns] | None:
        """The group and coordinates of a value, through movements that keep to the loops of the group."""
        moves: list[Node] = []
        while v not in self.placed:
            node = v.node
            if node is None or not node.op.view or (node.op.axis_map(node) is None and not node.op.keeps_order):
                return None
            moves.append(node)
            v = node.inputs[0]
        group, coords = self.placed[v]
        moved: AxisRuns | None = None if group.kind == "opaque" else self.current(coords)
        while moves and moved is not None:
            moved = self.moved(group, moved, moves.pop(), refine)
        return None if moved is None else (group, moved)

    def arrays_read(self, v: Value) -> list[Places]:
        """The arrays, of the size of a value, that it is computed from element by element, nearest first, and the
        movements in between."""
        waiting: list[Places] = [(v, ())]
        seen, found = set(waiting), list[Places]()
        while waiting and len(seen) < NEAR:
            x, moves = waiting.pop(0)
            if x.node is None or x in self.placed:
                found.append((x, moves))
            if x.node is None or not (x.node.op.view or (x.node.op.kind == "elementwise" and x.node.op.price == 1)):
                continue
            if x.node.op.view:
                moves = (*moves, (x.shape, x.node.op.axis_map(x.node), x.node.inputs[0].shape))
            new = [(y, moves) for y in x.node.inputs if y.type.size == v.type.size and (y, moves) not in seen]
            seen.update(new)
            waiting += new
        return found

    def moved(self, group: FusionGroup, inner: AxisRuns, node: Node, refine: bool) -> AxisRuns | None:
        """The coordinates of a movement's result from those of its operand."""
        x, v = node.inputs[0], node.outputs[0]
        axes = node.op.axis_map(node)
        if axes is None:
            return self.regroup_axes(group, inner, x.shape, v.shape, refine)
        return tuple([None if a is None else inner[a] for a in axes])

    def before(self, group: FusionGroup, coords: AxisRuns, node: Node) -> AxisRuns | None:
        """The coordinates of a movement's operand from those of its result; None if it keeps to no loops."""
        x, v = node.inputs[0], node.outputs[0]
        axes = node.op.axis_map(node)
        if axes is None:
            return self.regroup_axes(group, coords, v.shape, x.shape, False) if node.op.keeps_order else None
        along = {a: c for a, c in zip(axes, coords, strict=True) if a is not None}
        return tuple([() if n == 1 else along.get(i) for i, n in enumerate(x.shape)])

    def current(self, coords: AxisRuns) -> AxisRuns:
        """Coordinates with all splits applied."""
        if not self.splits:
            return coords
        return tuple([c if c is None else tuple(self.expanded(c)) for c in coords])

    def expanded(self, axes: Iterable[int]) -> Iterator[int]:
        for a in axes:
            if a in self.splits:
                yield from self.expanded(self.splits[a])
            else:
                yield a

    def regroup_axes(
        self, group: FusionGroup, inner: AxisRuns, source: Sequence[int], shape: Sequence[int], refine: bool
    ) -> AxisRuns | None:
        """Coordinates after a reshape, if each new axis is a run of whole loop axes; else None."""
        queue: list[int | None] = []
        sizes: list[int] = []
        for c, n in zip(inner, source, strict=True):
            if n == 1:
                continue
            if c is None:
                queue, sizes = [*queue, None], [*sizes, n]
            else:
                queue, sizes = [*queue, *c], [*sizes, *[group.sizes[a] for a in c]]
        out: list[tuple[int, ...] | None] = []
        for n in shape:
            taken: list[int | None] = []
            have = 1
            while have < n and queue:
                if n % (have * sizes[0]) and not (refine and sizes[0] % (n // have) == 0 and queue[0] is not None):
                    return None
                if n % (have * sizes[0]):
                    queue[:1], sizes[:1] = self.split(group, queue[0], n // have), [n // have, sizes[0] * have // n]
                taken.append(queue.pop(0))
                have *= sizes.pop(0)
            if have != n:
                return None
            if None in taken:
                if len(taken) > 1:
                    return None
                out.append(None)
            else:
                out.append(tuple([a for a in taken if a is not None]))
        return None if queue else tuple(out)

    def split(self, group: FusionGroup, axis: int | None, outer: int) -> list[int | None]:
        """Split an axis of a group in two, the first of this size."""
        assert axis is not None
        first, second = next(self.names), next(self.names)
        self.splits[axis] = (first, second)
        sizes: dict[int, int] = {}
        for a, n in group.sizes.items():
            sizes.update({first: outer, second: n // outer} if a == axis else {a: n})
        group.sizes = sizes
        if group.rows is not None:
            group.rows = frozenset(self.expanded(group.rows))
        return [first, second]

    def unify_axes(self, group: FusionGroup, shape: Sequence[int], given: Sequence[AxisRuns]) -> AxisRuns | None:
        """The coordinates of a result that agree with those of its operands; None if they do not agree."""
        out: list[tuple[int, ...] | None] = [() if n == 1 else None for n in shape]
        for coords in given:
            for i, c in enumerate(coords):
                if c is None or shape[i] == 1:
                    continue
                if out[i] is not None and out[i] != c:
                    return None
                out[i] = c
        taken_axes = [a for c in out if c for a in c]
        used = set(taken_axes)
        if len(used) < len(taken_axes):  # x[i] + x[j] runs along two axes, not twice along one
            return None
        left = [a for a in group.sizes if a not in used and group.sizes[a] != 1]
        for i, c in enumerate(out):
            if c is None:
                taken = self.take_axes(group, left, shape[i])
                if taken is None:
                    return None
                out[i] = taken
                left = [a for a in left if a not in taken]
        return tuple(out)

    def take_axes(self, group: FusionGroup, left: Sequence[int], n: int) -> tuple[int, ...] | None:
        """The first of the remaining axes whose extents multiply to n."""
        taken: list[int] = []
        have = 1
        for a in left:
            if have == n:
                break
            taken.append(a)
            have *= group.sizes[a]
        return tuple(taken) if have == n else None

    def level(self, group: FusionGroup, coords: AxisRuns) -> str | None:
        """ "point" or "row", by the axes that coordinates use; None if it is neither."""
        wide = {a for a, n in group.sizes.items() if n != 1}
        used = {a for c in coords if c for a in c} & wide
        if used == wide:
            return "point"
        return "row" if group.rows is not None and used == wide - group.rows else None
