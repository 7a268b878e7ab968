"""Order: works one after another, so that what is read was written, and what is replaced is no longer needed."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence

from wholestep.errors import PlanError
from wholestep.kernel.lang import Buffer, Kernel, Loop, Statement, Store, Var
from wholestep.lower.plan import Call, Place, Step
from wholestep.lower.work import Work

LITTLE = 256
"""Bytes that a value may take without anybody minding when it is made."""


def overwrites(place: Place) -> Place | None:
    """The memory that writing to a place destroys: a resident output lies in that of the input that it replaces."""
    found = place.memory()
    return None if found is place else found


def ordered(works: list[Work], outside: Container[Place] = ()) -> list[Work]:
    """The works in an order that keeps every value until its last reader; where there is none, through a copy."""
    works = [part for work in works for part in apart(work)]
    while True:
        found = topological(works, outside)
        if isinstance(found, list):
            return found
        if found.home or not any(overwrites(p) for p in found.writes):
            raise PlanError("order: kernels wait for each other")
        at = works.index(found)
        works[at : at + 1] = detoured(found)


def apart(work: Work) -> list[Work]:
    """A kernel that would destroy what it still has to read writes elsewhere first."""
    if work.written is None:
        return [work]
    names = dict(zip(work.written.places, work.written.kernel.buffers, strict=True))
    for place in work.writes:
        old = overwrites(place)
        for read in work.reads:
            if old is not None and read is not place and read.memory() is old:
                if not in_place(work.written.kernel, names[read], names[place]):
                    return detoured(work)
    return [work]


def detoured(work: Work) -> list[Work]:
    """A work that writes its resident results to temporary places, and the copies that bring them home."""
    homes = []
    for place in work.writes:
        if overwrites(place) is not None:
            homes.append(copy_work(Place(place.size, base=place.base), place))
            place.file, place.base = place.root().file, None
    return [work, *homes]


def copy_work(target: Place, source: Place) -> Work:
    """The bytes of one place written to another."""

    def steps() -> tuple[Step, ...]:
        return (Call("copy", (target.address(), source.address()), (target.size,)),)

    return Work((source,), (target,), steps, home=True)


def topological(works: Sequence[Work], outside: Container[Place]) -> list[Work] | Work:
    """The works in order; or one that stands in the way of an order."""
    writer: dict[Place, list[int]] = {}
    readers: dict[Place, list[tuple[Place, int]]] = {}
    for i, work in enumerate(works):
        for p in work.writes:
            writer.setdefault(p, []).append(i)
        for p in work.reads:
            readers.setdefault(p.memory(), []).append((p, i))
    checks = [i for i, work in enumerate(works) if work.check]
    after: list[set[int]] = [set() for _ in works]
    for i, work in enumerate(works):
        for p in work.reads:
            after[i].update(w for w in writer.get(p, ()) if w < i or p not in work.writes)
        for p in work.writes:
            after[i].update(w for w in writer[p] if w < i)
            old = overwrites(p)
            if old is not None:
                after[i].update(j for q, j in readers.get(old, ()) if q is not p)
                after[i].update(checks)
        after[i].discard(i)
    return kahn(works, after, outside)


def kahn(works: Sequence[Work], after: list[set[int]], outside: Container[Place]) -> list[Work] | Work:
    """Topological order; a work that writes something resident where there is none.

    First whatever frees more memory than it takes, or takes next to none and may be waited for; then what stands first.
    """
    waiting: list[list[int]] = [[] for _ in works]
    count = [len(a) for a in after]
    for i, before in enumerate(after):
        for j in before:
            waiting[j].append(i)
    balance = Balance(works, outside)
    ready = [i for i, n in enumerate(count) if n == 0]
    heapq.heapify(ready)
    urgent = [i for i in ready if balance.urgent(i)]
    out: list[int] = []
    done: set[int] = set()
    while ready:
        i = heapq.heappop(urgent) if urgent else heapq.heappop(ready)
        if i in done:
            continue
        done.add(i)
        out.append(i)
        for j in waiting[i]:
            count[j] -= 1
            if count[j] == 0:
                heapq.heappush(ready, j)
        for j in (*waiting[i], *balance.run(i)):
            if count[j] == 0 and j not in done and balance.urgent(j):
                heapq.heappush(urgent, j)
    if len(out) == len(works):
        return [works[i] for i in out]
    stuck = [w for i, w in enumerate(works) if count[i] > 0]
    return next((w for w in stuck if not w.home and any(overwrites(p) for p in w.writes)), stuck[0])


class Balance:
    """The bytes of temporary values that each work would take or, below 0, free, if it ran now."""

    def __init__(self, works: Sequence[Work], outside: Container[Place]) -> None:
        self.users: dict[Place, set[int]] = {}
        self.made: set[Place] = set()
        self.uses = [own((*work.reads, *work.writes), outside) for work in works]
        for i, places in enumerate(self.uses):
            for p in places:
                self.users.setdefault(p, set()).add(i)

    def urgent(self, i: int) -> bool:
        """Whether a work takes next to nothing, or less than it frees."""
        taken = sum(p.nbytes for p in self.uses[i] if p not in self.made)
        return taken <= LITTLE or taken < sum(p.nbytes for p in self.uses[i] if len(self.users[p]) == 1)

    def run(self, i: int) -> Iterator[int]:
        """Note that a work has run; gives the last users that some values now have left."""
        self.made.update(self.uses[i])
        for p in self.uses[i]:
            self.users[p].discard(i)
            if len(self.users[p]) == 1:
                yield from self.users[p]


def own(places: Iterable[Place], outside: Container[Place]) -> list[Place]:
    """Of some places the temporary ones, by their outermost place, each once."""
    roots = dict.fromkeys([p.root() for p in places])
    return [p for p in roots if p.ref is None and p not in outside]


def in_place(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """Whether a kernel may write `new` over `old`: each element is read, where at all, in the step that writes it."""
    stores: list[tuple[int, Store]] = []
    loads: list[tuple[int, Var]] = []

    def visit(body: Sequence[Statement], depth: int) -> None:
        for s in body:
            if isinstance(s, Loop):
                visit(s.body, id(s))
            elif isinstance(s, Store) and s.buffer is new:
                stores.append((depth, s))
            elif isinstance(s, Var) and s.op == "load" and s.attr[0] is old:
                loads.append((depth, s))

    visit(kernel.body, 0)
    if old.dtype != new.dtype or len(stores) != 1:
        return not loads
    body, store = stores[0]
    return all(where == body and load.attr[1] == store.index for where, load in loads)
