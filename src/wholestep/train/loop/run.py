"""A run of `fit` as callbacks see it, and the interface of callbacks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from wholestep.errors import LogWarning, warn
from wholestep.train.data.loader import Loader
from wholestep.train.loop.history import History, Row
from wholestep.train.loop.loggers import Logger
from wholestep.train.loop.ranks import Ranks
from wholestep.train.state.result import Result
from wholestep.train.step.step import Step

RECENT = 100
"""The most steps over which the loss that is shown during an epoch is averaged."""


class RunningMean:
    """The mean of the finite losses so far, added one by one, so that a resumed sum has the same bits."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, losses: Sequence[float]) -> None:
        for loss in losses:
            if math.isfinite(loss):
                self.total += loss
                self.count += 1

    def take(self) -> float:
        """Return the mean, nan for no losses, and reset it."""
        value = self.value
        self.total, self.count = 0.0, 0
        return value

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan


class TrainingRun:
    """A run of `fit` as callbacks see it.

    `step` is the compiled step, `loader` its data, `history` the history so far, `result` the result of the last call,
    `steps` the number of steps that this run has taken, `measured` the values of the last evaluation, `metrics` the
    latest value of each metric, and `row`, at the end of an epoch, its row in the history. `error` is the error that
    ended the run, or None, and `skipped_last` the number of skipped steps in a row up to now.
    """

    def __init__(self, step: Step, loader: Loader, callbacks: Sequence[Callback]) -> None:
        self.step, self.loader, self.callbacks, self.ranks = step, loader, callbacks, Ranks(step)
        self.loggers: list[Logger] = []
        self.history = History()
        self.steps = 0
        self.first: dict[str, int] = {}
        self.skipped = step.skipped
        self.skipped_last = 0
        self.warned = False
        self.result: Result | None = None
        self.measured: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.row: Row = {}
        self.error: BaseException | None = None
        self.restored = False
        """True after a callback has put the best parameters back, until the next call of the step."""
        self.epoch_loss, self.window_loss, self.window_norm = RunningMean(), RunningMean(), RunningMean()
        self.norm: dict[str, float] = {}
        """The last norm of the gradients, under its name, where the step gives it."""
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.pending: list[Result] = []

    def stop(self, reason: str) -> None:
        """End the run after this call; `history.stopped` says why."""
        self.history.stopped = reason

    def log(self, values: dict[str, float]) -> None:
        """Send numbers to the loggers, under the number of steps that the step has taken."""
        self.tell(lambda logger: logger.log(self.step.steps, values))

    def note(self, text: str) -> None:
        """Send a message to the loggers."""
        self.tell(lambda logger: logger.note(self.step.steps, text))

    def tell(self, what: Callable[[Logger], None]) -> None:
        """Call a function with every logger; one whose file fails is dropped with a LogWarning, and the run goes on."""
        for logger in [*self.loggers]:
            try:
                what(logger)
            except OSError as error:
                self.loggers.remove(logger)
                warn(f"fit: {type(logger).__name__} writes no more: {error}", LogWarning, hint="the run goes on")

    def evaluated(self, values: dict[str, float]) -> None:
        """Record the values of an evaluation, and pass them to loggers and callbacks."""
        self.measured = values
        self.metrics = {**self.metrics, **values}
        self.history.evaluations.append({"steps": self.step.steps, **values})
        self.log(values)
        for callback in self.callbacks:
            callback.on_evaluation(self)

    def took(self, result: Result) -> None:
        """Record the result of a call; its losses are read later, so that the next call need not wait for them."""
        self.result, self.restored = result, False
        self.steps += result.steps
        last = result.skipped_last
        self.skipped_last = last if last < result.steps else self.skipped_last + last
        self.pending.append(result)

    @property
    def recent_loss(self) -> float:
        """The mean of the last losses that were finite, nan of none."""
        return math.fsum(self.recent) / len(self.recent) if self.recent else math.nan

    def drain(self) -> None:
        """Read the losses of the calls since the last drain."""
        for result in self.pending:
            losses = [result.loss] if result.steps == 1 else result.losses.tolist()
            self.history.add(losses)
            self.epoch_loss.add(losses)
            self.window_loss.add(losses)
            if result.grad_norm is not None:
                norms = np.atleast_1d(result.grad_norm).tolist()
                self.window_norm.add(norms)
                self.norm = {"grad_norm": norms[-1]} if norms else self.norm
            self.recent.extend([x for x in losses[-RECENT:] if math.isfinite(x)])
        self.pending.clear()
        self.history.skipped = self.step.skipped - self.skipped


class Callback:
    """An object whose hooks `fit` calls during a run; override the hooks that you need.

    An error in a hook ends the run and passes on; the state is then that of the last call. `on_start`, `on_step`,
    `on_evaluation`, `on_epoch` and `on_end` are given the run: `run.step`, `run.loader`, `run.steps`, `run.history`,
    `run.result` of a call, `run.measured` of an evaluation, `run.row` of an epoch.

    Shapes: no arrays.
    Raises: nothing of its own.

    >>> class Counting(Callback):
    ...     def on_epoch(self, run):
    ...         print(run.steps)
    >>> Counting().on_end(None)
    """

    def on_start(self, run: TrainingRun) -> None:
        """Called when the run begins."""

    def on_step(self, run: TrainingRun) -> None:
        """Called after each call of the step, whose result is `run.result`."""

    def on_evaluation(self, run: TrainingRun) -> None:
        """Called after an evaluation, whose values are `run.measured`."""

    def on_epoch(self, run: TrainingRun) -> None:
        """Called after each epoch, whose row in the history is `run.row`."""

    def on_end(self, run: TrainingRun) -> None:
        """Called at the end of the run, also of one that an error ended."""
