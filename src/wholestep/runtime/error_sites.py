"""Error sites: the points at which a running program may fail, and the errors that it fails with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wholestep.errors import BoundsError, DtypeError, Indexed, ParameterError, Where, WholestepError, show
from wholestep.ir.graph import Graph
from wholestep.lower.program.program import LoweredProgram

ERROR_TYPES: dict[str, type[WholestepError]] = {"bounds": BoundsError, "dtype": DtypeError, "value": ParameterError}


@dataclass(frozen=True, slots=True)
class ErrorSite:
    """A point in a program that can fail, named by its number in the program's list of them.

    The message is NumPy's, with {value}, {axis} and {size} where the numbers go.
    """

    kind: Literal["bounds", "linalg", "dtype", "value", "collective"]
    where: Where
    message: str = "indexing: index {value} is out of bounds for axis {axis} with size {size}"
    hint: str | None = None

    def text(self, value: int, axis: int, size: int) -> str:
        """The message with its numbers."""
        return self.message.format(value=value, axis=axis, size=size)

    def error(self, value: int, axis: int, size: int) -> Exception:
        """The error as the reference raises it, with the user's line."""
        text = self.text(value, axis, size)
        if isinstance(self.where, Indexed):
            return BoundsError(self.where.outside(value, size), where=self.where, hint=self.where.hint)
        if self.kind == "linalg":
            place = show(self.where)
            return np.linalg.LinAlgError(f"{text}\n  at {place}" if place else text)
        return ERROR_TYPES[self.kind](text, where=self.where, hint=self.hint)


def source_locations(graph: Graph) -> Iterator[Where]:
    """The user's line of every operation, in an order that depends on the graph alone."""
    return (node.where for part in graph.family() for node in part.nodes)


def pack_sites(graph: Graph, plan: LoweredProgram) -> list[Any]:
    """The failure sites of a program as JSON values: a line is its index among the graph's source locations."""
    wheres = list(source_locations(graph))
    return [
        # An unknown line has the index -1.
        [s.kind, list(map(str, s.facts)), wheres.index(s.where) if s.where in wheres else -1]
        for s in plan.sites
    ]


def unpack_sites(graph: Graph, packed: Sequence[Any]) -> tuple[ErrorSite, ...]:
    """The points where a program may fail, with their messages."""
    wheres = list(source_locations(graph)) if packed else []
    return tuple([unpack_site(kind, said, wheres[i] if i >= 0 else None) for kind, said, i in packed])


def pack_largest(graph: Graph, plan: LoweredProgram) -> tuple[str, int] | None:
    """The largest value in the arena of a program, and the index of its line among the graph's source locations."""
    found, wheres = plan.largest, list(source_locations(graph))
    return found and (found.what, wheres.index(found.where) if found.where in wheres else -1)


def largest_text(graph: Graph, packed: tuple[str, int]) -> str:
    """A value and its line, in words."""
    what, i = packed
    return f"{what} at {show(list(source_locations(graph))[i])}" if i >= 0 else what


def unpack_site(kind: Any, facts: Sequence[str], where: Where) -> ErrorSite:
    """A point where a program may fail, with its message."""
    if kind == "index":
        return ErrorSite("bounds", where)
    message, hint = facts
    return ErrorSite(kind, where, message, hint or None)
