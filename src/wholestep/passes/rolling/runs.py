"""Where a program repeats itself: stretches of operations that come again and again, each on what the last one made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.ir.graph import Node, Value
from wholestep.passes.rolling.signature import Signatures

LEAST = 4
"""How often a stretch must come for a loop to be made of it."""
WINDOW = 4
"""How many operations must look alike for a distance between them to be tried as the length of a layer."""
PERIODS = 32
"""How many distances are tried, those met most often."""


class Stretch(NamedTuple):
    """Operations from `start` on that repeat with `period`, up to `end`."""

    start: int
    end: int
    period: int

    @property
    def covered(self) -> int:
        return (self.end - self.start) // self.period * self.period


def stretches(nodes: Sequence[Node], signatures: Signatures) -> list[Stretch]:
    """The repeated stretches of a program, the longest first; none overlaps another."""
    marks = np.array([signatures.placed(node) for node in nodes], np.int64)
    found: list[Stretch] = []
    for period in periods(marks):
        found += repeats(marks, period)
    found.sort(key=lambda s: (-s.covered, s.period))
    free = np.ones(len(marks), bool)
    kept = []
    for s in found:
        if free[s.start : s.end].all():
            free[s.start : s.end] = False
            kept.append(s)
    return kept


def periods(marks: np.ndarray) -> list[int]:
    """Distances at which a few operations in a row come again, those met most often."""
    if len(marks) < LEAST + WINDOW:
        return []
    rows = np.lib.stride_tricks.sliding_window_view(marks, WINDOW)
    _, which = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    again = which.reshape(-1)[order][1:] == which.reshape(-1)[order][:-1]
    distances, counts = np.unique(np.diff(order)[again], return_counts=True)
    often = np.argsort(-counts * distances, kind="stable")[:PERIODS]
    return [int(d) for d in distances[often]]


def repeats(marks: np.ndarray, period: int) -> list[Stretch]:
    """The stretches that repeat with one period, at least LEAST times."""
    same = np.concatenate([[False], marks[:-period] == marks[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    return [
        Stretch(int(a), int(b) + period, period)
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if b - a >= (LEAST - 1) * period
    ]


def phases(nodes: Sequence[Node], stretch: Stretch, position: dict[Value, int]) -> list[int]:
    """Where in a stretch the first layer may begin: there the fewest bytes pass from one layer to the next."""
    start, end, period = stretch
    change = np.zeros(end - start + 2, np.int64)
    last: dict[Value, int] = {}
    for i in range(start, end):
        for v in nodes[i].inputs:
            at = position.get(v, -1)
            if start <= at and i - at < 2 * period:
                last[v] = i
    for v, i in last.items():
        change[position[v] - start + 1] += v.type.nbytes
        change[i - start + 1] -= v.type.nbytes
    middle = period * ((end - start) // period // 2)
    alive = np.cumsum(change)[middle : middle + period]
    return [int(t) for t in np.flatnonzero(alive == alive.min())]
