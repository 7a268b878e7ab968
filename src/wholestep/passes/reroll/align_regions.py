"""Alignment of regions: those that read the same arrays, or each other's results, get the same iterations."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.passes.reroll.isomorphism import Pack, is_constant
from wholestep.passes.reroll.region import RerollRegion, misaligned_operands
from wholestep.passes.reroll.repeats import MIN_TRIPS


def align_regions(regions: list[RerollRegion]) -> list[RerollRegion]:
    """The regions without the iterations that have no counterpart in another region."""
    regions = list(regions)
    while True:
        changed = next(
            (True for region in regions if trim_to_overlap(region, [r for r in regions if r is not region])), False
        )
        regions = [region for region in regions if region.count >= MIN_TRIPS]
        if not changed:
            return regions


def trim_to_overlap(region: RerollRegion, others: Sequence[RerollRegion]) -> bool:
    """Trim a region and another one to their common iterations; True where an iteration was removed."""
    wanted = [t for t in region.stacked_operands if not all(is_constant(v) for v in t)]
    wanted.sort(key=lambda t: t[0].node is not None)  # inputs decide first which iterations correspond
    for other in others:
        given, index = [*other.available_packs(), *other.varying_operands], other.packs_of
        # Operands of another iteration than most are copied: a trim for them would make the others need one too.
        settled = {*given, *[g[::-1] for g in given], *misaligned_operands(region, other)}
        for t in wanted:
            if t in settled:
                continue
            found = [longest_overlap(t, g) for g in dict.fromkeys(index.get(t[len(t) // 2], ()))]
            best = max(found, key=lambda c: c[1] - c[0], default=(0, 0, 0, 0))
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
