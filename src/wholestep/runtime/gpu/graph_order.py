"""The order of a graph: each launch and copy waits for those before it that touch what it touches, and for no others.

a: x -> y; b: x -> z; c: y -> w    -->    a and b wait for nothing, c waits for a
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class TouchedBytes(NamedTuple):
    """The bytes from an address to before another that are read, or written."""

    begin: int
    end: int
    written: bool


class GraphOrder:
    """The nodes of a graph so far, by the bytes that they touched last."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int, int]] = []
        """The begin, the end and the node of bytes that nobody has written since."""
        self.writes: list[tuple[int, int, int]] = []
        self.nodes: list[Any] = []
        self.last: set[int] = set()
        """The nodes that no other one waits for."""

    def before(self, touched: Iterable[TouchedBytes]) -> list[Any]:
        """The nodes that one which touches these bytes waits for."""
        found: set[int] = set()
        for begin, end, written in touched:
            known = [*self.writes, *self.reads] if written else self.writes
            found |= {node for low, high, node in known if low < end and begin < high}
        self.last -= found
        return [self.nodes[i] for i in sorted(found)]

    def add(self, node: Any, touched: Sequence[TouchedBytes]) -> None:
        """Put a node at the end, which touches these bytes."""
        number = len(self.nodes)
        self.nodes.append(node)
        self.last.add(number)
        for begin, end, written in touched:
            if written:
                self.reads = [x for x in self.reads if not (begin <= x[0] and x[1] <= end)]
                self.writes = [x for x in self.writes if not (begin <= x[0] and x[1] <= end)]
        for begin, end, written in touched:
            (self.writes if written else self.reads).append((begin, end, number))

    def ends(self) -> list[Any]:
        """The nodes that no other one waits for."""
        return [self.nodes[i] for i in sorted(self.last)]
