"""One training in three ways: in N processes, as one program under `vmap` over them, and by N micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.errors import ParameterError
from wholestep.train.program.engine import Engine
from wholestep_tools.audit.workers.threads import AXIS, Threads

STEPS = 3


class Job(NamedTuple):
    """A training: its loss, parameters, the rows of all processes together, optimizer, and options of `ws.compile`."""

    loss: Any
    params: Any
    batch: Any
    optimizer: Any
    options: Mapping[str, Any] = {}

    def with_options(self, more: Mapping[str, Any]) -> Job:
        """The training with more options."""
        return self._replace(options={**self.options, **more})

    def step(self, batch: Any, **more: Any) -> Any:
        """The step for such a batch."""
        return ws.compile(self.loss, self.params, optimizer=self.optimizer, batch=batch, **self.options, **more)


class NoMean(Exception):
    """A loss that is no mean over rows, as one with a branch on a sum over all of them."""


class Run(NamedTuple):
    """The losses of some steps, and the arrays of the state after them by their paths."""

    losses: list[Any]
    state: dict[str, Any]


def arrays_of(state: Any) -> dict[str, Any]:
    """Copies of the arrays of a state by their paths."""
    named = zip(tree.paths(state, "state"), tree.leaves(state), strict=True)
    return {path: np.array(x) for path, x in named}


def take_steps(step: Any, batch: Any) -> list[Any]:
    """The losses of some steps on one batch."""
    return [np.float64(step(batch).loss) for _ in range(STEPS)]


class Ranks(NamedTuple):
    """The run of each process, the states that they began with, and the engine of the first."""

    runs: list[Run]
    started: list[Any]
    engine: Engine


def in_processes(job: Job, communicator: Threads, **more: Any) -> Ranks:
    """The training in as many processes as a communicator has."""

    def life(communicator: Threads) -> tuple[Run, Any, Engine]:
        own = ws.mesh.rows(job.batch, communicator)
        step = job.step(own, mesh={AXIS: communicator}, **more)
        started = tree.map(np.array, step.state)
        losses = take_steps(step, own)
        return Run(losses, arrays_of(step.state)), started, step._engine

    runs, started, engines = zip(*communicator.run(life), strict=True)
    return Ranks(list(runs), list(started), engines[0])


def by_micro_batches(job: Job, size: int) -> Run:
    """The training in one process, that takes the rows of each of so many for a micro-batch.

    Raises NoMean where the compiler refuses that, as a mean over parts is another loss.
    """
    try:
        step = job.step(job.batch, microbatch=len(tree.leaves(job.batch)[0]) // size)
    except ParameterError as error:
        if "is no mean over its rows" in str(error):
            raise NoMean from error
        raise
    losses = take_steps(step, job.batch)
    return Run(losses, arrays_of(step.state))


def under_vmap(job: Job, ranks: Ranks) -> list[Run]:
    """The step of the processes as one compiled program under `vmap` over their axis: the run of each element."""
    definition, size = ranks.engine.step_function, len(ranks.runs)
    hyper = {name: float(x) for name, x in ranks.engine.hyper.items()}

    def step(state: Any, batch: Any) -> Any:
        return definition.step(state, hyper, batch)[:2]

    mapped = ws.vmap(step, axis_name=AXIS)
    call = mapped if ranks.engine.device == "reference" else ws.jit(mapped)
    rows = tree.map(lambda x: x.reshape(size, len(x) // size, *x.shape[1:]), job.batch)
    state, losses = tree.map(lambda *parts: np.stack(parts), *ranks.started), []
    for _ in range(STEPS):
        state, values = call(state, rows)
        losses.append(np.asarray(values, np.float64))
    parts = [tree.map(lambda x, rank=rank: x[rank], state) for rank in range(size)]
    return [Run([values[rank] for values in losses], arrays_of(part)) for rank, part in enumerate(parts)]


def unlike(a: Run, b: Run, leave_out: str = "state.counters.key") -> Iterator[str]:
    """The places where two runs have other bits, NaN being NaN, each with how far apart they are."""
    for name, x, y in pairs_of(a, b):
        if name != leave_out and not np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind in "fc"):
            yield f"{name}: {distance(x, y):.1e} apart"


def pairs_of(a: Run, b: Run) -> Iterator[tuple[str, Any, Any]]:
    """The numbers of two runs side by side."""
    yield from [(f"loss {i}", x, y) for i, (x, y) in enumerate(zip(a.losses, b.losses, strict=True))]
    yield from [(path, x, b.state[path]) for path, x in a.state.items()]


def distance(x: Any, y: Any) -> float:
    """The largest difference beside the largest number, both finite."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    seen = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a - b)[seen].max(initial=0.0) / max(np.abs(b)[seen].max(initial=0.0), 1e-30))
