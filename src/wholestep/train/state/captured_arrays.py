"""Arrays, trees of them and numbers that a step has taken for constants: have they changed, as each call asks."""

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


class NumberWatch:
    """A number or a word that a function reads by name: whether the name is bound to an equal one."""

    def __init__(self, reading: Reading) -> None:
        self.array, self.same, self.whole, self.where = None, reading.stays, reading.stays, None
        self.reading = reading

    def __str__(self) -> str:
        return f"{self.reading.name}={self.reading.then!r:.40}"


Watch = ArrayWatch | TreeWatch | NumberWatch


def watched_thing(watch: Watch) -> Any:
    """The identity of a watched thing: that of an array or a tree, for a number that of the variable."""
    if not isinstance(watch, NumberWatch):
        return id(watch.array)
    look: Any = watch.reading.look
    return id(getattr(look.func, "__self__", look.args[0])), watch.reading.name


def watch_captures(programs: Iterable[TracedFunction], functions: Sequence[Any]) -> list[Watch]:
    """Every array that these programs captured, and that these functions can read by name, unless it is fixed.

    And the numbers that they read by name, and trees of arrays, in which another array may be put.
    """
    found: dict[int, Watch] = {}
    for kept in [kept for program in programs for kept in program.constants]:
        if not is_immutable(kept.array):
            found.setdefault(id(kept.array), ArrayWatch(*kept))
    found |= {id(watch.array): watch for watch in watch_named(functions, set(found))}
    read = [r for f in functions for r in readings(f)]
    for reading in [r for r in read if r.held is not None]:
        if any([isinstance(x, np.ndarray) for x in reading.held[0]]):
            found.setdefault(id(reading.then), TreeWatch(reading))
    numbers = [NumberWatch(r) for r in read if isinstance(r.then, int | float | complex | str)]
    return [*found.values(), *{watched_thing(watch): watch for watch in numbers}.values()]


def check_unchanged(watches: Iterable[Watch], what: str, whole: bool = False) -> None:
    """Raise MutationError where an array or a number is seen to have changed, or where `whole` has changed at all."""
    for watch in watches:
        if not (watch.whole() if whole else watch.same()):
            if isinstance(watch, NumberWatch):
                name, now = watch.reading.name, watch.reading.look()
                raise MutationError(
                    f"{what}: {name} was {watch.reading.then!r:.40} when the step was compiled, and is {now!r:.40} now",
                    hint=f"give it in the batch, as batch[{name!r}]; what is read by name is a constant of the program",
                )
            raise MutationError(
                f"{what}: an array captured when the step was compiled has changed since: {watch}",
                where=watch.where,
                hint="pass it in the batch or in buffers; captured arrays are constants of the program",
            )
