"""Repeated sequences of isomorphic operations, found by the distance at which operations recur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.ir.graph import Node
from wholestep.passes.reroll.isomorphism import Isomorphism
from wholestep.passes.reroll.operand_table import OperandTable

MIN_TRIPS = 4
"""The fewest repetitions that become a loop."""
MATCHED_OPS = 4
"""The successive isomorphic operations that make a distance between them a candidate period."""
MAX_PERIODS = 32
"""The most candidate periods that are tried, the most frequent first."""


class RepeatedSequence(NamedTuple):
    """The operations from `start` on that repeat with `period`, up to `end`."""

    start: int
    end: int
    period: int

    @property
    def covered(self) -> int:
        return (self.end - self.start) // self.period * self.period


def find_repeats(nodes: Sequence[Node], signatures: Isomorphism) -> list[RepeatedSequence]:
    """The repeated sequences of a program, the longest first; none overlaps another."""
    marks = signatures.placed(nodes)
    found: list[RepeatedSequence] = []
    for period in candidate_periods(marks):
        found += repeats_with_period(marks, period)
    found.sort(key=lambda s: (-s.covered, s.period))
    free = np.ones(len(marks), bool)
    kept = []
    for s in found:
        if free[s.start : s.end].all():
            free[s.start : s.end] = False
            kept.append(s)
    return kept


def candidate_periods(marks: np.ndarray) -> list[int]:
    """The distances at which MATCHED_OPS successive operations recur, the most frequent first."""
    if len(marks) < MIN_TRIPS + MATCHED_OPS:
        return []
    rows = np.lib.stride_tricks.sliding_window_view(marks, MATCHED_OPS)
    _, which = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    again = which.reshape(-1)[order][1:] == which.reshape(-1)[order][:-1]
    distances, counts = np.unique(np.diff(order)[again], return_counts=True)
    often = np.argsort(-counts * distances, kind="stable")[:MAX_PERIODS]
    return [int(d) for d in distances[often]]


def repeats_with_period(marks: np.ndarray, period: int) -> list[RepeatedSequence]:
    """The sequences that repeat with one period, at least MIN_TRIPS times."""
    same = np.concatenate([[False], marks[:-period] == marks[period:], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    return [
        RepeatedSequence(int(a), int(b) + period, period)
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if b - a >= (MIN_TRIPS - 1) * period
    ]


def candidate_phases(stretch: RepeatedSequence, table: OperandTable) -> list[int]:
    """The offsets in a sequence where an iteration may begin: there the fewest bytes are live from one to the next."""
    start, end, period = stretch
    middle = period * ((end - start) // period // 2)
    alive = table.bytes_alive(start, end, period)[middle : middle + period]
    return [int(t) for t in np.flatnonzero(alive == alive.min())]
