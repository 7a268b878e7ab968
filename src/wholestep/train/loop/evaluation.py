"""The loss and other metrics on data that is not trained on, averaged over its rows."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

import numpy as np

from wholestep import random, tree
from wholestep.boundary.counts import whole_number
from wholestep.collectives import communicator_of
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend import outside
from wholestep.frontend.source.entrance import ordinary
from wholestep.nn.keys import takes_key
from wholestep.train.data.loader import Loader
from wholestep.train.data.sources import is_leaf
from wholestep.train.loop.run import Callback, TrainingRun
from wholestep.train.step.attached import Attached
from wholestep.train.step.step import Step

Metric = Callable[..., Any]
"""The type of a metric: `f(params, batch)`, or other arguments of an attached function, to the batch's mean or (sum,
count)."""

METRIC = 'metrics={"accuracy": lambda model, batch: nn.metrics.accuracy(model(batch["x"]), batch["y"])}'
"""The way out: a function of the model and a batch, which calls a function of predictions and targets."""


class Evaluate(Callback):
    """Measure the loss and `metrics` on `data`, at the end of each epoch or `every` so many steps, and at the end.

    `data` is a loader or data for one. A metric is a function as `step.attach` takes it, whose value is the mean over
    the batch, or a pair of a sum and a count to divide it by; the result is the mean over all rows, or the total sum
    over the total count. Values are named `val_loss` and `val_` with the metric's name. A loss that takes a key gets
    the same one each time. Loss and metrics are one attached function, so that a batch is run through the model once.
    `prefix` takes the place of `val_` for other data than those of `validation=`.

    Shapes: rows of any shapes that the step takes.
    Raises: ParameterError for a metric without a name or with that of the loss, or for a count that is not positive.

    >>> Evaluate({"x": np.ones((4, 2))}, every=100).every
    100
    """

    def __init__(
        self,
        data: Any,
        metrics: Mapping[str, Metric] | None = None,
        every: int | None = None,
        prefix: str = "val_",
    ) -> None:
        if not isinstance(metrics, Mapping | None) or not all(map(callable, (metrics or {}).values())):
            raise DtypeError(
                "Evaluate: metrics is no dictionary of functions of the model and the batch",
                hint=METRIC,
            )
        for name, metric in (metrics or {}).items():
            if str(getattr(metric, "__module__", "")).startswith("wholestep.nn."):
                called = getattr(metric, "__name__", type(metric).__name__)
                raise DtypeError(
                    f"Evaluate: metrics[{name!r}] is {called}, and a metric is called with the model and a batch",
                    hint=METRIC,
                )
        self.data, self.metrics, self.prefix = data, dict(metrics or {}), prefix
        if not all(isinstance(name, str) and name and name != "loss" for name in self.metrics):
            raise ParameterError(f"Evaluate: metrics have names of their own, not {list(self.metrics)}")
        self.every = None if every is None else whole_number("every", every, "Evaluate")
        self.done = self.due = 0
        self.loader: Any = None
        self.measure: Any = None

    @property
    def names(self) -> list[str]:
        """The names of its values."""
        return [self.prefix + name for name in ("loss", *self.metrics)]

    def on_start(self, run: TrainingRun) -> None:
        self.loader = loader_for(run.step, self.data, training=False)
        if self.loader.steps_per_call > 1:
            raise ParameterError("fit: validation data comes a batch at a time", hint="leave steps_per_call out of it")
        self.measure = measured_before(run.step, self.metrics)
        self.done = run.steps
        self.due = run.steps + (self.every or 0)

    def on_step(self, run: TrainingRun) -> None:
        if self.every is not None and run.steps >= self.due:
            self.due = run.steps + self.every
            self.evaluate(run)

    def on_epoch(self, run: TrainingRun) -> None:
        if self.every is None:
            self.evaluate(run)
        run.row.update({name: x for name, x in run.metrics.items() if name.startswith(self.prefix)})

    def on_end(self, run: TrainingRun) -> None:
        if run.error is None and not run.history.interrupted and self.done != run.steps:
            self.evaluate(run)

    def evaluate(self, run: TrainingRun) -> None:
        """Measure the loss and all metrics once, and record them."""
        self.done = run.steps
        run.evaluated({self.prefix + name: x for name, x in self.measured().items()})

    def measured(self) -> dict[str, float]:
        """The means over the data."""
        sums: dict[str, list[float]] = {}
        for batch in self.loader:
            batch = outside.taken_over(batch, "batch", "fit")
            rows = count_rows(batch)
            for name, (total, count) in self.measure(batch).items():
                entry = sums.setdefault(name, [0.0, 0.0])
                weight = rows if count is None else float(count)
                entry[0] += float(total) * (rows if count is None else 1)
                entry[1] += weight
        return {name: total / count if count else float("nan") for name, (total, count) in sums.items()}


def loader_for(step: Step, data: Any, training: bool = True) -> Loader:
    """The data as a loader; one made here has the step's batch size, and draws from the step's own key.

    Each item of an iterable, or of the iterator that a function makes, is a batch, in the order of the iterator. So is
    each item of a list that has the axes of a batch.
    """
    if isinstance(data, Loader):
        return data
    count = step.steps_per_call if training else 1
    leaves = step._engine.signature.leaves
    if not leaves or leaves[0].type.ndim < 1 + (step.steps_per_call > 1):
        raise ShapeError("fit: the step takes no batch of rows", hint="give a Loader, which knows its batches")
    key = step._engine.state.counter("key")
    axis = step._engine.step_function.mesh
    if holds_batches(step, data):
        return Loader(data, None, shuffle=None if training else False, key=key, steps_per_call=count)
    if outside.foreign(data) or isinstance(data, dict | tuple):
        data = step._engine.signature.fitted_data(data, "fit")
    if training and axis is not None:
        mesh = {axis.name: communicator_of(axis.name)}
        rows = step.batch_size * axis.size
        return Loader(data, rows, drop_last=True, key=key, steps_per_call=count, mesh=mesh)
    return Loader(data, step.batch_size, shuffle=None if training else False, key=key, steps_per_call=count)


def holds_batches(step: Step, data: Any) -> bool:
    """True if the items of bare data are batches already: those of an iterable, and of a list of whole batches."""
    if isinstance(data, list) and data:
        axes = [leaf.type.ndim - (step.steps_per_call > 1) for leaf in step._engine.signature.leaves]
        item = tree.leaves(outside.taken_over(data[0], "data[0]", "fit"))
        return [np.ndim(x) for x in item] == axes
    if isinstance(data, str | os.PathLike) or outside.foreign(data) or not is_leaf(data):
        return False
    return not (hasattr(data, "__len__") and hasattr(data, "__getitem__"))


def count_rows(batch: Any) -> int:
    """The number of rows in a batch: the first axis of its first array that has one."""
    return next((len(x) for x in tree.leaves(batch) if np.ndim(x)), 1)


def measured_before(step: Step, metrics: Mapping[str, Metric]) -> Attached:
    """The function to measure with: that of an earlier run if it had the same functions and nothing that they read has
    changed."""
    functions = [step._engine.step_function.loss, *metrics.values()]
    before, names, attached = step._measurer or ([], (), None)
    alike = names == tuple(metrics) and len(before) == len(functions) and all(map(same_function, before, functions))
    if attached is None or not alike or not attached.constants_stay():
        attached = step.attach(measuring(step, metrics))
        step._measurer = functions, tuple(metrics), attached
    return attached


def same_function(f: Any, g: Any) -> bool:
    """Test whether two functions are one, which methods of one object are."""
    return f is g or (isinstance(f, MethodType) and f == g)


def measuring(step: Step, metrics: Mapping[str, Metric]) -> Callable[..., Any]:
    """A function to attach, which gives each metric's mean and None, or its sum and its count."""
    loss = step._engine.step_function.loss

    def called(f: Any, given: tuple[Any, ...]) -> Any:
        return ordinary(f)(*given, **({"key": random.key(0)} if takes_key(f) else {}))

    @functools.wraps(loss)
    def measure(*given: Any) -> dict[str, Any]:
        out = called(loss, given)
        found = {"loss": (out[0] if isinstance(out, tuple) else out, None)}
        for name, metric in metrics.items():
            found[name] = value_and_count(name, called(metric, given))
        return found

    made: Any = measure
    del made.__wrapped__  # what the metrics read by name is looked for in this function, and not in the loss alone
    made.__signature__ = inspect.Signature([inspect.Parameter("given", inspect.Parameter.VAR_POSITIONAL)])
    return measure


def value_and_count(name: str, value: Any) -> tuple[Any, Any]:
    """A metric's mean and None, or its sum and count; raises DtypeError where it is neither one number nor two."""
    found = value if isinstance(value, tuple) else (value, None)
    if len(found) != 2 or found[0] is None or any(np.ndim(x) for x in found if x is not None):
        raise DtypeError(f"fit: metric {name} gave {value}, not one number or a pair (sum, count)")
    return found
