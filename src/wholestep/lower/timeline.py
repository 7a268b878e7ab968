"""Timeline: what lies where in the arena, and from which kernel or routine to which, loops and branches opened up."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep.dims import most
from wholestep.lower.held import Held
from wholestep.lower.memory import Life, rounded
from wholestep.lower.plan import Place
from wholestep.lower.work import Lowered


def timeline(found: Lowered) -> list[Held]:
    """Every temporary value of a program, in the order in which they come to be; places have their addresses."""
    return sorted(spans(found, 0), key=lambda h: (h.start, h.offset))


def ticks(found: Lowered) -> int:
    """How many moments the works of a graph are."""
    return sum(max(sum(map(ticks, work.inner)), 1) for work in found.works)


def spans(found: Lowered, now: int) -> Iterator[Held]:
    """The temporary values of a graph whose first work runs at `now`, and of the graphs inside it."""
    first, last = [], []
    for work in found.works:
        first.append(now)
        for inner in work.inner:
            yield from spans(inner, now)
            now += ticks(inner)
        now = max(now, first[-1] + 1)
        last.append(now - 1)
    arenas = {inner.arena for work in found.works for inner in work.inner}
    for life in found.lives:
        if life.place not in arenas and life.place.nbytes:
            yield held(life, first[life.start], last[life.end])


def held(life: Life, start: int, end: int) -> Held:
    """A place, with the operation that first makes it and the user's line of that."""
    node = life.place.value.node if life.place.value is not None else None
    what = f"{node.op.name} {life.place.value.type}" if node is not None and life.place.value is not None else "scratch"
    return Held(offset(life.place), rounded(life.place.nbytes), start, end, what, node.where if node else None)


def offset(place: Place) -> int:
    """Where a place lies in the arena, for the sizes supposed."""
    return most(place.address().offset)
