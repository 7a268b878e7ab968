"""What the order of works and their places in memory must satisfy: whoever reads a value finds it where it was left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from wholestep.dims import Size, most
from wholestep.errors import PlanError
from wholestep.lower.order import overwrites
from wholestep.lower.plan import Place
from wholestep.lower.work import Work


class Stay(NamedTuple):
    """A value in memory: the bytes inside the outermost place, and the works from its writer to its last reader."""

    place: Place
    root: Place
    start: int
    stop: int
    moves: tuple[tuple[int, Size], ...]
    first: int
    last: int
    written: tuple[int, ...]

    def meets(self, other: Stay) -> bool:
        """Whether two values share a byte."""
        together = self.root is other.root and self.moves == other.moves
        return together and self.start < other.stop and other.start < self.stop


def verify_works(works: Sequence[Work], scratch: Collection[Place]) -> None:
    """Check works that are in order and laid out in scratch memory; raises PlanError that names the first fault."""
    for t, work in enumerate(works):
        if work.check and any(replaces(p, scratch) for before in works[:t] for p in before.writes):
            raise PlanError(f"verify: the program may be left at {t} after something resident was written")
    found = list(stays(works, scratch))
    for a in found:
        if a.written and any(a.place in work.reads for work in works[: a.first]):
            raise PlanError(f"verify: {named(works[a.first])} writes, at {a.first}, what was read before")
        for b in found:
            for t in b.written if a is not b and a.meets(b) else ():
                if a.first < t < a.last or (t in (a.first, a.last) and together(works[t], a, b, scratch)):
                    raise PlanError(
                        f"verify: {named(works[t])} writes, at {t}, over bytes {a.start} to {a.stop}, "
                        f"which are needed from {a.first} to {a.last}"
                    )


def together(work: Work, a: Stay, b: Stay, scratch: Collection[Place]) -> bool:
    """Whether a work writes two values to one place, or over what it reads where it is no kernel: kernels are
    looked at by themselves, and the carry of a loop goes on from what it replaces."""
    if a.place in work.writes or a.place in work.scratch:
        return True
    return a.place in work.reads and work.written is None and not replaces(b.place, scratch)


def stays(works: Sequence[Work], scratch: Collection[Place]) -> Iterator[Stay]:
    """Every value that works read or write, and their scratch memory."""
    end = len(works)
    written: dict[Place, list[int]] = {}
    last: dict[Place, int] = {}
    for t, work in enumerate(works):
        for p in (*work.writes, *work.scratch):
            written.setdefault(p, []).append(t)
        for p in (*work.reads, *work.writes, *work.scratch):
            last[p] = t
    for p, t in last.items():
        root, start, moves = bottom(p)
        outside = p in written and root not in scratch
        times = tuple(written.get(p, ()))
        yield Stay(p, root, start, start + p.nbytes, moves, min(times, default=-1), end if outside else t, times)


def replaces(place: Place, scratch: Collection[Place]) -> bool:
    """Whether writing to a place destroys something resident, and not only what scratch memory held."""
    return overwrites(place) is not None and bottom(place)[0] not in scratch


def bottom(place: Place) -> tuple[Place, int, tuple[tuple[int, Size], ...]]:
    """The outermost place around this one, the offset in it, and how it moves with loops."""
    offset, moves = 0, place.moves
    while place.base is not None:
        offset, place = offset + most(place.offset), place.base
        moves = (*moves, *place.moves)
    return place, offset, moves


def named(work: Work) -> str:
    """What a work does."""
    return work.written.kernel.name if work.written is not None else "a routine"
