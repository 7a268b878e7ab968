"""Arrangement: every temporary value of a program gets its address, inner graphs before those around them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from wholestep import config
from wholestep.lower.lives import verify_works
from wholestep.lower.memory import Life, assign, by_blocks, lower_bound, top
from wholestep.lower.order import in_place
from wholestep.lower.plan import Place
from wholestep.lower.work import Lowered, Work


def lay_out(found: Lowered) -> None:
    """Give every temporary place of the works its offset in their arena or file, and these the room they need.

    It may be done again: places are released first.
    """
    found.release()
    found.free = [(p, p.base, p.offset) for p in places_of(found.works)]
    share(found.works, found.outside)
    alive = lives(found.works, found.outside)
    for room in (found.file, found.arena):
        inside = [life for life in alive if life.place.file == room.file]
        fill(room, inside)
    found.bound, found.lives = lower_bound(inside), tuple(inside)  # of the arena, which comes last
    if config.check():
        verify_works(found.works, (found.arena, found.file))


def fill(room: Place, inside: Sequence[Life]) -> None:
    """Give places their offsets in the room that they share, what grows with a symbolic size behind the others."""
    even = [life for life in inside if isinstance(life.place.size, int)]
    growing = [life for life in inside if not isinstance(life.place.size, int)]
    offsets = assign(even)
    for life in even:
        life.place.offset = offsets[life.place]
    end = top(even, offsets)
    room.resize(by_blocks(growing, end) if growing else end)
    for life in inside:
        life.place.base = room


def size_of(found: Lowered) -> int:
    """The bytes of arena that works need; their places are afterwards as they were."""
    lay_out(found)
    found.release()
    return found.arena.nbytes


def places_of(works: Sequence[Work]) -> list[Place]:
    """Every place that works name, and the outermost ones that those lie in."""
    named = [p for work in works for p in (*work.reads, *work.writes, *work.scratch)]
    return list(dict.fromkeys([q for p in named for q in (p, p.root())]))


def lives(works: Sequence[Work], outside: Container[Place] = ()) -> list[Life]:
    """The temporary places of a list of works but for those outside, and when they are alive."""
    first: dict[Place, int] = {}
    last: dict[Place, int] = {}
    for t, work in enumerate(works):
        for p in (*work.reads, *work.writes, *work.scratch):
            root = p.root()
            if root.ref is None and root not in outside:
                first.setdefault(root, t)
                last[root] = t
    return [Life(p, first[p], last[p]) for p in first]


def share(works: Sequence[Work], outside: Container[Place]) -> None:
    """Let a kernel write its result over an operand that nobody reads again."""
    alive = {life.place: life for life in lives(works, outside)}
    for t, work in enumerate(works):
        if work.written is None:
            continue
        names = dict(zip(work.written.places, work.written.kernel.buffers, strict=True))
        for new in work.writes:
            if new not in alive or alive[new].start != t:
                continue
            for old in work.reads:
                root = old.root()
                ends_here = root in alive and alive[root].end == t and root is not new
                if not ends_here or old.size != new.size or root.size != new.size or old in work.writes:
                    continue
                if in_place(work.written.kernel, names[old], names[new]) and not taken(work, root, new):
                    new.base = root
                    alive[root] = Life(root, alive[root].start, alive[new].end)
                    break


def taken(work: Work, root: Place, new: Place) -> bool:
    """Whether another result of the work lies where this one would."""
    return any(p is not new and p.root() is root for p in work.writes)
