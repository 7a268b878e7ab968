"""Common callbacks: early stopping, checkpoints, the best checkpoint, and a log of the loss."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from wholestep.boundary.counts import whole_number
from wholestep.boundary.declared import is_ours
from wholestep.errors import CheckpointError, ParameterError, WholestepWarning, warn
from wholestep.train.checkpoint.filesystem import previous
from wholestep.train.loop.evaluation import Evaluate
from wholestep.train.loop.history import Row
from wholestep.train.loop.loggers import json_number
from wholestep.train.loop.run import Callback, TrainingRun

ROWS = ("epochs", "evaluations")
"""The parts of a history that a checkpoint keeps."""

COLUMNS = ("epoch", "steps", "loss", "seconds")
"""The columns of a history that every run has."""


class Best(Callback):
    """A callback that acts when a metric has its best value so far; `mode` says whether less or more is better.

    `metric` is the name of a value of `Evaluate`, compared after each evaluation, or of a column of the history,
    compared after each epoch. nan is never better. After a resumption the best value of the earlier part of the run
    counts.
    """

    def __init__(self, metric: str = "val_loss", mode: Literal["min", "max"] = "min", min_delta: float = 0.0) -> None:
        if mode not in ("min", "max"):
            raise ParameterError(f"{type(self).__name__}: mode is {mode!r}; it is 'min' or 'max'")
        if not min_delta >= 0:
            raise ParameterError(f"{type(self).__name__}: min_delta is {min_delta}; it is 0 or more")
        self.metric, self.mode, self.min_delta = metric, mode, min_delta
        self.best, self.waited = math.nan, 0

    def on_start(self, run: TrainingRun) -> None:
        self.check_measured(run)
        self.best, self.waited = math.nan, 0
        measured = [row for row in run.history.evaluations if self.metric in row]
        for row in measured or [row for row in run.history.epochs if self.metric in row]:
            self.look(row[self.metric])

    def on_evaluation(self, run: TrainingRun) -> None:
        if self.metric in run.measured:
            self.seen(run, run.measured[self.metric])

    def on_epoch(self, run: TrainingRun) -> None:
        waiting = not run.metrics and any(isinstance(callback, Evaluate) for callback in run.callbacks)
        if self.metric in run.metrics or waiting:
            return
        if self.metric not in run.row:
            raise self.unmeasured([*run.row, *run.metrics])
        self.seen(run, run.row[self.metric])

    def check_measured(self, run: TrainingRun) -> None:
        """Raise ParameterError at the start of a run that cannot measure the metric; a callback of the user's might."""
        known = list(COLUMNS)
        for callback in run.callbacks:
            known += callback.names if isinstance(callback, Evaluate) else []
        if self.metric not in known and all([is_ours(type(callback)) for callback in run.callbacks]):
            raise self.unmeasured(known)

    def unmeasured(self, known: Sequence[str]) -> ParameterError:
        """The error for a metric that is none of these."""
        without = "" if any(name not in COLUMNS for name in known) else "; validation= measures val_loss"
        return ParameterError(
            f"{type(self).__name__}: nothing measures {self.metric!r}", hint=f"there are {', '.join(known)}{without}"
        )

    def look(self, value: float) -> bool:
        """Return True for the best value so far, else count one more value without improvement."""
        gain = self.best - value if self.mode == "min" else value - self.best
        better = not math.isnan(value) and (math.isnan(self.best) or gain > self.min_delta)
        self.best, self.waited = (value, 0) if better else (self.best, self.waited + 1)
        return better

    def seen(self, run: TrainingRun, value: float) -> None:
        """Called with each new value of the metric."""
        if self.look(value):
            self.improved(run)

    def improved(self, run: TrainingRun) -> None:
        """Called when the metric has its best value so far."""


class EarlyStopping(Best):
    """Stop where a metric has not become better, by more than `min_delta`, `patience` times in a row.

    `metric` is the name of a value of `Evaluate` or of a column of the history, and `mode` says whether "min" or "max"
    is better. `restore_best` puts back the parameters and buffers that had the best value when the run ends, and the
    checkpoint of the run then holds them. After a resumption they are known if the best value was reached since, or if
    the earlier part had put them back; else a warning says so.

    Shapes: no arrays.
    Raises: ParameterError for a `mode`, `patience` or `min_delta` that cannot be.

    >>> EarlyStopping("val_accuracy", patience=3, mode="max").patience
    3
    """

    def __init__(
        self,
        metric: str = "val_loss",
        patience: int = 5,
        mode: Literal["min", "max"] = "min",
        min_delta: float = 0.0,
        restore_best: bool = False,
    ) -> None:
        super().__init__(metric, mode, min_delta)
        self.patience = whole_number("patience", patience, "EarlyStopping")
        self.restore_best = restore_best
        self.kept: dict[str, Any] | None = None

    def on_start(self, run: TrainingRun) -> None:
        self.kept = None
        super().on_start(run)
        if run.restored:
            self.improved(run)
        self.stop_late(run)

    def improved(self, run: TrainingRun) -> None:
        if self.restore_best:
            state = run.step.state
            self.kept = {name: state[name] for name in ("params", "buffers")}

    def seen(self, run: TrainingRun, value: float) -> None:
        super().seen(run, value)
        self.stop_late(run)

    def stop_late(self, run: TrainingRun) -> None:
        """End a run that has waited for a better value as often as it may."""
        if self.waited >= self.patience:
            run.stop(f"{self.metric} has not become better than {self.best:.4g} in {self.patience} times")

    def on_end(self, run: TrainingRun) -> None:
        if not self.restore_best or run.error is not None or run.history.interrupted or run.restored:
            return
        if self.kept is not None:
            run.step.set(**self.kept)
            run.restored = True
        elif not math.isnan(self.best):
            warn(
                f"EarlyStopping: {self.metric} had its best value, {self.best:.4g}, before the run was resumed, and"
                " those parameters cannot be put back: the step has the last ones",
                WholestepWarning,
                hint="BestCheckpoint(path) keeps the best of all parts of a run in a file",
            )


class Checkpoint(Callback):
    """Save the step and the place in the data: after every so many epochs or steps, and when the run ends.

    `fit(..., checkpoint=path)` is `Checkpoint(path)`; `fit(..., resume=True)` goes on from the file. `every_epochs`
    and `every_steps` are counts, or None for never. A run that an error ended saves nothing more.

    Shapes: no arrays; the file at `path` has all that `step.save` writes, and the place in the data.
    Raises: ParameterError for a count that is not positive.

    >>> Checkpoint("run.safetensors", every_epochs=None, every_steps=500).every_steps
    500
    """

    def __init__(
        self, path: str | os.PathLike[str], every_epochs: int | None = 1, every_steps: int | None = None
    ) -> None:
        self.path = path
        self.every_epochs = None if every_epochs is None else whole_number("every_epochs", every_epochs, "Checkpoint")
        self.every_steps = None if every_steps is None else whole_number("every_steps", every_steps, "Checkpoint")
        self.saved = self.due = 0

    def on_start(self, run: TrainingRun) -> None:
        run.ranks.try_place(self.path)
        self.saved = run.steps
        self.due = 0 if self.every_steps is None else run.steps + self.every_steps

    def on_step(self, run: TrainingRun) -> None:
        if self.every_steps is not None and run.steps >= self.due:
            self.due = run.steps + self.every_steps
            self.save(run)

    def on_epoch(self, run: TrainingRun) -> None:
        if self.every_epochs is not None and run.loader.epoch % self.every_epochs == 0:
            self.save(run)

    def on_end(self, run: TrainingRun) -> None:
        if run.error is None and (self.saved != run.steps or run.restored):
            self.save(run)

    def save(self, run: TrainingRun) -> None:
        """Write the file, with the metadata that a resumed run needs; of a mesh's processes rank 0 writes it."""
        run.drain()
        run.ranks.save(run.step, self.path, run.loader, {"fit": run_metadata(run)})
        self.saved = run.steps

    def resume(self, run: TrainingRun) -> dict[str, int]:
        """Resume from the file or the previous one, if there is one; returns the first epoch and step of the run."""
        path = Path(self.path)
        if not path.exists() and not previous(path).exists():
            return {}
        found = run.step.load(path, loader=run.loader, fallback=True)
        kept = found.metadata.get("fit") if isinstance(found.metadata, dict) else None
        if kept is None:
            raise CheckpointError(
                f"fit: {path} was not saved by fit", hint="step.load(path, loader=loader) takes it over"
            )
        try:
            return recalled(run, kept)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"fit: what {path} says of the run makes no sense: {error!r}") from None


def run_metadata(run: TrainingRun) -> dict[str, Any]:
    """The facts of a run that are not in the state of its step."""
    loss = run.epoch_loss
    rows = {name: [json_row(row) for row in getattr(run.history, name)] for name in ROWS}
    return {**run.first, **rows, "loss": [loss.total, loss.count], "restored": run.restored}


def recalled(run: TrainingRun, kept: Any) -> dict[str, int]:
    """Restore the facts of `run_metadata` in a run; returns the epoch and the step at which the saved run began."""
    first = {name: operator.index(kept[name]) for name in ("first_epoch", "first_step")}
    rows = {
        name: [{n: float(x) if isinstance(x, str) else x + 0 for n, x in row.items()} for row in kept[name]]
        for name in ROWS
    }
    total, count = kept["loss"]
    run.epoch_loss.total, run.epoch_loss.count = float(total), operator.index(count)
    run.restored = bool(kept.get("restored", False))
    for name in ROWS:
        setattr(run.history, name, rows[name])
    return first


def json_row(row: Row) -> dict[str, Any]:
    """A row with values that JSON can hold."""
    return {name: json_number(x) for name, x in row.items()}


class BestCheckpoint(Best):
    """Save the step whenever a metric has its best value so far.

    The file at `path` is `step.save`'s; `metric`, `mode` and `min_delta` are those of `EarlyStopping`.

    Shapes: no arrays.
    Raises: ParameterError for a `mode` that is neither "min" nor "max".

    >>> BestCheckpoint("best.safetensors", metric="val_accuracy", mode="max").best
    nan
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        metric: str = "val_loss",
        mode: Literal["min", "max"] = "min",
        min_delta: float = 0.0,
    ) -> None:
        super().__init__(metric, mode, min_delta)
        self.path = path

    def on_start(self, run: TrainingRun) -> None:
        run.ranks.try_place(self.path)
        super().on_start(run)

    def improved(self, run: TrainingRun) -> None:
        metadata = {self.metric: json_number(self.best), "steps": run.step.steps}
        run.ranks.save(run.step, self.path, run.loader, metadata)


class LossLog(Callback):
    """Log the mean loss since the last log whenever the number of steps passes a multiple of `every`."""

    def __init__(self, every: int) -> None:
        self.every = whole_number("every", every, "LossLog")
        self.due = 0

    def on_start(self, run: TrainingRun) -> None:
        self.due = self.after(run)

    def on_step(self, run: TrainingRun) -> None:
        if run.step.steps >= self.due:
            self.due = self.after(run)
            run.drain()
            norm = {"grad_norm": run.window_norm.take()} if run.norm else {}
            run.log({"loss": run.window_loss.take(), **norm})

    def after(self, run: TrainingRun) -> int:
        """The next multiple."""
        return (run.step.steps // self.every + 1) * self.every
