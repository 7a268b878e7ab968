"""Loads whose lanes lie far apart but whose copies lie side by side: read along the copies, turned in registers."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.codegen import vectors
from wholestep.backends.cpu.codegen.facts import Axes
from wholestep.backends.cpu.codegen.forms import typed
from wholestep.backends.cpu.codegen.places import Place, Places
from wholestep.backends.cpu.codegen.writer import Writer
from wholestep.kernel.lang import Axis, Index


def neighbours(w: Writer, axes: Axes, index: Index, place: Place) -> Axis | None:
    """The axis along which the copies of a load are next to each other in memory while its lanes are not, where the
    copies fill at least half of a vector; None where there is no such axis."""
    if not place.lanes or abs(place.stride) < 2 or place.vectors:
        return None
    along = next((a for a in axes if a.lanes == 1 and index.coefficient(a) == 1), None)
    if along is None or any(along in term.value.axes for term in place.scalars):
        return None
    return along if w.scopes[along].count * 2 >= place.lanes else None


def transposed(
    w: Writer, places: Places, place: Place, axes: Axes, along: Axis, live: list[int]
) -> Callable[[int], str]:
    """How a copy is had: the first one asked for of each square block writes the whole block."""
    lanes, made, count = place.lanes, place.form, w.scopes[along].count
    weight = w.copies(axes[axes.index(along) + 1 :])
    columns: dict[int, str] = {}

    def block(first: int) -> None:
        """The square block whose first column is this copy."""
        wide = min(lanes, count - first // weight % count)
        on = vectors.allowed(w, lanes, wide, None)
        rows = ["zeroinitializer"] * lanes
        for row in range(live[first]):
            where = places.address(place, first, row * place.stride * made.size)
            rows[row] = vectors.load(w, made, lanes, where, on)
        for column, name in enumerate(turned(w, typed(made.memory, lanes), rows)[:wide]):
            columns[first + column * weight] = name

    def column(copy: int) -> str:
        if copy not in columns:
            block(copy - (copy // weight % count % lanes) * weight)
        return columns[copy]

    return column


def turned(w: Writer, kind: str, rows: list[str]) -> list[str]:
    """The columns of a square of a power of two rows: in each stage, two rows exchange every other run of lanes."""
    n, run = len(rows), len(rows) // 2
    while run:
        low = [n + i - run if i & run else i for i in range(n)]
        high = [n + i if i & run else i + run for i in range(n)]
        for a in range(n):
            if not a & run:
                x, y = rows[a], rows[a + run]
                rows[a], rows[a + run] = w.shuffle(kind, x, y, *low), w.shuffle(kind, x, y, *high)
        run //= 2
    return rows
