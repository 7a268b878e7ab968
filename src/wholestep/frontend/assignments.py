"""Assignments to fields of models inside a function that becomes a part of the program: their values leave it too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.errors import Where, here
from wholestep.frontend.array import Array
from wholestep.ir.build import current


class FieldAssignment(NamedTuple):
    """An assignment to a field of a module: the field, its previous value, and the user's line."""

    module: Any
    field: str
    before: Any
    where: Where


class Assigned(tuple[Any, ...]):
    """A result, and the values assigned to fields meanwhile; `places` lists the module and field of each value."""

    places: tuple[tuple[Any, str], ...]

    def __new__(cls, items: Any, places: tuple[tuple[Any, str], ...]) -> Assigned:
        """A tuple with the modules and fields of its values."""
        made = super().__new__(cls, items)
        made.places = places
        return made


tree.register(Assigned, lambda a: (tuple(a), a.places), lambda places, parts: Assigned(parts, places))


_watched: ContextVar[list[FieldAssignment] | None] = ContextVar("watched assignments", default=None)


def note_assignment(module: Any, field: str, before: Any) -> None:
    """Note that a field is about to be assigned in the program that is being written."""
    builder, watched = current(), _watched.get()
    if builder is not None:
        made = FieldAssignment(module, field, before, here())
        builder.assigned.append(made)
        if watched is not None:
            watched.append(made)


@contextmanager
def watching_assignments() -> Iterator[list[FieldAssignment]]:
    """Record assignments in the list that it yields, including those to copies that transforms make."""
    seen: list[FieldAssignment] = []
    token = _watched.set(seen)
    try:
        yield seen
    finally:
        _watched.reset(token)


def with_assigned(f: Callable[..., Any], given: tuple[Any, Any]) -> Callable[..., Any]:
    """A function whose result is `Assigned` where it assigns fields of modules from outside.

    These are modules that it closes over, and modules among its arguments, `given`, of which it gets copies.
    """

    def assigning(*args: Any, **kwargs: Any) -> Any:
        out, builder = f(*args, **kwargs), current()
        noted = [] if builder is None else list(builder.assigned)
        if not noted:
            return out
        assert builder is not None
        builder.assigned.clear()
        pairs = zip(modules_in((args, kwargs)), modules_in(given), strict=True)
        homes = {id(copied): home for copied, home in pairs}
        found: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        for module, field, before, _ in noted:
            made_here = isinstance(before, Array) and before.value.builder is builder
            if (id(module), field) in found or not made_here:
                home = homes.get(id(module), module)
                found[id(module), field] = (home, field, vars(module)[field])
        places = tuple([(home, field) for home, field, _ in found.values()])
        return Assigned([out, *[value for *_, value in found.values()]], places) if places else out

    return assigning


def without_assigned(out: Any) -> Any:
    """The result of a function `with_assigned`; the fields that it assigned have their values afterwards."""
    if not isinstance(out, Assigned):
        return out
    made, *values = out
    for (module, field), value in zip(out.places, values, strict=True):
        setattr(module, field, value)
    return made


def modules_in(given: Any) -> list[Any]:
    """The modules in a tree and their parts, in order."""
    leaves, _ = tree.flatten(given, is_module)
    return [part for x in leaves if is_module(x) for part in x._parts()]


def is_module(x: Any) -> bool:
    """Test whether a value is a module, by a mark: the class of modules is defined on a higher floor."""
    return bool(getattr(type(x), "_is_module", False))
