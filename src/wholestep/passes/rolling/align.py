"""Runs that belong together: those that read the same arrays, or each other's results, get the same layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wholestep.ir.graph import Value
from wholestep.passes.rolling.run import Run, delays, varying
from wholestep.passes.rolling.runs import LEAST
from wholestep.passes.rolling.signature import Members, constant


def produced(run: Run) -> Iterator[Members]:
    """What a run can give in rows: what its layers make, and what they are handed."""
    for key in dict.fromkeys(run.carries().values()):
        yield (key.init, *run.made(key.node, key.out)[:-1])
    for q, node in enumerate(run.layers[0]):
        for out in range(len(node.outputs)):
            yield run.made(q, out)


def align(runs: list[Run]) -> list[Run]:
    """The runs after the layers that have no counterpart in another run are left to stand alone."""
    runs = list(runs)
    while True:
        changed = next((True for run in runs if fitted(run, [r for r in runs if r is not run])), False)
        runs = [run for run in runs if run.count >= LEAST]
        if not changed:
            return runs


def fitted(run: Run, others: Sequence[Run]) -> bool:
    """Cut a run and another one to the layers that they have in common; whether anything was cut."""
    tuples = varying(run)
    late = delays(tuples)
    wanted = [t for t in tuples if t not in late and not all(constant(v) for v in t)]
    wanted.sort(key=lambda t: t[0].node is not None)  # what is given decides which layers belong together
    for other in others:
        given = [*produced(other), *varying(other)]
        index: dict[Value, list[Members]] = {}
        for g in given:
            for v in g:
                index.setdefault(v, []).append(g)
        exact = {*given, *[g[::-1] for g in given]}
        for t in wanted:
            if t in exact:
                continue
            found = [common(t, g) for g in dict.fromkeys(index.get(t[len(t) // 2], ()))]
            best = max(found, key=lambda c: c[1] - c[0], default=(0, 0, 0, 0))
            if best[1] - best[0] >= LEAST and (best[1] - best[0] < run.count or best[3] - best[2] < other.count):
                run.cut(best[0], best[1])
                other.cut(best[2], best[3])
                return True
    return False


def common(t: Members, g: Members) -> tuple[int, int, int, int]:
    """The longest part that two tuples have in common, read in either direction: where it lies in each."""
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
