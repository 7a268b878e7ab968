"""The structure of a model: its modules, containers and plain values, with a number in the place of each array."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from wholestep import tree
from wholestep.frontend.frozen import Held


@dataclass(frozen=True, slots=True)
class Leaf:
    """The place of a parameter, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A frozen array or a buffer, and its number in their list; `wrapped` if a container holds it as `Frozen`."""

    kind: str
    number: int
    array: Held
    wrapped: bool


@dataclass(frozen=True, slots=True)
class Again:
    """A module that was met before, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Group:
    """A container: its class, the metadata that its class gives it, and its items with their keys."""

    cls: type[Any]
    metadata: Fixed
    keys: tuple[Hashable, ...]
    items: tuple[Any, ...]
    order: KeyOrder


@dataclass(frozen=True, slots=True)
class ModuleBody:
    """A module: its class, its marks, its ties, and its fields."""

    cls: type[Any]
    marks: tuple[tuple[str, str], ...]
    ties: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    fields: tuple[Any, ...]

    def __repr__(self) -> str:
        return self.cls.__name__


class Fixed:
    """A plain value in a structure, compared by class and ==; a value that cannot be compared equals itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed):
            return NotImplemented
        x, y = self.value, other.value
        if x is y:
            return True
        try:
            return type(x) is type(y) and bool(x == y)
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        try:
            return hash((type(self.value), self.value))
        except TypeError:
            return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


class KeyOrder:
    """The order of the keys of a dictionary, which the forward may see; outlines of models are equal without it."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[Hashable, ...]) -> None:
        self.keys = keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyOrder) and (self.keys == other.keys or tree.comparing_outlines())

    def __hash__(self) -> int:
        return hash(frozenset(self.keys))


def without_arrays(node: Any) -> Any:
    """A structure with only the places of its arrays, not the arrays."""
    if isinstance(node, Kept):
        return replace(node, array=EMPTY)
    if isinstance(node, Group):
        return replace(node, items=tuple([without_arrays(item) for item in node.items]))
    if isinstance(node, ModuleBody):
        return replace(node, fields=tuple([without_arrays(field) for field in node.fields]))
    return node


EMPTY = Held(None)
