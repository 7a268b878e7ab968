"""Repeated regions: isomorphic iterations in a row, with the source of each operand of an iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wholestep.ir.graph import NDArray, Node, Value
from wholestep.passes.reroll.isomorphism import Isomorphism, Pack, is_constant
from wholestep.passes.reroll.operand_table import OUTSIDE_CODE, TOO_FAR_CODE, OperandTable
from wholestep.passes.reroll.repeats import MIN_TRIPS, RepeatedSequence, candidate_phases


@dataclass(frozen=True, slots=True)
class SameIteration:
    """An operand made by an earlier operation of the same iteration."""

    node: int
    out: int


@dataclass(frozen=True, slots=True)
class PreviousIteration:
    """An operand made by an operation of the iteration before."""

    node: int
    out: int


class OutsideLoop(NamedTuple):
    """An operand made outside of the region."""


Source = SameIteration | PreviousIteration | OutsideLoop
OUTSIDE = OutsideLoop()


class LoopCarry(NamedTuple):
    """A loop-carried value: the output of an operation that the next iteration reads, and its initial value."""

    node: int
    out: int
    init: Value


class RerollRegion:
    """Isomorphic iterations: `layers[k]` are the operations of one, and `sources` the sources of their operands."""

    def __init__(
        self, layers: list[Sequence[Node]], sources: list[tuple[Source, ...]], signatures: Isomorphism
    ) -> None:
        self.layers = layers
        self.sources = sources
        self.isomorphism = signatures
        self.read_packs: dict[tuple[int, int], Pack] = {}
        self.made_packs: dict[tuple[int, int], Pack] = {}
        """The packs of operands and of outputs that were asked for, by operation and place."""

    @property
    def count(self) -> int:
        return len(self.layers)

    def cut(self, first: int, last: int) -> None:
        """Keep the iterations from `first` to `last`; the others stay unrolled."""
        self.layers = self.layers[first:last]
        self.read_packs.clear()
        self.made_packs.clear()
        for fact in (name for name, fact in vars(RerollRegion).items() if isinstance(fact, cached_property)):
            self.__dict__.pop(fact, None)

    def operands(self, q: int, o: int) -> Pack:
        """The pack of one operand of one operation over the iterations."""
        found = self.read_packs.get((q, o))
        if found is None:
            found = self.read_packs[q, o] = self.isomorphism.pack_of([layer[q].inputs[o] for layer in self.layers])
        return found

    def made(self, q: int, out: int) -> Pack:
        """The pack of one output of one operation over the iterations."""
        found = self.made_packs.get((q, out))
        if found is None:
            found = self.made_packs[q, out] = tuple([layer[q].outputs[out] for layer in self.layers])
        return found

    @cached_property
    def outer(self) -> dict[Pack, None]:
        """The packs that iterations read from outside, each once."""
        places = [(q, o) for q, row in enumerate(self.sources) for o, s in enumerate(row) if s is OUTSIDE]
        return {self.operands(q, o): None for q, o in places}

    def carries(self) -> dict[tuple[int, int], LoopCarry]:
        """The loop-carried value of each operand that comes from the iteration before."""
        return {
            (q, o): LoopCarry(s.node, s.out, self.isomorphism.representative(self.layers[0][q].inputs[o]))
            for q, row in enumerate(self.sources)
            for o, s in enumerate(row)
            if isinstance(s, PreviousIteration)
        }

    def distinct_carries(self) -> dict[LoopCarry, None]:
        """The loop-carried values, each once."""
        return dict.fromkeys(self.carries().values())

    def carried(self, c: LoopCarry) -> Pack:
        """The pack of a loop-carried value at the start of the iterations."""
        return (c.init, *self.made(c.node, c.out)[:-1])

    def results(self) -> Iterator[tuple[int, int, Pack]]:
        """The operations and outputs of an iteration, each with its pack."""
        for q, node in enumerate(self.layers[0]):
            for out in range(len(node.outputs)):
                yield q, out, self.made(q, out)

    def available_packs(self) -> list[Pack]:
        """The packs that the region can stack: its loop-carried values, and the results of its operations."""
        return [*map(self.carried, self.distinct_carries()), *[t for _, _, t in self.results()]]

    @cached_property
    def varying_operands(self) -> list[Pack]:
        """The packs that it reads from outside and that are not loop-invariant."""
        return [t for t in self.outer if any(v is not t[0] for v in t)]

    @cached_property
    def delayed_operands(self) -> dict[Pack, Pack]:
        """Varying packs that are another one shifted by one iteration: these are carried instead of read again."""
        varying = self.varying_operands
        behind = {t[:-1]: t for t in varying}
        found: dict[Pack, Pack] = {}
        for t in varying:
            source = behind.get(t[1:])
            if source is not None and source is not t and source not in found and not all(is_constant(v) for v in t):
                found[t] = source
        return found

    @cached_property
    def stacked_operands(self) -> list[Pack]:
        """The varying packs that are read anew in each iteration."""
        late = self.delayed_operands
        return [t for t in self.varying_operands if t not in late]

    @cached_property
    def compared_operands(self) -> list[Pack]:
        """The packs that are read anew and not all constants; inputs decide first which iterations correspond."""
        found = [t for t in self.stacked_operands if not all(is_constant(v) for v in t)]
        return sorted(found, key=lambda t: t[0].node is not None)

    @cached_property
    def packs_of(self) -> dict[Value, list[Pack]]:
        """The packs, stackable or read from outside, that each value belongs to, in order."""
        found: dict[Value, list[Pack]] = {}
        for t in [*self.available_packs(), *self.varying_operands]:
            for v in t:
                found.setdefault(v, []).append(t)
        return found

    @cached_property
    def iterations(self) -> dict[Value, set[int]]:
        """The iterations that a value belongs to: those that read it from outside, make it, or carry it in."""
        found: dict[Value, set[int]] = {}
        for t in [*self.varying_operands, *self.available_packs()]:
            for k, v in enumerate(t):
                found.setdefault(v, set()).add(k)
        return found


def region_of(
    nodes: Sequence[Node],
    stretch: RepeatedSequence,
    table: OperandTable,
    signatures: Isomorphism,
    earlier: Sequence[RerollRegion],
) -> RerollRegion | None:
    """The region of a repeated sequence whose iterations also have the same operand sources; None where it is short.

    Of the offsets where an iteration may begin, it takes the one with the fewest bytes that are carried or belong to
    other iterations than in earlier regions, and one right after the operation that computes a carry, so that
    elementwise operations stay in one iteration with the operation before them.
    """
    found = [region_at_phase(nodes, stretch, t, table, signatures) for t in candidate_phases(stretch, table)]
    regions = [region for region in found if region is not None]
    return min(
        regions,
        key=lambda region: (
            carried_bytes(region) + misaligned_bytes(region, earlier),
            not ends_with_carry(region),
            -region.count,
        ),
        default=None,
    )


def misaligned_bytes(region: RerollRegion, earlier: Sequence[RerollRegion]) -> int:
    """The bytes of operands that belong to another iteration of an earlier region than most operands do."""
    return sum([int(t[0].type.nbytes) for other in earlier for t in misaligned_operands(region, other)])


def misaligned_operands(region: RerollRegion, other: RerollRegion) -> list[Pack]:
    """The operands that belong to another iteration of another region than most operands do."""
    tuples = region.stacked_operands
    found = {t: iteration_offsets(t, other.iterations) for t in tuples}
    votes = Counter([offset for t in tuples for offset in found[t]])
    best = max(votes, key=lambda offset: votes[offset], default=None)
    return [t for t in tuples if found[t] and best not in found[t]]


def iteration_offsets(t: Pack, index: dict[Value, set[int]]) -> set[tuple[int, int]]:
    """The alignments of a pack with another region: the direction, and the iteration that meets the first."""
    k = len(t) // 2
    pairs = [(a, b) for a in index.get(t[k - 1], ()) for b in index.get(t[k], ()) if abs(a - b) == 1]
    return {(b - a, b - (b - a) * k) for a, b in pairs}


def ends_with_carry(region: RerollRegion) -> bool:
    """Test whether an iteration ends with a carry, and does not begin with an elementwise operation."""
    first, last = region.layers[0][0], len(region.layers[0]) - 1
    return first.op.kind != "elementwise" and any(c.node == last for c in region.carries().values())


def carried_bytes(region: RerollRegion) -> int:
    """The bytes that are carried from one iteration to the next."""
    passed = [c.init for c in region.distinct_carries()]
    passed += [t[0] for t in region.delayed_operands if t[0].node is not None]
    return sum([int(v.type.nbytes) for v in passed])


def region_at_phase(
    nodes: Sequence[Node], stretch: RepeatedSequence, shift: int, table: OperandTable, signatures: Isomorphism
) -> RerollRegion | None:
    """The longest region of iterations of which the first begins at an offset into the sequence."""
    period = stretch.period
    start = stretch.start + shift
    count = (stretch.end - start) // period
    codes = table.source_codes(start, period, count)
    known = (codes != TOO_FAR_CODE).all(axis=1)
    rows = [row.tobytes() for row in codes]
    common = Counter([row for row, k in zip(rows, known, strict=True) if k]).most_common(1)
    if not common:
        return None
    first, last = longest_true([row == common[0][0] for row in rows])
    if first and known[first - 1] and is_first_iteration(codes[first - 1], codes[first]):
        first -= 1
    if last - first < MIN_TRIPS:
        return None
    layers = [nodes[start + k * period : start + (k + 1) * period] for k in range(first, last)]
    return RerollRegion(layers, operand_sources(layers[-1], codes[last - 1], table), signatures)


def operand_sources(nodes: Sequence[Node], codes: NDArray, table: OperandTable) -> list[tuple[Source, ...]]:
    """The source of each operand of an iteration."""
    found = iter([decoded_source(code, len(nodes), table) for code in codes.tolist()])
    return [tuple([next(found) for _ in node.inputs]) for node in nodes]


def decoded_source(code: int, period: int, table: OperandTable) -> Source:
    """The source that a code stands for."""
    if code == OUTSIDE_CODE:
        return OUTSIDE
    at, out = table.maker_at(code)
    return SameIteration(at, out) if at >= 0 else PreviousIteration(at + period, out)


def longest_true(flags: Sequence[bool]) -> tuple[int, int]:
    """The bounds of the longest run of flags that are set."""
    best, first = (0, 0), 0
    for i, flag in enumerate([*flags, False]):
        if not flag:
            best, first = max(best, (first, i), key=lambda s: s[1] - s[0]), i + 1
    return best


def is_first_iteration(codes: NDArray, others: NDArray) -> bool:
    """Test whether an iteration is the first of a region: it reads initial values where the others read carries."""
    begins = (codes == OUTSIDE_CODE) & (others < 0) & (others != OUTSIDE_CODE)
    return bool(((codes == others) | begins).all())
