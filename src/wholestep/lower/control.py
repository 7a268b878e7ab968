"""Control flow: scans, loops and branches as native control flow around the steps of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep.dims import SymbolicError
from wholestep.ir.analysis import reordered
from wholestep.ir.graph import Graph, Node, Value
from wholestep.lower.access import Home
from wholestep.lower.order import overwrites
from wholestep.lower.plan import Branch, Call, Place, Ref, Repeat, Step, While
from wholestep.lower.storage import Storage
from wholestep.lower.work import ARENA, Lowered, Work, home_of


def demands(low: Storage, node: Node) -> None:
    """Bodies read whole arrays."""
    for x in node.inputs:
        low.want_steps(x)


def home(low: Storage, v: Value) -> Home:
    """Where an operand or result is; one without elements is nowhere in particular."""
    return low.homes.get(v) or home_of(v, Place(0, Ref(ARENA)))


def over(place: Place) -> Place:
    """The place of what replaces a value."""
    return Place(place.size, base=place)


def pair(target: Home, source: Home) -> tuple[Place, Place]:
    """Two places, of which one is to get what is in the other, byte by byte."""
    if target.strides != source.strides:
        raise SymbolicError("what a loop carries lies in another order before it: one of symbolic size is not first")
    return target.place, source.place


def copies(pairs: Sequence[tuple[Place, Place]]) -> tuple[Step, ...]:
    """Steps that bring values to where a loop changes them; none for one that is there already."""
    moved = [(t.address(), s.address(), t.size) for t, s in pairs if t.nbytes]
    return tuple([Call("copy", (t, s), (n,)) for t, s, n in moved if t != s])


def row(v: Value, at: Home, loop: int) -> Home:
    """One element along the first axis of a value, moving on with a loop."""
    nbytes = v.type.nbytes // v.shape[0] if v.shape[0] else 0
    step = at.strides[0] * v.dtype.itemsize
    return Home(Place(nbytes, base=at.place, moves=((loop, step),)), at.strides[1:])


def pass_through(rows: Sequence[Place]) -> None:
    """Where one of the stacked values that a loop runs along lies in a file, so do the temporary ones beside it."""
    roots = [place.root() for place in rows]
    if any(root.file for root in roots):
        for root in roots:
            root.file = root.file or root.ref is None


def results(low: Storage, node: Node, first: int, carries: int) -> tuple[list[Home], list[tuple[Place, Place]]]:
    """Where a loop makes its results, and the copies that bring home those that would have destroyed an operand.

    The operands from `first` on are what the carries start from: each of these may be overwritten by its own carry.
    """
    made, back = [], []
    for i, v in enumerate(node.outputs):
        found = home(low, v)
        others = [x for j, x in enumerate(node.inputs) if not (i < carries and j == first + i)]
        if (old := overwrites(found.place)) and any(home(low, x).place is old for x in others):
            found = Home(Place(found.place.size, file=old.root().file), found.strides)
            back.append((home(low, v).place, found.place))
        made.append(found)
    return made, back


def unmoved(low: Storage, v: Value, x: Value) -> Work:
    """A result that is what it started from."""
    target, source = pair(home(low, v), home(low, x))
    return Work((source,), (target,), lambda: copies([(target, source)]))


def free(place: Place) -> bool:
    """Whether a place is temporary, in memory, of known size, and not yet part of another."""
    return place.ref is None and place.base is None and not place.file and isinstance(place.size, int)


def trailed(graph: Graph, sizes: tuple[int, int], outputs: Sequence[Home]) -> dict[int, int]:
    """The carries whose value at each step is one of the results: which result it is."""
    c, k = sizes
    found: dict[int, int] = {}
    for i, v in enumerate(graph.inputs[c : c + k]):
        at = graph.outputs.index(v, k) if v in graph.outputs[k:] else -1
        if at >= 0 and v.type.size and free(outputs[i].place) and free(outputs[at].place):
            found[i] = at
    return found


class Trail(NamedTuple):
    """A carry that is never moved: each step writes it one row further on, and the last of it is the result."""

    start: Place
    before: Home
    after: Home


def trail(node: Node, loop: int, last: Home, rows: Home, at: int) -> Trail:
    """Join the places of a carry and of the result that holds it at each step; there is one row more than steps."""
    nbytes, length, reverse = last.place.nbytes, node.params["length"], node.params["reverse"]
    base = Place(nbytes * (length + 1), value=node.outputs[at])
    rows.place.base, rows.place.offset = base, nbytes if reverse else 0
    last.place.base, last.place.offset = base, 0 if reverse else nbytes * length

    def moving(offset: int) -> Home:
        place = Place(nbytes, base=base, moves=((loop, nbytes),))
        place.offset = offset
        return Home(place, last.strides)

    start = Place(nbytes, base=base)
    start.offset = nbytes * length if reverse else 0
    return Trail(start, moving(nbytes if reverse else 0), moving(0 if reverse else nbytes))


def scan_works(low: Storage, node: Node) -> list[Work]:
    """A loop whose carry lies where its result goes."""
    graph, (c, k) = node.params["graph"], node.params["sizes"]
    length, reverse = node.params["length"], node.params["reverse"]
    if length == 0:
        return [unmoved(low, v, x) for v, x in zip(node.outputs[:k], node.inputs[c : c + k], strict=True)]
    loop = low.context.loop()
    fixed = [home(low, v) for v in node.inputs[:c]]
    init = [home(low, v) for v in node.inputs[c : c + k]]
    outputs, back = results(low, node, c, k)
    xs = [row(v, home(low, v), loop) for v in node.inputs[c + k :]]
    # Rows in files are written once and let go; what goes from step to step beside them stays in memory.
    joined = {} if any(h.place.root().file for h in xs) else trailed(graph, (c, k), outputs)
    trails = {i: trail(node, loop, outputs[i], outputs[at], at) for i, at in joined.items()}
    carry = [trails[i].before if i in trails else h for i, h in enumerate(outputs[:k])]
    after = [trails[i].after if i in trails else Home(over(h.place), h.strides) for i, h in enumerate(outputs[:k])]
    starts = [trails[i].start if i in trails else h.place for i, h in enumerate(outputs[:k])]
    ys = [row(node.outputs[at], outputs[at], loop) for at in range(k, len(outputs)) if at not in joined.values()]
    pass_through([h.place for h in (*xs, *ys)])
    body = reordered(graph, range(len(graph.inputs)), [at for at in range(len(outputs)) if at not in joined.values()])
    found = low.nested(body, [*fixed, *carry, *xs], [*after, *ys])
    pairs = [pair(Home(start, h.strides), i) for h, start, i in zip(outputs[:k], starts, init, strict=True)]

    def steps() -> tuple[Step, ...]:
        return (*copies(pairs), Repeat(loop, length, found.steps(), reverse), *copies(back))

    return [whole(low, node, steps, (found,), [place for _, place in back])]


def while_works(low: Storage, node: Node) -> list[Work]:
    """A loop that asks before each trip."""
    (p, b), predicate, graph = node.params["constants"], node.params["predicate"], node.params["body"]
    init = [home(low, v) for v in node.inputs[p + b :]]
    carry, back = results(low, node, p + b, len(node.outputs))
    asked = Place(1)
    given = [*[home(low, v) for v in node.inputs[:p]], *carry]
    test = low.nested(predicate, given, [home_of(predicate.outputs[0], asked)])
    after = [Home(over(h.place), h.strides) for h in carry]
    found = low.nested(graph, [*[home(low, v) for v in node.inputs[p : p + b]], *carry], after)
    pairs = [pair(h, i) for h, i in zip(carry, init, strict=True)]

    def steps() -> tuple[Step, ...]:
        return (*copies(pairs), While(test.steps(), asked.address(), found.steps()), *copies(back))

    return [whole(low, node, steps, (test, found), [asked, *[place for _, place in back]])]


def cond_works(low: Storage, node: Node) -> list[Work]:
    """One of several bodies, each of which writes the results."""
    index, *operands = node.inputs
    inputs = [home(low, v) for v in operands]
    outputs = [home(low, v) for v in node.outputs]
    found = [
        low.nested(graph, inputs, [Home(over(h.place), h.strides) for h in outputs])
        for graph in node.params["branches"]
    ]
    chosen = home(low, index).place

    def steps() -> tuple[Step, ...]:
        return (Branch(chosen.address(), tuple([lowered.steps() for lowered in found])),)

    return [whole(low, node, steps, found)]


def whole(
    low: Storage,
    node: Node,
    steps: Callable[[], tuple[Step, ...]],
    inner: Sequence[Lowered],
    scratch: Sequence[Place] = (),
) -> Work:
    """The work of a node with the graphs inside it."""
    reads = tuple(dict.fromkeys([home(low, v).place for v in node.inputs if v.type.size]))
    writes = tuple([home(low, v).place for v in node.outputs if v.type.size])
    check = any(w.check for found in inner for w in found.works)
    arenas = [place for found in inner for place in (found.arena, found.file)]
    return Work(reads, writes, steps, scratch=(*arenas, *scratch), check=check, inner=tuple(inner))
