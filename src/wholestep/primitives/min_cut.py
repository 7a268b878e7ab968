"""Residuals of a loop by minimum cut: the fewest bytes from which cheap operations recompute the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from wholestep.ir.graph import Graph, Value
from wholestep.primitives.family import RECOMPUTE_LIMIT

ENDLESS = 1 << 62
"""An infinite capacity: more bytes than any memory has."""


def fewest(graph: Graph, needed: Iterable[Value], moving: Collection[Value], free: Collection[Value]) -> list[Value]:
    """The values to keep, in the graph's order, from which cheap operations recompute the needed ones.

    `moving` are those that differ from step to step, of which those in `free` need not be kept. Of all such choices it
    is one of the fewest bytes, a minimum cut (Ford and Fulkerson, 1956), and of these the one that computes least.
    """
    wanted = [v for v in needed if v in moving and v not in free]
    firm = {v for v in wanted if not again(v)}
    loose = [v for v in wanted if v not in firm]
    sized = all(isinstance(v.type.nbytes, int) for v in moving)  # symbols do not say which of two values is smaller
    firm |= minimum_cut(loose, moving, {*free, *firm}) if sized else set(loose)
    order = [*graph.inputs, *[v for node in graph.nodes for v in node.outputs]]
    return [v for v in order if v in firm]


def again(v: Value) -> bool:
    """Test whether a value is cheap to recompute."""
    return v.node is not None and bool(v.node.op.price <= RECOMPUTE_LIMIT or v.node.op.kind == "movement")


def minimum_cut(loose: Iterable[Value], moving: Collection[Value], free: Collection[Value]) -> set[Value]:
    """The values of a minimum cut between `loose` and the values that cannot be recomputed."""
    network = Network()
    waiting, seen = list(loose), set(loose)
    for v in loose:
        network.join((v, True), SINK, ENDLESS)
    while waiting:
        v = waiting.pop()
        network.join((v, False), (v, True), v.type.nbytes)
        if not again(v):
            network.join(SOURCE, (v, False), ENDLESS)
            continue
        assert v.node is not None
        for u in v.node.inputs:
            if u in moving and u not in free:
                network.join((u, True), (v, False), ENDLESS)
                if u not in seen:
                    seen.add(u)
                    waiting.append(u)
    behind = network.behind()
    return {v for v in seen if (v, True) in behind and (v, False) not in behind}


Vertex = tuple[Value | None, bool]
"""A value before or after it is kept; the source and the sink hold none."""
SOURCE: Vertex = (None, False)
SINK: Vertex = (None, True)


class Network:
    """Vertices joined by pipes, through which as much flows as can."""

    def __init__(self) -> None:
        self.room: dict[Vertex, dict[Vertex, int]] = {SOURCE: {}, SINK: {}}

    def join(self, a: Vertex, b: Vertex, room: int) -> None:
        """Lay a pipe."""
        self.room.setdefault(a, {})[b] = room
        self.room.setdefault(b, {}).setdefault(a, 0)

    def behind(self) -> set[Vertex]:
        """The vertices from which the sink can be reached in the residual network of a maximum flow."""
        while path := self.path():
            flow = min(self.room[a][b] for a, b in path)
            for a, b in path:
                self.room[a][b] -= flow
                self.room[b][a] += flow
        found, waiting = {SINK}, [SINK]
        while waiting:
            here = waiting.pop()
            for other in self.room[here]:
                if other not in found and self.room[other][here] > 0:
                    found.add(other)
                    waiting.append(other)
        return found

    def path(self) -> list[tuple[Vertex, Vertex]]:
        """A shortest way from the source to the sink through pipes with room; empty where there is none."""
        came: dict[Vertex, Vertex] = {SOURCE: SOURCE}
        waiting = deque([SOURCE])
        while waiting and SINK not in came:
            here = waiting.popleft()
            for other, room in self.room[here].items():
                if room > 0 and other not in came:
                    came[other] = here
                    waiting.append(other)
        steps: list[tuple[Vertex, Vertex]] = []
        at: Vertex = SINK
        while at in came and at != SOURCE:
            steps.append((came[at], at))
            at = came[at]
        return steps
