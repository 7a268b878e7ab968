"""Arrays, and trees of them, that a step has taken for constants, and a look at each call whether they have changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wholestep.errors import MutationError
from wholestep.frontend.array_watches import ArrayWatch, is_immutable, watch_named
from wholestep.frontend.closure_reads import Reading, readings
from wholestep.frontend.traced_function import TracedFunction


class TreeWatch:
    """A model or a container of arrays that a function reads by name: whether the same arrays are in it."""

    def __init__(self, reading: Reading) -> None:
        self.array, self.same, self.whole, self.where = reading.then, reading.holds, reading.holds, None
        self.reading = reading

    def __str__(self) -> str:
        return f"what {self.reading.name or 'the loss'} holds"


def watch_captures(programs: Iterable[TracedFunction], functions: Sequence[Any]) -> list[ArrayWatch | TreeWatch]:
    """Every array that these programs captured, and that these functions can read by name, unless it is fixed.

    And the trees of arrays that they read by name, in which another array may be put.
    """
    found: dict[int, ArrayWatch | TreeWatch] = {}
    for kept in [kept for program in programs for kept in program.constants]:
        if not is_immutable(kept.array):
            found.setdefault(id(kept.array), ArrayWatch(*kept))
    found |= {id(watch.array): watch for watch in watch_named(functions, set(found))}
    for reading in [r for f in functions for r in readings(f) if r.held is not None]:
        if any([isinstance(x, np.ndarray) for x in reading.held[0]]):
            found.setdefault(id(reading.then), TreeWatch(reading))
    return list(found.values())


def check_unchanged(watches: Iterable[ArrayWatch | TreeWatch], what: str, whole: bool = False) -> None:
    """Raise MutationError where an array is seen to have changed, or where `whole` has changed at all."""
    for watch in watches:
        if not (watch.whole() if whole else watch.same()):
            raise MutationError(
                f"{what}: an array captured when the step was compiled has changed since: {watch}",
                where=watch.where,
                hint="pass it in the batch or in buffers; captured arrays are constants of the program",
            )
