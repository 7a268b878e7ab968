"""Rewriting: the runs of a replay as works, each version of a value in a place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wholestep.lower.budget.replay import Replayed, Run
from wholestep.lower.plan import BACK, OUT, Call, Place, Step
from wholestep.lower.work import Work, kernel_work


def rewritten(replayed: Replayed) -> tuple[Work, ...]:
    """The works of a replay, in its order."""
    places = placed(replayed)
    return tuple([work_of(replayed, run, places) for run in replayed.runs])


def placed(replayed: Replayed) -> list[Place]:
    """A place for each version: the first, or the one that works which are no kernels use, keeps that of the value."""
    kept: dict[Place, int] = {}
    for run in replayed.runs:
        if run.kind == "work" and replayed.uses.works[run.work].written is None:
            kept.update((*run.reads, *run.writes))
    for v, p in enumerate(replayed.places):
        kept.setdefault(p, v)
    return [p if kept[p] == v else Place(p.nbytes, value=p.value) for v, p in enumerate(replayed.places)]


def work_of(replayed: Replayed, run: Run, places: Sequence[Place]) -> Work:
    """The work of one run."""
    if run.kind in ("out", "back"):
        (_, source), (_, target) = *run.reads, *run.writes
        return moved_work(OUT if run.kind == "out" else BACK, places[target], places[source])
    work = replayed.uses.works[run.work]
    moved = {p: places[v] for p, v in (*run.reads, *run.writes) if places[v] is not p}
    return work if not moved else with_places(work, moved)


def moved_work(routine: str, target: Place, source: Place) -> Work:
    """A value written to the file, or read from it."""
    where = source.value.node.where if source.value is not None and source.value.node is not None else None

    def steps() -> tuple[Step, ...]:
        return (Call(routine, (target.address(), source.address()), (target.nbytes,), where),)

    return Work((source,), (target,), steps)


def with_places(work: Work, moved: Mapping[Place, Place]) -> Work:
    """A kernel on other places."""
    assert work.written is not None
    return kernel_work(work.written._replace(places=tuple([moved.get(p, p) for p in work.written.places])))
