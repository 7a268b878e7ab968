"""Alignment of regions: those that read the same arrays, or each other's results, get the same iterations."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep.ir.graph import Value
from wholestep.passes.reroll.isomorphism import Pack
from wholestep.passes.reroll.region import RerollRegion, misaligned_operands
from wholestep.passes.reroll.repeats import MIN_TRIPS

Pair = tuple[RerollRegion, RerollRegion]


def align_regions(regions: list[RerollRegion]) -> list[RerollRegion]:
    """The regions without the iterations that have no counterpart in another region."""
    holders: dict[Value, list[RerollRegion]] = {}
    for region in regions:
        for v in region.packs_of:
            holders.setdefault(v, []).append(region)
    order = {region: i for i, region in enumerate(regions)}
    aligned = set[Pair]()
    while (cut := next(filter(lambda pair: is_trimmed(pair, aligned), near_pairs(order, holders)), None)) is not None:
        aligned = {pair for pair in aligned if pair[0] not in cut and pair[1] not in cut}
        order = {region: i for region, i in order.items() if region.count >= MIN_TRIPS}
    return list(order)


def near_pairs(order: dict[RerollRegion, int], holders: dict[Value, list[RerollRegion]]) -> Iterator[Pair]:
    """Each region with each other one that has, or had before it was trimmed, the middle of one of its operands."""
    for region in order:
        found = {other for t in region.compared_operands for other in holders.get(t[len(t) // 2], ())}
        for other in sorted((found & order.keys()) - {region}, key=order.__getitem__):
            yield region, other


def is_trimmed(pair: Pair, aligned: set[Pair]) -> bool:
    """Trim two regions, unless both are as they were when they were found to be `aligned`; True where they changed."""
    if pair not in aligned:
        aligned.add(pair)
        return trim_to_overlap(*pair)
    return False


def trim_to_overlap(region: RerollRegion, other: RerollRegion) -> bool:
    """Trim a region and another one to their common iterations; True where an iteration was removed."""
    index = other.packs_of
    wanted = [t for t in region.compared_operands if t[len(t) // 2] in index]
    if not wanted:
        return False
    # Operands of another iteration than most are copied: a trim for them would make the others need one too.
    apart = misaligned_operands(region, other)
    for t in wanted:
        near = dict.fromkeys(index[t[len(t) // 2]])
        if t in near or t[::-1] in near or t in apart:
            continue
        best = max([longest_overlap(t, g) for g in near], key=lambda c: c[1] - c[0])
        if best[1] - best[0] >= MIN_TRIPS and (best[1] - best[0] < region.count or best[3] - best[2] < other.count):
            region.cut(best[0], best[1])
            other.cut(best[2], best[3])
            return True
    return False


def longest_overlap(t: Pack, g: Pack) -> tuple[int, int, int, int]:
    """The bounds, in each of two packs, of the longest part that they have in common, read in either direction."""
    best = (0, 0, 0, 0)
    for other in (g, g[::-1]):
        place = {v: i for i, v in enumerate(other)}
        first = 0
        for i in range(1, len(t) + 1):
            if i < len(t) and t[i] in place and place.get(t[i - 1]) == place[t[i]] - 1:
                continue
            if t[first] in place and i - first > best[1] - best[0]:
                at = place[t[first]]
                low, high = at, at + i - first
                if other is not g:
                    low, high = len(g) - high, len(g) - low
                best = (first, i, low, high)
            first = i
    return best
