"""fit: a compiled step over data, with evaluation, progress, callbacks, logs and checkpoints around it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from wholestep.boundary.counts import whole_number
from wholestep.errors import DtypeError, LogWarning, ParameterError, UnknownNameError, warn
from wholestep.train.data.loader import Loader
from wholestep.train.loop.callbacks import COLUMNS, Checkpoint, LossLog
from wholestep.train.loop.evaluation import Evaluate, Metric, loader_for
from wholestep.train.loop.history import History
from wholestep.train.loop.idle_training import check_trains, look_at_epoch, look_at_skipped
from wholestep.train.loop.loggers import Logger
from wholestep.train.loop.progress import PAUSE, Display, Status, display_for, resident
from wholestep.train.loop.run import Callback, TrainingRun
from wholestep.train.program.interruptible import (
    InterruptFlag,
    SecondInterruptRaises,
    catching_interrupts,
    terminating_in_order,
)
from wholestep.train.step.step import Step
from wholestep.words import type_in_words


def fit(
    step: Step,
    data: Any,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    validation: Any = None,
    metrics: Mapping[str, Metric] | None = None,
    callbacks: Sequence[Callback] = (),
    logger: Logger | Sequence[Logger] = (),
    log_every: int = 50,
    progress: Any = "auto",
    checkpoint: Any = None,
    resume: bool = False,
) -> History:
    """Train a compiled step over data for so many epochs, one by default, or so many steps; returns the history.

    `data` is a `Loader`, or data for one; then batches have the size that the step was compiled for, in an order drawn
    from the step's key. The items of an iterable, such as a torch `DataLoader`, or of a list of batches are batches, in
    their own order. A smaller last batch has a program of its own. `steps` counts single steps, and with K steps a call
    the last call may go beyond.

    The loss and `metrics`, functions as `step.attach` takes them, are measured on `validation` after each epoch:
    `val_loss`, `val_NAME`. `callbacks` have hooks; `logger` is one `Logger` or several, which get the mean loss of
    every `log_every` steps, each evaluation and each epoch. `progress` is "auto", "rich", "plain", "notebook" or None.

    `checkpoint`, a path or a `Checkpoint`, saves the step and the place in the data after each epoch and at the end.
    With `resume` the run goes on from that file, if it is there, until it has the epochs or steps of an uninterrupted
    run, with the same bits. Ctrl-C ends the run after the current call, with a checkpoint if one was asked for; the
    history then says `interrupted`. A second Ctrl-C does not wait for the call. SIGTERM ends the run in the same order,
    and then the process: by SystemExit with the code 143. A SIGTERM handler of your own is left in place.

    A step whose loss or gradient is not finite is skipped; the first one gives a SkippedStepWarning. After twenty
    skipped steps in a row, or an epoch of skipped steps, the run stops, and a second warning has the report of
    `step.diagnose`.

    Shapes: data as `Loader` takes it, batches as the step was compiled for; `losses` of the history f64[steps].
    Raises: ParameterError for options that do not go together and for a step without an optimizer, DtypeError for a
    `step` that is no step, errors of the loader and the step, and errors of callbacks, which end the run; the step then
    holds the state of its last call.

    >>> import numpy as np, wholestep as ws
    >>> def loss(params, batch):
    ...     return np.mean((batch["x"] @ params["w"] - batch["y"]) ** 2)
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> data = {"x": x, "y": x @ np.array([1.0, -1.0])}
    >>> batch = {name: rows[:8] for name, rows in data.items()}
    >>> step = ws.compile(loss, {"w": np.zeros(2)}, optimizer=ws.optim.sgd(0.1), batch=batch)
    >>> history = ws.fit(step, data, epochs=10, validation=data, progress=None)
    >>> len(history.losses), bool(history["val_loss"][-1] < 0.01), step.params["w"].round(1).tolist()
    (70, True, [1.0, -1.0])
    """
    check_given(step, callbacks)
    check_trains(step)
    goal = Goal(step, epochs, steps)
    loader = loader_for(step, data)
    if loader.steps_per_call != step.steps_per_call:
        raise ParameterError(
            f"fit: the loader gives {loader.steps_per_call} batches at a time, and a call takes {step.steps_per_call}",
            hint="Loader(..., steps_per_call=K) stacks them",
        )
    if goal.epochs is not None and goal.epochs > 1:
        check_read_again(data=loader, validation=validation)
    if metrics and validation is None:
        raise ParameterError("fit: metrics are measured on validation data", hint="give validation=")
    saving = checkpoint_of(checkpoint)
    if resume and saving is None:
        raise ParameterError("fit: resume goes on from a checkpoint", hint="give checkpoint=")
    loggers = loggers_of(logger)
    watching = [Evaluate(validation, metrics)] if validation is not None else []
    logging = [LossLog(log_every)] if loggers else []
    run = TrainingRun(step, loader, [*watching, *callbacks, *logging, *([] if saving is None else [saving])])
    if not run.ranks.speaks:
        loggers, progress = (), None
    with terminating_in_order():
        return trained(run, goal, loggers, saving if resume else None, display_for(progress))


HOOKS = tuple(name for name in vars(Callback) if name.startswith("on_"))
THEIR_HOOKS = {
    name: ours
    for ours, names in {
        "on_start": "on_train_begin on_train_start on_fit_start",
        "on_step": "on_batch_end on_train_batch_end",
        "on_evaluation": "on_test_end on_validation_end on_validation_epoch_end",
        "on_epoch": "on_epoch_end on_train_epoch_end",
        "on_end": "on_train_end on_fit_end",
    }.items()
    for name in names.split()
}
"""Hooks of Keras and Lightning, which nothing calls here, and ours in their place."""


def check_given(step: Any, callbacks: Any) -> None:
    """Raise DtypeError for a `step` that is no compiled step, or an item of `callbacks` that is no callback."""
    if not isinstance(step, Step):
        raise DtypeError(
            f"fit: the first argument is {type_in_words(step)}, not a compiled step",
            hint="make one: step = ws.compile(loss, model, optimizer=ws.optim.adam(1e-3), batch=batch)",
        )
    if not isinstance(callbacks, Iterable):
        raise DtypeError(f"fit: callbacks is {type_in_words(callbacks)}, not a list", hint="callbacks=[callback]")
    for i, callback in enumerate(callbacks):
        check_callback(f"fit: callbacks[{i}]", callback)


def check_callback(who: str, callback: Any) -> None:
    """Raise DtypeError for an object without hooks, UnknownNameError for a callback with those of other libraries."""
    if isinstance(callback, type):
        raise DtypeError(f"{who} is the class {callback.__name__}, not an object", hint=f"{callback.__name__}(...)")
    theirs = next((name for name in THEIR_HOOKS if hasattr(callback, name)), "")
    way_out = f"{THEIR_HOOKS[theirs]}(run) takes the place of {theirs}" if theirs else ""
    derive = "derive a class from wholestep.train.loop.run.Callback with on_step(run) or on_epoch(run)"
    if not all(hasattr(callback, hook) for hook in HOOKS):
        what = f"{type_in_words(callback)}, and a callback has hooks: {', '.join(HOOKS)}"
        raise DtypeError(f"{who} is {what}", hint="; ".join(filter(None, [derive, way_out])))
    if theirs and isinstance(callback, Callback):
        raise UnknownNameError(f"{who} has {theirs}, which nothing calls", hint=way_out)


def check_read_again(**given: Any) -> None:
    """Raise ParameterError for an iterator, which can be read once, where each epoch reads it."""
    for name, data in given.items():
        source = data.source if isinstance(data, Loader) else data
        if getattr(source, "once", isinstance(source, Iterator)):
            raise ParameterError(
                f"fit: {name} is an iterator, which can be read once, and each epoch reads it",
                hint="give a function that makes the iterator, or a list; steps= trains for one pass over it",
            )


LOGS = ("start", "log", "note", "finish")


def loggers_of(logger: Any) -> tuple[Logger, ...]:
    """The loggers that were given, one or several; raises DtypeError for an object that is no logger."""
    found = tuple(logger) if isinstance(logger, Sequence) and not isinstance(logger, str) else (logger,)
    for one in found:
        if not all(hasattr(one, method) for method in LOGS):
            raise DtypeError(
                f"fit: logger is {type_in_words(one)}, and a logger has the methods {', '.join(LOGS)}",
                hint="give wholestep.train.loop.loggers.ConsoleLogger(), or an object of your own with these methods",
            )
    return found


def checkpoint_of(given: Any) -> Checkpoint | None:
    """The checkpoint that was given, as a path or a `Checkpoint`; raises DtypeError for another type."""
    saving = Checkpoint(given) if isinstance(given, str | os.PathLike) else given
    if saving is not None and not isinstance(saving, Checkpoint):
        raise DtypeError(
            f"fit: checkpoint is {type_in_words(given)}, not a path or a Checkpoint",
            hint='checkpoint="run.safetensors" saves after each epoch',
        )
    return saving


class Goal:
    """The end of a run: after so many epochs, or so many steps, from where it first began."""

    def __init__(self, step: Step, epochs: int | None, steps: int | None) -> None:
        if epochs is not None and steps is not None:
            raise ParameterError("fit: epochs and steps both say how long the run is", hint="give one of them")
        self.step = step
        self.steps = None if steps is None else whole_number("steps", steps, "fit")
        self.epochs = None if steps is not None else whole_number("epochs", 1 if epochs is None else epochs, "fit")
        self.first = {"first_epoch": 0, "first_step": 0}

    def done(self, loader: Loader) -> tuple[int, int]:
        """Epochs and steps since the run first began."""
        return loader.epoch - self.first["first_epoch"], self.step.steps - self.first["first_step"]

    def reached(self, loader: Loader) -> bool:
        """True if the run is over."""
        epochs, steps = self.done(loader)
        return epochs >= self.epochs if self.epochs is not None else steps >= (self.steps or 0)

    def whole(self, loader: Loader, each: int | None) -> int | None:
        """The number of steps of the whole run, or None if it is unknown; `each` is that of an epoch."""
        if self.epochs is None or each is None:
            return self.steps
        epochs, steps = self.done(loader)
        return steps - loader.position + each * (self.epochs - epochs)


class Marked:
    """The position of the loader after the last call of the step, by which an interrupted run moves the loader back."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.here()

    def here(self) -> None:
        """Record the place of the loader, all of whose batches so far have been trained on."""
        loader = self.run.loader
        self.epoch, self.position, self.steps = loader.epoch, loader.position, self.run.step.steps

    def settle(self) -> None:
        """Move the loader back to the step's position; a batch that was loaded and not trained on comes again."""
        loader = self.run.loader
        handed = loader.position - (self.position if loader.epoch == self.epoch else 0)
        loader.hold(max(0, handed - (self.run.step.steps - self.steps)))


class RunDisplay:
    """The reports to a display; they end where its stream fails, as standard output on a full disk does."""

    def __init__(self, run: TrainingRun, goal: Goal, display: Display) -> None:
        self.run, self.goal, self.display = run, goal, display
        self.next = self.since = 0.0
        self.steps = 0
        self.each: int | None = None
        code = getattr(run.step._engine.main.program, "code", None)
        self.arena = code and code.arena

    def begin(self) -> None:
        """Called when an epoch begins."""
        self.since = time.perf_counter() - self.run.step.compile_seconds
        self.steps = self.run.steps
        self.each = self.run.loader.steps

    @property
    def seconds(self) -> float:
        """The time since the epoch began, without compilation."""
        return time.perf_counter() - self.run.step.compile_seconds - self.since

    def look(self) -> None:
        """Show the progress of the epoch, at most once every `PAUSE` seconds."""
        now = time.perf_counter()
        if now >= self.next:
            self.next = now + PAUSE
            self.run.drain()
            values = {"loss": self.run.recent_loss, **self.run.norm, **self.run.metrics}
            self.show("move", self.status(self.goal.done(self.run.loader)[0] + 1, values, self.seconds))

    def over(self) -> None:
        """Show the result of an epoch."""
        row = {name: x for name, x in self.run.row.items() if name not in ("epoch", "steps", "seconds")}
        row |= self.run.norm
        self.show("line", self.status(int(self.run.row["epoch"]), row, self.run.row["seconds"]))

    def show(self, method: str, what: Status | str) -> None:
        """Call a method of the display; where its stream fails, warn and show nothing more, and the run goes on."""
        try:
            getattr(self.display, method)(what)
        except OSError as error:
            self.display = Display()
            warn(f"fit: the progress is shown no more: {error}", LogWarning, hint="the run goes on")

    def status(self, epoch: int, values: dict[str, float], seconds: float) -> Status:
        """The progress of the run."""
        _, steps = self.goal.done(self.run.loader)
        whole = self.goal.whole(self.run.loader, self.each)
        rate = (self.run.steps - self.steps) / max(seconds, 1e-9)
        left = None if whole is None or not rate else (whole - steps) / rate
        skipped = self.run.history.skipped
        return Status(epoch, self.goal.epochs, steps, whole, values, rate, left, resident(), self.arena, skipped)


def trained(
    run: TrainingRun, goal: Goal, loggers: Sequence[Logger], resumed: Checkpoint | None, display: Display
) -> History:
    """Run until the goal is reached, or something else ends it."""
    began = time.perf_counter()
    history, marked, view = run.history, Marked(run), RunDisplay(run, goal, display)
    with catching_interrupts(lambda: None, SecondInterruptRaises) as pressed:
        try:
            start(run, goal, loggers, resumed)
            marked.here()
            run.skipped = run.step.skipped
            while not (goal.reached(run.loader) or history.stopped or history.interrupted):
                epoch(run, goal, view, pressed, marked)
        except KeyboardInterrupt:
            history.interrupted = True
        except BaseException as error:
            run.error = error
            raise
        finally:
            marked.settle()
            run.drain()
            if run.epoch_loss.count and not run.loader.position:
                recorded(run, goal, view)  # the last batch of an epoch was trained on, and no callback was called
            finish_run(run, view)
            history.seconds = time.perf_counter() - began
    return history


def start(run: TrainingRun, goal: Goal, loggers: Sequence[Logger], resumed: Checkpoint | None) -> None:
    """Load the checkpoint to resume from, if any, and call the start hooks of loggers and callbacks."""
    begun = {} if resumed is None else resumed.resume(run)
    run.step._engine.check_ranks()
    goal.first = begun or {"first_epoch": run.loader.epoch, "first_step": run.step.steps}
    run.first = goal.first
    config = {
        "epochs": goal.epochs,
        "steps": goal.steps,
        "data": str(run.loader.source),
        "order": run.loader.order(),
        "hyper": run.step.hyper,
        "first_step": run.step.steps,
    }
    for logger in loggers:
        logger.start(config)
        run.loggers.append(logger)
    for callback in run.callbacks:
        callback.on_start(run)


def epoch(run: TrainingRun, goal: Goal, view: RunDisplay, pressed: InterruptFlag, marked: Marked) -> None:
    """Train on the remaining batches of an epoch, until something ends the run."""
    hooks = [c.on_step for c in run.callbacks if type(c).on_step is not Callback.on_step]
    loader, history, batch = run.loader, run.history, None
    first = loader.position
    view.begin()
    with closing(iter(loader)) as batches:
        for batch in batches:
            result = run.step(batch)
            if not result.interrupted:  # an interrupted call took fewer steps than it was given batches
                marked.here()
            run.took(result)
            if result.skipped:
                look_at_skipped(run, batch)
            for hook in hooks:
                hook(run)
            view.look()
            run.ranks.agree(history, pressed.any or result.interrupted)
            ended = history.interrupted or history.stopped or (goal.steps is not None and goal.reached(loader))
            # A run that ends with the last batch of an epoch completes the epoch.
            if ended and (result.interrupted or loader.position != loader.steps):
                return
    run.drain()
    if batch is None and not first:
        raise ParameterError("fit: the data gave no batch", hint="an iterator that was read before gives no more items")
    look_at_epoch(run, batch, run.steps - view.steps)
    end_epoch(run, goal, view)
    run.ranks.agree(history, history.interrupted or pressed.any)


def recorded(run: TrainingRun, goal: Goal, view: RunDisplay) -> None:
    """Append the row of an epoch that is over to the history."""
    epochs, steps = goal.done(run.loader)
    run.row = dict(zip(COLUMNS, (epochs, steps, run.epoch_loss.take(), view.seconds), strict=True))
    run.history.epochs.append(run.row)


def end_epoch(run: TrainingRun, goal: Goal, view: RunDisplay) -> None:
    """Record an epoch that is over, and call callbacks, loggers and the display."""
    recorded(run, goal, view)
    run.step._engine.check_ranks()
    for callback in run.callbacks:
        callback.on_epoch(run)
    named = {"epoch_loss" if name == "loss" else name: x for name, x in run.row.items() if name not in run.metrics}
    run.log(named)
    view.over()


def finish_run(run: TrainingRun, view: RunDisplay) -> None:
    """Call the end hooks of callbacks, loggers and the display, also after an error."""
    try:
        for callback in run.callbacks:
            callback.on_end(run)
    except BaseException as error:
        run.error = run.error or error
        raise
    finally:
        status = "failed" if run.error is not None else run.history.status
        run.tell(lambda logger: logger.finish(status))
        view.show("close", "" if status == "completed" else f"{status} after {run.step.steps} steps")
