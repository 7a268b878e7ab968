"""Orders of lanes: vectors whose lanes alternate in memory, and lanes that are read or written backwards."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.codegen.writer import FunctionWriter


def backwards(lanes: int, live: int) -> list[int]:
    """The first `live` lanes in reverse order, as a shuffle has them; poison beyond."""
    return [live - 1 - lane if lane < live else -1 for lane in range(lanes)]


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
    found = ["poison"] * n
    for part in range(n):
        wanted = [divmod(part * lanes + lane, n) for lane in range(lanes)]
        for source in dict.fromkeys(held for _, held in wanted):
            picks = [lanes + lane if held == source else k for k, (lane, held) in enumerate(wanted)]
            found[part] = w.shuffle(kind, found[part], names[source], *picks)
    return found
