"""Names of other libraries as attributes of a class, and assignments to its properties: errors that name the way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from wholestep.boundary.answers import unknown
from wholestep.boundary.foreign import ASSIGNED, NAMES
from wholestep.boundary.public import boundary
from wholestep.errors import UnknownNameError

C = TypeVar("C", bound=type)


class Foreign:
    """A name of another library in a class of ours: reading or assigning it raises an error with the replacement.

    A `__getattr__` would do the same, and make every other attribute of the class slower, which counts in calls that
    take microseconds.
    """

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name = place, name

    @boundary
    def __get__(self, instance: Any, owner: type) -> Any:
        raise unknown(self.place, self.name, owner.__name__)

    @boundary
    def __set__(self, instance: Any, value: Any) -> NoReturn:
        raise unknown(self.place, self.name, type(instance).__name__)


def read_only(name: str, own: property) -> property:
    """A property whose assignment raises an error that says how what it gives is changed."""

    def refuse(self: Any, value: Any) -> NoReturn:
        hint = ASSIGNED.get(name, "it is computed when it is read")
        raise UnknownNameError(f"{type(self).__name__}.{name} is read, and cannot be assigned", hint=hint)

    return property(own.fget, boundary(refuse), None, own.__doc__)


def answering(place: str) -> Callable[[C], C]:
    """A class that answers to the names of other libraries in the table of `place`; `dir` does not list them.

    An assignment to one of them, or to a property, names the way to change what it stands for.
    """

    def made(cls: C) -> C:
        foreign = [name for name in NAMES[place] if not hasattr(cls, name)]
        for name in foreign:
            setattr(cls, name, Foreign(place, name))
        for name in dir(cls):
            member = inspect.getattr_static(cls, name)
            if isinstance(member, property) and member.fset is None:
                setattr(cls, name, read_only(name, member))
        listed: Any = cls.__dir__

        def own(self: Any) -> list[str]:
            return [name for name in listed(self) if name not in foreign]

        setattr(cls, "__dir__", own)  # noqa: B010 # type checkers take it for a method
        return cls

    return made
