"""The learning-rate range test: steps at growing rates until the loss diverges, whose effects are undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import whole_number
from wholestep.errors import ParameterError, TreeError
from wholestep.frontend import outside
from wholestep.ir.graph import NDArray
from wholestep.train.loop.loss_chart import blank_figure, finish_figure
from wholestep.train.step.step import Step
from wholestep.words import type_in_words

APART = 4.0
"""The multiple of the lowest loss so far that ends the trial."""


@dataclass(frozen=True)
class LrTrial:
    """The outcome of a trial: the rates that were tried, and the loss of each step, f64[n]."""

    rates: NDArray
    losses: NDArray
    smooth: float

    @property
    def smoothed(self) -> NDArray:
        """The bias-corrected running means of the losses, f64[n]."""
        mean, made = 0.0, []
        for i, loss in enumerate(self.losses, 1):
            mean = self.smooth * mean + (1 - self.smooth) * loss
            made.append(mean / (1 - self.smooth**i))
        return np.array(made)

    @property
    def suggestion(self) -> float:
        """The rate at which the smoothed loss fell fastest over the logarithm of the rate, before its lowest point.

        Raises ParameterError where it never fell.
        """
        smoothed = self.smoothed
        lowest = int(np.argmin(smoothed))
        if lowest < 1:
            raise ParameterError(
                f"lr_find: the loss never fell between the rates {self.rates[0]:.3g} and {self.rates[-1]:.3g}",
                hint="begin lower, or look at .losses",
            )
        slopes = np.gradient(smoothed[: lowest + 1], np.log(self.rates[: lowest + 1]))
        return float(self.rates[int(np.argmin(slopes))])

    def plot(self, path: str | PathLike[str]) -> None:
        """Save a PNG of the losses over the rates, with the suggestion marked.

        Raises MissingExtraError where matplotlib is not installed; no window is opened.
        """
        figure = blank_figure(6)
        axes = figure.subplots()
        axes.plot(self.rates, self.losses, color="0.8", linewidth=0.8, label="each step")
        axes.plot(self.rates, self.smoothed, color="C0", label="smoothed")
        if np.argmin(self.smoothed) > 0:
            axes.axvline(self.suggestion, color="C3", linewidth=0.8, label=f"suggestion {self.suggestion:.2g}")
        axes.set(xlabel="learning rate", ylabel="training loss", xscale="log")
        axes.legend(frameon=False)
        finish_figure(figure, path)

    def __repr__(self) -> str:
        found = f"suggestion {self.suggestion:.3g}" if np.argmin(self.smoothed) > 0 else "no suggestion"
        return f"<trial of {len(self.rates)} learning rates, {self.rates[0]:.3g} to {self.rates[-1]:.3g}: {found}>"


def lr_find(
    step: Step,
    data: Any,
    start: float = 1e-7,
    stop: float = 10.0,
    steps: int = 100,
    *,
    name: str = "lr",
    smooth: float = 0.9,
) -> LrTrial:
    """Take up to `steps` steps at learning rates from `start` to `stop`, and return the loss of each.

    `data` is a batch, which is used for every step, or an iterable of batches, restarted when it ends. `name` is
    that of the hyper-parameter. The rates grow by a constant factor; the trial ends early where the loss is not finite
    or four times the lowest one. `smooth` is the decay of the running mean of losses. Afterwards the step's state,
    counters and hyper-parameters, and the position of a loader are restored. Nothing is compiled, except the programs
    of `step.on` for batches of other sizes.

    Shapes: batches as the step was compiled for; the trial's `rates` and `losses` have one number for each step.
    Raises: ParameterError for rates that do not grow from above 0, fewer than two steps, a rate that is a schedule, or
    data without batches, and the step's errors for a batch that does not fit.
    Source: Smith, "Cyclical learning rates for training neural networks", 2017, section 3.3.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.train.loop.lr_finder import lr_find
    >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
    >>> trial = lr_find(step, np.ones(2), 1e-3, 1e2, 60)
    >>> len(trial.losses) < 60, 0.01 < trial.suggestion < 1.0, float(step.params), step.hyper
    (True, True, 0.0, {'lr': 0.5})
    """
    if not 0 < start < stop < np.inf:
        raise ParameterError(f"lr_find: the rates go from {start!r} to {stop!r}; they grow from more than 0")
    if whole_number("steps", steps, "lr_find") < 2:
        raise ParameterError("lr_find: one step says nothing", hint="steps is 2 or more")
    if not 0 <= smooth < 1:
        raise ParameterError(f"lr_find: smooth is {smooth!r}; it must be in [0, 1)")
    losses: list[float] = []
    rates = np.geomspace(start, stop, steps)
    with undone(step, data):
        for rate, batch in zip(rates, batches(step, data), strict=False):
            step.set(**{name: rate})
            losses.append(step(batch).loss)
            if not np.isfinite(losses[-1]) or losses[-1] > APART * min(losses) > 0:
                break
    known = [loss for loss in losses if np.isfinite(loss)]
    if not known:
        raise ParameterError("lr_find: there was no batch, or no step had a finite loss")
    return LrTrial(rates[: len(known)], np.array(known), float(smooth))


@contextmanager
def undone(step: Step, data: Any) -> Iterator[None]:
    """A context after which the step's state and hyper-parameters, and a loader's position, are restored."""
    engine = step._engine
    state, hyper, unfinished = step.state, step.hyper, engine.unfinished
    position = data.state() if hasattr(data, "restore") else None
    try:
        yield
    finally:
        step.load_state(state)
        step.set(**hyper)
        engine.unfinished = unfinished
        if position is not None:
            data.restore(position)


def batches(step: Step, data: Any) -> Iterator[Any]:
    """An endless iterator over one batch, or over the batches of an iterable, which is restarted when it ends."""
    data = outside.taken_over(data, "data", "lr_find") if outside.foreign(data) else data
    like = tree.structure(data) == step._engine.signature.structure and not hasattr(data, "restore")
    while like or isinstance(data, Mapping | tuple | np.ndarray):
        yield data
    if not hasattr(data, "__iter__"):
        raise TreeError(
            f"lr_find: data is {type_in_words(data)}, neither like the batch nor an iterable of batches",
            hint="a batch, a list of them, or a ws.Loader",
        )
    some = True
    while some:
        some = False
        for batch in data:
            some = True
            yield batch
