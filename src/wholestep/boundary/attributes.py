"""Names of other libraries as attributes of a class: reading one raises an error that names the replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wholestep.boundary.answers import unknown
from wholestep.boundary.foreign import NAMES
from wholestep.boundary.public import boundary

C = TypeVar("C", bound=type)


class Foreign:
    """A name of another library in a class of ours: reading it raises an error that names the replacement.

    A `__getattr__` would do the same, and make every other attribute of the class slower, which counts in calls that
    take microseconds.
    """

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name = place, name

    @boundary
    def __get__(self, instance: Any, owner: type) -> Any:
        raise unknown(self.place, self.name, owner.__name__)


def answering(place: str) -> Callable[[C], C]:
    """A class that answers to the names of other libraries in the table of `place`; `dir` does not list them."""

    def made(cls: C) -> C:
        foreign = [name for name in NAMES[place] if not hasattr(cls, name)]
        for name in foreign:
            setattr(cls, name, Foreign(place, name))
        listed: Any = cls.__dir__

        def own(self: Any) -> list[str]:
            return [name for name in listed(self) if name not in foreign]

        setattr(cls, "__dir__", own)  # noqa: B010 # type checkers take it for a method
        return cls

    return made
