"""The choice of the step to replay: the last skipped one, on the state as it was then if it still is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.errors import TreeError
from wholestep.frontend import outside
from wholestep.ir.graph import NDArray
from wholestep.train.inspect.diagnose import Diagnosis, origin_report, replayed
from wholestep.train.program import step_loops
from wholestep.train.program.engine import Engine
from wholestep.train.program.resident_epochs import ResidentData
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.result import Result
from wholestep.train.state.state import STATE_PARTS


class Course(NamedTuple):
    """The rows that each step of a run takes, given by the first step of its first epoch and the layout of batches."""

    begun: int
    rows: int
    size: int
    batches: int
    shuffle: bool

    def taken(self, step: int, key: Any) -> NDArray:
        """The rows of a step."""
        at = (step - self.begun) % self.batches
        order = np.asarray(step_loops.row_order(key, step - at, self.rows)) if self.shuffle else np.arange(self.rows)
        return order[at * self.size : (at + 1) * self.size]


def course_of(rows: ResidentData, resumed: bool) -> Course:
    """The rows that the steps of a run will take."""
    rest = rows.unfinished() if resumed else None
    begun = int(rows.engine.state.counter("step")) if rest is None else rest.start
    return Course(begun, rows.count, rows.size, rows.count // rows.size + (rows.rest > 0), rows.shuffle)


class Past(NamedTuple):
    """The last call of a step; for a run also the rows that its steps took."""

    result: Result
    course: Course | None = None


class Chosen(NamedTuple):
    """The step to replay: its number, its place in the last call, and the updates and skipped steps since."""

    step: int
    place: int
    updates: int
    skips: int


def diagnosed(engine: Engine, past: Past | None, given: Any) -> Diagnosis:
    """Replay the step that `Step.diagnose` diagnoses."""
    chosen = choose_skipped(engine, past)
    batch = batch_of(engine, past, chosen, outside.taken_over(given, "batch", "diagnose"))
    counters = dict(engine.state.read("counters"))
    counters["step"] = np.asarray(chosen.step, np.int64)
    scaling = engine.step_function.scaling
    if scaling is not None:
        counters.update(scaling.before(counters, chosen.skips))
    state = {**{name: engine.state.read(name) for name in STATE_PARTS}, "counters": counters}
    feed = BatchSignature(batch, "batch", "diagnose")
    graph = engine.trace(engine.one, feed, state).graph
    names = [*engine.state.paths, *sorted(engine.hyper), *[leaf.path for leaf in feed.leaves]]
    arrays: list[NDArray] = [*tree.leaves(state), *engine.head, *feed.checked(batch)]
    origin, phase = replayed(graph, arrays, names, len(engine.state.arrays))
    notes = replay_notes(chosen, past, origin is not None)
    if scaling is not None and phase == "backward":
        notes.append(f"the loss was scaled by {float(counters['scale']):g}")
    return origin_report(origin, phase, graph, chosen.step, chosen.updates == 0, notes)


def choose_skipped(engine: Engine, past: Past | None) -> Chosen:
    """The first of the steps that were skipped at the end of the last call, since the state is still the one it read.

    Where the call ended with steps that were not skipped, the last skipped one; without any, the next step.
    """
    now = int(engine.state.counter("step"))
    flags = np.ones(0, bool) if past is None else past.result.flags
    bad = np.flatnonzero(~flags)
    if not bad.size:
        return Chosen(now, 0, 0, 0)
    good = np.flatnonzero(flags)
    at = int(good[-1]) + 1 if good.size else 0
    place = at if at < len(flags) else int(bad[-1])
    later = flags[place:]
    updates = int(np.count_nonzero(later)) if engine.step_function.guards else len(later)
    return Chosen(now - len(later), place, updates, int(np.count_nonzero(~later)))


def batch_of(engine: Engine, past: Past | None, chosen: Chosen, given: Any) -> Any:
    """The batch of the chosen step, taken from one batch, the stacked batches of a call, or the data of a run."""
    if tree.structure(given) != engine.signature.structure:
        raise TreeError(
            f"diagnose: {engine.signature.difference(given)[0]}",
            hint="give what the call was given: its batch, or its data",
        )
    if past is not None and past.course is not None:
        if any(np.shape(x)[:1] != (past.course.rows,) for x in tree.leaves(given)):
            return given
        taken = past.course.taken(chosen.step, engine.state.counter("key"))
        return tree.map(lambda x: x[taken], given)
    return tree.map(lambda x: x[chosen.place], given) if engine.count > 1 else given


def replay_notes(chosen: Chosen, past: Past | None, found: bool) -> list[str]:
    """Notes on the replay: its place in the last call, and changes of the state since."""
    notes = []
    if past is not None and past.result.steps > 1 and chosen.skips:
        notes.append(f"it was step {chosen.place} of the {past.result.steps} of the last call")
    if chosen.updates:
        times = "once" if chosen.updates == 1 else f"{chosen.updates} times"
        notes.append(f"the state has been updated {times} since: this is the step as it would be now")
    elif not found and chosen.skips:
        notes.append("the compiled step found one that is not: it rounds differently, or this is another batch")
    return notes
