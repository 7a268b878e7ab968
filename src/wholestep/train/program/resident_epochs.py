"""Training over resident data: one native call an epoch, with rows drawn by the step's own counter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import whole_number
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.ir.graph import NDArray
from wholestep.train.program import first_calls, step_loops
from wholestep.train.program.engine import Engine, UnfinishedEpoch
from wholestep.train.program.interruptible import catching_interrupts
from wholestep.train.program.resident_program import ResidentProgram
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.result import Result, join_results

READ_FILES = (
    'np.load(path, mmap_mode="r") is an array whose rows are read as they are needed; '
    "ws.fit(step, ws.Loader(path, batch_size=...)) reads .npy, .npz and .csv"
)
"""The way out for data given as the name of a file."""

EpochCallback = Callable[[int, Result], Any]
"""A function called after each epoch with the number of finished epochs and the result of the last one."""


StepCall = Callable[[Any], Result]
"""A function that runs a step on one batch, stacked where the step takes several."""


class ResidentData:
    """A data set, a tree like the batch whose arrays have rows along their first axis, and its layout in batches."""

    def __init__(self, engine: Engine, data: Any, size: int | None, shuffle: bool, drop_last: bool) -> None:
        self.engine, self.shuffle = engine, shuffle
        if isinstance(data, str | os.PathLike):
            raise DtypeError(f"run: data is the path {os.fspath(data)!r}, and run takes arrays", hint=READ_FILES)
        data = engine.signature.fitted_data(data, "run")
        self.signature = BatchSignature(data, "data", "run")
        check_rows(engine.signature, self.signature, 1 + (engine.count > 1))
        self.count: int = self.signature.leaves[0].type.shape[0]
        self.size = default_batch_size(engine) if size is None else whole_number("batch_size", size, "run")
        self.dropped = drop_last
        self.rest = 0 if drop_last else self.count % self.size
        if self.count // self.size == 0 and not self.rest:
            raise ShapeError(
                f"run: {self.count} rows give no batch of {self.size}",
                hint="drop_last=True leaves them all out; say drop_last=False, or a smaller batch_size"
                if self.count
                else "there is nothing in the data; look at what was given",
            )
        self.arrays = self.signature.checked(data)
        self.buffers = tuple(map(engine.state.memory.place, self.arrays))

    def programs(self) -> list[ResidentProgram]:
        """The programs of an epoch, compiled on first use."""
        how = f"{self.count} rows in batches of {self.size}, {'shuffled' if self.shuffle else 'in order'}"
        parts = [(step_loops.loop_epoch, f"epoch over {how}")] * (self.count >= self.size)
        parts += [(step_loops.last_partial_batch, f"last {self.rest} of {how}")] * (self.rest > 0)
        return [self.program(make, what) for make, what in parts]

    @contextmanager
    def noting(self, rest: UnfinishedEpoch | None) -> Iterator[None]:
        """A context that records in the engine the progress of the epoch inside the block, unless it is completed."""
        before = int(self.engine.state.counter("step"))
        begun = rest or UnfinishedEpoch(before, 0, self.count, self.size, int(self.shuffle), int(self.dropped))
        try:
            yield
        finally:
            done = begun.done + int(self.engine.state.counter("step")) - before
            whole = self.count // self.size + (self.rest > 0)
            self.engine.unfinished = begun._replace(done=done) if 0 < done < whole else None

    def unfinished(self) -> UnfinishedEpoch | None:
        """The interrupted epoch, or None; raises ParameterError for one over other data or with other batches."""
        found = self.engine.unfinished
        if found is None:
            return None
        own = found._replace(rows=self.count, size=self.size, shuffled=int(self.shuffle), dropped=int(self.dropped))
        if found != own:
            raise ParameterError(
                f"run: the epoch that was cut short is over {found}, and this run is over {own}",
                hint="give the same data and options, or leave resume out to begin a new epoch",
            )
        return found

    def finished(self, rest: UnfinishedEpoch, one: StepCall) -> list[Result]:
        """Run the remaining batches of an epoch, one call each, until Ctrl-C."""
        key = self.engine.state.counter("key")
        order = np.asarray(step_loops.row_order(key, rest.start, self.count)) if self.shuffle else np.arange(self.count)
        last = self.count if self.rest else self.count - self.count % self.size
        results: list[Result] = []
        with catching_interrupts(lambda: None) as pressed:
            for at in range(rest.done * self.size, last, self.size):
                drawn = order[at : min(at + self.size, last)]
                batch = tree.unflatten(self.signature.structure, [x[drawn] for x in self.arrays])
                results.append(one(batch if self.engine.count == 1 else tree.map(lambda x: x[None], batch)))
                if pressed.any:
                    results.append(join_results([], True))
                    break
        return results

    def first_batch(self, arrays: Sequence[NDArray]) -> tuple[BatchSignature, Sequence[NDArray] | None]:
        """A batch of a call of the step, made of the first rows; None where there are too few."""
        count, signature = self.engine.count, self.engine.signature
        if count * self.size > self.count:
            return signature, None
        cut = [x[: count * self.size] for x in arrays]
        batch = cut if count == 1 else [x.reshape(count, self.size, *x.shape[1:]) for x in cut]
        return signature.resized(batch), batch

    def program(self, make: Any, what: str) -> ResidentProgram:
        engine = self.engine
        key = (make, self.signature.structure, *[leaf.type for leaf in self.signature.leaves], self.size, self.shuffle)
        if key not in engine.programs:
            whole = make(engine.one, self.count, self.size, self.shuffle)
            engine.programs[key] = engine.compile(engine.one.alike(whole), self.signature, what)
            first_calls.announce(engine, engine.programs[key], self.signature, self.first_batch)
        return engine.programs[key]


def check_rows(batch: BatchSignature, data: BatchSignature, drop: int) -> None:
    """Raise TreeError, ShapeError or DtypeError for data that is no tree like the batch with rows along axis 0."""
    if data.structure != batch.structure:
        raise TreeError(f"run: data holds {data}, and a batch holds {batch}", hint="the two have the same structure")
    if not data.leaves:
        raise TreeError("run: data holds no arrays", hint="call the step in a loop where it takes no batch")
    for own, leaf in zip(batch.leaves, data.leaves, strict=True):
        if leaf.type.ndim == 0 or own.type.ndim < drop:
            raise ShapeError(f"run: {leaf.path} is {leaf.type} and {own.path} {own.type}, which has no axis of rows")
        if leaf.type.shape[1:] != own.type.shape[drop:]:
            raise ShapeError(f"run: {leaf.path} is {leaf.type}, and its rows do not fit {own.path}, {own.type}")
        if leaf.type.dtype != own.type.dtype:
            raise DtypeError(
                f"run: {leaf.path} is {leaf.type}, and {own.path} was compiled for {own.type}",
                hint="convert it with .astype once, before the run",
            )
        if leaf.type.shape[0] != data.leaves[0].type.shape[0]:
            first = data.leaves[0]
            raise ShapeError(f"run: {first.path} is {first.type} and {leaf.path} {leaf.type}: they differ in rows")


def default_batch_size(engine: Engine) -> int:
    """The batch size that the step was compiled for; raises ParameterError where that is symbolic."""
    size = engine.signature.leaves[0].type.shape[engine.count > 1]
    if isinstance(size, Dim):
        raise ParameterError(f"run: the step takes batches of {size} rows, any number of them", hint="say batch_size=")
    return int(size)


def run_epochs(
    rows: ResidentData,
    epochs: int,
    progress: EpochCallback | None,
    turn: Callable[..., Any],
    one: StepCall | None = None,
) -> Result:
    """Run every epoch in turn, until Ctrl-C; returns the losses of all steps.

    `turn(f, ...)` calls f while no other thread uses the state. With `one`, which runs a step on a batch of any size,
    the first epoch is the remainder of an interrupted one, if there was one.
    """
    every: list[Result] = []
    rest = None if one is None else turn(rows.unfinished)
    bounds = turn(rows.programs)
    try:
        for done in range(1, epochs + 1):
            results: list[Result] = turn(run_epoch, rows, bounds, rest, one)
            rest = None
            every += results
            if results and results[-1].interrupted:
                return join_results(every, True)
            if progress is not None:
                progress(done, join_results(results))
    except KeyboardInterrupt:
        return join_results(every, True)
    return join_results(every)


def run_epoch(
    rows: ResidentData, bounds: Sequence[ResidentProgram], rest: UnfinishedEpoch | None, one: StepCall | None
) -> list[Result]:
    """Run one epoch, or the remainder of an interrupted one, until Ctrl-C."""
    results: list[Result] = []
    with rows.noting(rest):
        if rest is not None and one is not None:
            results += rows.finished(rest, one)
        for bound in bounds if rest is None else ():
            results.append(rows.engine.call(bound, rows.buffers))
            if results[-1].interrupted:
                break
    return results
