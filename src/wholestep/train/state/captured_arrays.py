"""Arrays, trees of arrays and numbers that are constants of a step; each call checks that they have not changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wholestep.errors import MutationError
from wholestep.frontend.array_watches import ArrayWatch, is_immutable, watch_named
from wholestep.frontend.closure_reads import Reading, is_number_or_word, readings
from wholestep.frontend.traced_function import TracedFunction


class TreeWatch:
    """The check that a model or a container, which a function reads by name, holds the same arrays."""

    def __init__(self, reading: Reading) -> None:
        self.array, self.same, self.whole, self.where = reading.then, reading.holds, reading.holds, None
        self.reading = reading

    def __str__(self) -> str:
        return f"what {self.reading.name or 'the loss'} holds"


class NumberWatch:
    """The check that a name which a function reads is still bound to an equal number or string."""

    def __init__(self, reading: Reading) -> None:
        self.array, self.same, self.whole, self.where = None, reading.stays, reading.stays, None
        self.reading = reading

    def __str__(self) -> str:
        return f"{self.reading.name}={self.reading.then!r:.40}"


Watch = ArrayWatch | TreeWatch | NumberWatch


def watched_thing(watch: Watch) -> Any:
    """The identity of a watched object: that of an array or a tree, or of the variable of a number."""
    if not isinstance(watch, NumberWatch):
        return id(watch.array)
    look: Any = watch.reading.look
    return id(getattr(look.func, "__self__", look.args[0])), watch.reading.name


def watch_captures(programs: Iterable[TracedFunction], functions: Sequence[Any]) -> list[Watch]:
    """The watches of all arrays that these programs captured or these functions read by name, unless immutable.

    Numbers that the functions read by name are watched too, and so are trees of arrays, whose arrays may be replaced.
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
    numbers = [NumberWatch(r) for r in read if is_number_or_word(r.then)]
    return [*found.values(), *{watched_thing(watch): watch for watch in numbers}.values()]


def check_unchanged(watches: Iterable[Watch], what: str, whole: bool = False) -> None:
    """Raise MutationError where a fast check finds an array or a number changed, or with `whole` a full one does."""
    for watch in watches:
        if not (watch.whole() if whole else watch.same()):
            if isinstance(watch, NumberWatch):
                name, now = watch.reading.name, watch.reading.look()
                last = re.findall(r"\w+", name)[-1]
                raise MutationError(
                    f"{what}: {name} was {watch.reading.then!r:.40} when the step was compiled, and is {now!r:.40} now",
                    hint=f"give it in the batch, as batch[{last!r}]; what is read by name is a constant of the program",
                )
            raise MutationError(
                f"{what}: an array captured when the step was compiled has changed since: {watch}",
                where=watch.where,
                hint="pass it in the batch or in buffers; captured arrays are constants of the program",
            )
