"""One run of layers: where each operand of a layer comes from, and what of it is read elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.passes.rolling.runs import LEAST, Stretch, phases
from wholestep.passes.rolling.signature import Members, Signatures, constant


class Inner(NamedTuple):
    """An operand that an earlier operation of the same layer makes."""

    node: int
    out: int
    layers_back: int = 0
    """What tells it from `Carried`: tuples of different classes are equal where their fields are."""


class Carried(NamedTuple):
    """An operand that an operation of the layer before makes."""

    node: int
    out: int
    layers_back: int = 1


class Outer(NamedTuple):
    """An operand from outside of the run."""


Source = Inner | Carried | Outer
OUTER = Outer()


class Carry(NamedTuple):
    """What a layer hands to the next one: an output of an operation, or an operand; and what the first one is given."""

    node: int
    out: int
    init: Value


class Run:
    """Equal layers in a row: `layers[k]` are the operations of one, and `sources` says where its operands come from."""

    def __init__(self, layers: list[Sequence[Node]], sources: list[tuple[Source, ...]], signatures: Signatures) -> None:
        self.layers = layers
        self.sources = sources
        self.signatures = signatures

    @property
    def count(self) -> int:
        return len(self.layers)

    def cut(self, first: int, last: int) -> None:
        """Keep the layers from `first` to `last`; the others stay written out."""
        self.layers = self.layers[first:last]

    def operands(self, q: int, o: int) -> Members:
        """One operand of one operation, in each layer."""
        return self.signatures.ones([layer[q].inputs[o] for layer in self.layers])

    def made(self, q: int, out: int) -> Members:
        """One output of one operation, in each layer."""
        return tuple([layer[q].outputs[out] for layer in self.layers])

    def outer(self) -> dict[Members, None]:
        """What layers read from outside, each once."""
        places = [(q, o) for q, row in enumerate(self.sources) for o, s in enumerate(row) if s is OUTER]
        return {self.operands(q, o): None for q, o in places}

    def carries(self) -> dict[tuple[int, int], Carry]:
        """What each operand that comes from the layer before is."""
        return {
            (q, o): Carry(s.node, s.out, self.signatures.one(self.layers[0][q].inputs[o]))
            for q, row in enumerate(self.sources)
            for o, s in enumerate(row)
            if isinstance(s, Carried)
        }


def varying(run: Run) -> list[Members]:
    """What a run reads from outside that is another value in each layer."""
    return [t for t in run.outer() if any(v is not t[0] for v in t)]


def delays(tuples: Sequence[Members]) -> dict[Members, Members]:
    """Operands that another operand was in the layer before: such a one is handed on, and not read again."""
    behind = {t[:-1]: t for t in tuples}
    found: dict[Members, Members] = {}
    for t in tuples:
        source = behind.get(t[1:])
        if source is not None and source is not t and source not in found and not all(constant(v) for v in t):
            found[t] = source
    return found


def run_of(
    nodes: Sequence[Node],
    stretch: Stretch,
    position: dict[Value, int],
    signatures: Signatures,
    earlier: Sequence[Run],
) -> Run | None:
    """The run of a repeated stretch whose layers are also wired alike; None where it is short.

    Of the places where layers may be cut apart, it takes the one where its layers are those of earlier runs and the
    least is handed on from layer to layer, and one right behind the operation that makes it: what is done element by
    element goes along with what comes before.
    """
    found = [cut_at(nodes, stretch, t, position, signatures) for t in phases(nodes, stretch, position)]
    runs = [run for run in found if run is not None]
    return min(runs, key=lambda run: (handed_on(run) + misfits(run, earlier), not ends(run), -run.count), default=None)


def misfits(run: Run, earlier: Sequence[Run]) -> int:
    """The bytes of what a layer reads that belongs to another layer of an earlier run than the rest of it."""
    late = delays(varying(run))
    tuples = [t for t in varying(run) if t not in late]
    total: int = 0
    for other in earlier:
        index = layers_of(other)
        found = {t: offsets(t, index) for t in tuples}
        votes = Counter([offset for t in tuples for offset in found[t]])
        if votes:
            best = max(votes, key=lambda offset: votes[offset])
            total += sum([int(t[0].type.nbytes) for t in tuples if found[t] and best not in found[t]])
    return total


def layers_of(run: Run) -> dict[Value, set[int]]:
    """The layers that a value belongs to: the one that reads it from outside, makes it, or is handed it."""
    found: dict[Value, set[int]] = {}
    rows = [*varying(run)]
    for q, node in enumerate(run.layers[0]):
        rows += [run.made(q, out) for out in range(len(node.outputs))]
    for c in dict.fromkeys(run.carries().values()):
        rows.append((c.init, *run.made(c.node, c.out)[:-1]))
    for t in rows:
        for k, v in enumerate(t):
            found.setdefault(v, set()).add(k)
    return found


def offsets(t: Members, index: dict[Value, set[int]]) -> set[tuple[int, int]]:
    """How the layers of a row may lie to those of another run: the direction, and the layer that meets the first."""
    k = len(t) // 2
    pairs = [(a, b) for a in index.get(t[k - 1], ()) for b in index.get(t[k], ()) if abs(a - b) == 1]
    return {(b - a, b - (b - a) * k) for a, b in pairs}


def ends(run: Run) -> bool:
    """Whether a layer ends with what it hands on, and the next one does not begin with an elementwise operation."""
    first, last = run.layers[0][0], len(run.layers[0]) - 1
    return first.op.kind != "elementwise" and any(c.node == last for c in run.carries().values())


def handed_on(run: Run) -> int:
    """The bytes that pass from one layer to the next."""
    passed = [c.init for c in dict.fromkeys(run.carries().values())]
    passed += [t[0] for t in delays(varying(run)) if t[0].node is not None]
    return sum([int(v.type.nbytes) for v in passed])


def cut_at(
    nodes: Sequence[Node], stretch: Stretch, shift: int, position: dict[Value, int], signatures: Signatures
) -> Run | None:
    """The longest run of layers of which the first begins so far into the stretch."""
    period = stretch.period
    start = stretch.start + shift
    count = (stretch.end - start) // period
    layers = [nodes[start + k * period : start + (k + 1) * period] for k in range(count)]
    wired = [wiring(nodes, start + k * period, start, period, position) for k in range(count)]
    common = Counter([w for w in wired if w is not None]).most_common(1)
    if not common:
        return None
    sources = common[0][0]
    first, last = longest([w == sources for w in wired])
    if first and begins(wired[first - 1], sources):
        first -= 1
    if last - first < LEAST:
        return None
    return Run(layers[first:last], list(sources), signatures)


def wiring(
    nodes: Sequence[Node], at: int, start: int, period: int, position: dict[Value, int]
) -> tuple[tuple[Source, ...], ...] | None:
    """Where each operand of a layer comes from; None where one comes from a layer further back."""
    rows: list[tuple[Source, ...]] = []
    for node in nodes[at : at + period]:
        row: list[Source] = []
        for v in node.inputs:
            i = position.get(v, -1)
            if i < start:
                row.append(OUTER)
                continue
            if i < at - period:
                return None
            if v.node is None or v.node is not nodes[i]:
                return None  # a part of something made in here
            out = v.node.outputs.index(v)
            row.append(Inner(i - at, out) if i >= at else Carried(i - at + period, out))
        rows.append(tuple(row))
    return tuple(rows)


def longest(flags: Sequence[bool]) -> tuple[int, int]:
    """The longest stretch of flags that are set."""
    best, first = (0, 0), 0
    for i, flag in enumerate([*flags, False]):
        if not flag:
            best, first = max(best, (first, i), key=lambda s: s[1] - s[0]), i + 1
    return best


def begins(wired: tuple[tuple[Source, ...], ...] | None, sources: tuple[tuple[Source, ...], ...]) -> bool:
    """Whether a layer is the first of those wired so: what they get from the layer before, it gets from outside."""
    if wired is None:
        return False
    pairs = [(a, b) for x, y in zip(wired, sources, strict=True) for a, b in zip(x, y, strict=True)]
    return all(a == b or (a is OUTER and isinstance(b, Carried)) for a, b in pairs)
