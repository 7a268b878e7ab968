"""Orders of lanes: vectors whose lanes alternate in memory, and lanes that are read or written backwards."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.codegen.writer import FunctionWriter


def backwards(lanes: int, live: int) -> list[int]:
    """The first `live` lanes in reverse order, as a shuffle has them; poison beyond."""
    return [live - 1 - lane if lane < live else -1 for lane in range(lanes)]


def deinterleave_lanes(w: FunctionWriter, kind: str, lanes: int, blocks: Sequence[str]) -> list[str]:
    """The vectors whose lanes alternate in these, as many: the inverse of `interleave_lanes`."""
    n = len(blocks)
    if n == 1:
        return list(blocks)
    if n % 2 == 0:
        found = [""] * n
        for first in (0, 1):
            picks = range(first, 2 * lanes, 2)
            half = [w.shuffle(kind, *pair, *picks) for pair in zip(blocks[::2], blocks[1::2], strict=True)]
            found[first::2] = deinterleave_lanes(w, kind, lanes, half)
        return found
    return [select_lanes_of(w, kind, blocks, [divmod(lane * n + k, lanes) for lane in range(lanes)]) for k in range(n)]


def select_lanes_of(w: FunctionWriter, kind: str, sources: Sequence[str], wanted: Sequence[tuple[int, int]]) -> str:
    """The vector of these lanes of sources, each with the number of its source first."""
    found, lanes = "poison", len(wanted)
    for source in dict.fromkeys(held for held, _ in wanted):
        picks = [lanes + lane if held == source else k for k, (held, lane) in enumerate(wanted)]
        found = w.shuffle(kind, found, sources[source], *picks)
    return found


def interleave_lanes(w: FunctionWriter, kind: str, lanes: int, names: Sequence[str]) -> list[str]:
    """The vectors that hold the first lanes of all vectors, then the second lanes of all, and so on.

    An even number of vectors is interleaved from two halves; an odd one, vector by vector.
    """
    n = len(names)
    if n == 1:
        return list(names)
    if n % 2 == 0:
        halves = [interleave_lanes(w, kind, lanes, names[first::2]) for first in (0, 1)]
        return [
            w.shuffle(kind, *pair, *[lane // 2 + lane % 2 * lanes for lane in range(start, start + lanes)])
            for pair in zip(*halves, strict=True)
            for start in (0, lanes)
        ]
    places = [divmod(k, n)[::-1] for k in range(n * lanes)]
    return [select_lanes_of(w, kind, names, places[k : k + lanes]) for k in range(0, n * lanes, lanes)]
