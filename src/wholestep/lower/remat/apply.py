"""Apply rematerialization choices: a simulated schedule becomes tasks, each version of a value with its own
allocation."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.lower.buffers.tasks import Task, copy_task, kernel_task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RELOAD_COPY, SPILL_COPY
from wholestep.lower.remat.simulate import SimulatedRun, SimulatedSchedule


def apply_choices(schedule: SimulatedSchedule) -> tuple[Task, ...]:
    """The tasks of a simulated schedule, in its order."""
    places = allocate_versions(schedule)
    return tuple([task_of_run(schedule, run, places) for run in schedule.runs])


def allocate_versions(schedule: SimulatedSchedule) -> list[Allocation]:
    """An allocation for each version: the first, or the one that tasks other than kernels use, keeps the original."""
    kept: dict[Allocation, int] = {}
    for run in schedule.runs:
        if run.kind == "work" and schedule.uses.tasks[run.task].bound is None:
            kept.update((*run.reads, *run.writes))
    for v, p in enumerate(schedule.places):
        kept.setdefault(p, v)
    return [p if kept[p] == v else Allocation(p.nbytes, value=p.value) for v, p in enumerate(schedule.places)]


def task_of_run(schedule: SimulatedSchedule, run: SimulatedRun, places: Sequence[Allocation]) -> Task:
    """The task of one run."""
    if run.kind in ("out", "back"):
        (_, source), (_, target) = *run.reads, *run.writes
        routine = SPILL_COPY if run.kind == "out" else RELOAD_COPY
        return copy_task(places[target], places[source], routine, places[source].where)
    task = schedule.uses.tasks[run.task]
    moved = {p: places[v] for p, v in (*run.reads, *run.writes) if places[v] is not p}
    if not moved:
        return task
    assert task.bound is not None
    return kernel_task(task.bound._replace(places=tuple([moved.get(p, p) for p in task.bound.places])))
