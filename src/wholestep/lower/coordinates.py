"""Coordinates: along which axes of a cluster's loops a value runs, through what only moves elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from wholestep.ir.graph import Node, Value
from wholestep.lower.kinds import MAPS

Coords = tuple[tuple[int, ...] | None, ...]
"""For each axis of a value, the point axes that it runs along, outermost first; None where it is free to be any."""

NEVER = 1 << 60
"""Where the first member of a cluster without members stands."""


@dataclass(eq=False)
class Cluster:
    """Operations that share loops. `sizes` maps the axes of the point space, in order, to their extents."""

    sizes: dict[int, int]
    kind: str = "map"
    rows: frozenset[int] | None = None
    number: int = 0
    """Clusters are numbered as they are made."""
    first: int = NEVER
    """Where in the program the first member stands."""
    last: int = -1
    """Where the last one stands of its members and of those of all clusters that it waits for."""
    members: list[Node] = field(default_factory=list)
    moved: list[Value] = field(default_factory=list)
    """What it stores that no member makes."""
    needs: set[Cluster] = field(default_factory=set)
    waiting: set[Cluster] = field(default_factory=set)
    """Those that need it."""

    def need(self, others: Iterable[Cluster]) -> None:
        """Wait for others from now on."""
        for other in others:
            if other is not self and other not in self.needs:
                self.needs.add(other)
                other.waiting.add(self)
                self.reach(other.last)

    def reach(self, last: int) -> None:
        """Stand, or wait for something that stands, as late in the program as this; whoever waits for it does too."""
        stack = [self]
        while stack:
            here = stack.pop()
            if here.last < last:
                here.last = last
                stack.extend(here.waiting)

    @property
    def grid(self) -> list[int]:
        """The axes that no reduction of the cluster runs over."""
        return [a for a in self.sizes if a not in (self.rows or ())]


class Coordinates:
    """Where values are placed. An axis may be split in two later on; `current` says what has become of it."""

    def __init__(self) -> None:
        self.placed: dict[Value, tuple[Cluster, Coords]] = {}
        self.splits: dict[int, tuple[int, int]] = {}
        self.names = count()

    def trace(self, v: Value, refine: bool = False) -> tuple[Cluster, Coords] | None:
        """The cluster and coordinates of a value, through operations that keep to the loops of a cluster."""
        moves: list[Node] = []
        while v not in self.placed:
            node = v.node
            if node is None or node.op.name not in MAPS or node.op.name in ("flip", "slice", "window"):
                return None
            moves.append(node)
            v = node.inputs[0]
        cluster, coords = self.placed[v]
        moved: Coords | None = None if cluster.kind == "opaque" else self.current(coords)
        while moves and moved is not None:
            moved = self.moved(cluster, moved, moves.pop(), refine)
        return None if moved is None else (cluster, moved)

    def moved(self, cluster: Cluster, inner: Coords, node: Node, refine: bool) -> Coords | None:
        """The coordinates of what is moved, from those of what it is made of."""
        x, v = node.inputs[0], node.outputs[0]
        if node.op.name == "broadcast":
            outer: list[tuple[int, ...] | None] = [None] * v.ndim
            for a, c, n in zip(node.params["axes"], inner, x.shape, strict=True):
                outer[a] = None if n == 1 else c
            return tuple(outer)
        if node.op.name == "permute":
            return tuple([inner[a] for a in node.params["axes"]])
        return self.regrouped(cluster, inner, x.shape, v.shape, refine) if node.op.name == "reshape" else inner

    def current(self, coords: Coords) -> Coords:
        """Coordinates after axes were split."""
        if not self.splits:
            return coords
        return tuple([c if c is None else tuple(self.expanded(c)) for c in coords])

    def expanded(self, axes: Iterable[int]) -> Iterator[int]:
        for a in axes:
            if a in self.splits:
                yield from self.expanded(self.splits[a])
            else:
                yield a

    def regrouped(
        self, cluster: Cluster, inner: Coords, source: Sequence[int], shape: Sequence[int], refine: bool
    ) -> Coords | None:
        """Coordinates after a reshape, where each new axis is a run of whole point axes; None where it is not."""
        queue: list[int | None] = []
        sizes: list[int] = []
        for c, n in zip(inner, source, strict=True):
            if n == 1:
                continue
            if c is None:
                queue, sizes = [*queue, None], [*sizes, n]
            else:
                queue, sizes = [*queue, *c], [*sizes, *[cluster.sizes[a] for a in c]]
        out: list[tuple[int, ...] | None] = []
        for n in shape:
            taken: list[int | None] = []
            have = 1
            while have < n and queue:
                if n % (have * sizes[0]) and not (refine and sizes[0] % (n // have) == 0 and queue[0] is not None):
                    return None
                if n % (have * sizes[0]):
                    queue[:1], sizes[:1] = self.split(cluster, queue[0], n // have), [n // have, sizes[0] * have // n]
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

    def split(self, cluster: Cluster, axis: int | None, outer: int) -> list[int | None]:
        """Split an axis of a cluster in two, the first of this size."""
        assert axis is not None
        first, second = next(self.names), next(self.names)
        self.splits[axis] = (first, second)
        sizes: dict[int, int] = {}
        for a, n in cluster.sizes.items():
            sizes.update({first: outer, second: n // outer} if a == axis else {a: n})
        cluster.sizes = sizes
        if cluster.rows is not None:
            cluster.rows = frozenset(self.expanded(cluster.rows))
        return [first, second]

    def unified(self, cluster: Cluster, shape: Sequence[int], given: Sequence[Coords]) -> Coords | None:
        """The coordinates that a result has if those of the operands are to agree; None where they do not."""
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
        left = [a for a in cluster.sizes if a not in used and cluster.sizes[a] != 1]
        for i, c in enumerate(out):
            if c is None:
                taken = self.run_of(cluster, left, shape[i])
                if taken is None:
                    return None
                out[i] = taken
                left = [a for a in left if a not in taken]
        return tuple(out)

    def run_of(self, cluster: Cluster, left: Sequence[int], n: int) -> tuple[int, ...] | None:
        """The first of the axes that are left, as many as make up an extent."""
        taken: list[int] = []
        have = 1
        for a in left:
            if have == n:
                break
            taken.append(a)
            have *= cluster.sizes[a]
        return tuple(taken) if have == n else None

    def level(self, cluster: Cluster, coords: Coords) -> str | None:
        """ "point" or "row", by the axes that coordinates use; None where it is neither."""
        wide = {a for a, n in cluster.sizes.items() if n != 1}
        used = {a for c in coords if c for a in c} & wide
        if used == wide:
            return "point"
        return "row" if cluster.rows is not None and used == wide - cluster.rows else None
