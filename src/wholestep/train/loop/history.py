"""The history of a run: the loss of every step, a row for each epoch, and the reason of its end."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.report.table_format import align_columns
from wholestep.train.loop.loss_chart import draw_curves
from wholestep.words import Shown, printable

Row = dict[str, float]
"""Numbers by name: `epoch`, `steps`, `loss`, and measured metrics."""


class History(Shown):
    """The outcome of `fit`; it prints as a table.

    `epochs` is a list of rows, one for each epoch that was finished: `epoch` counts from 1, `steps` is the number of
    steps at its end, `loss` the mean of its steps, `seconds` its time; then the metrics on validation data.
    `evaluations` are rows of every evaluation. Steps whose update was skipped count in `skipped` and not in a mean.

    >>> history = History()
    >>> history.epochs.append({"epoch": 1, "steps": 4, "loss": 0.5})
    >>> history.epochs.append({"epoch": 2, "steps": 8, "loss": 0.25, "val_loss": 0.3})
    >>> print(history)
    epoch  steps  loss  val_loss
        1      4   0.5
        2      8  0.25       0.3
    >>> history["val_loss"].tolist()
    [nan, 0.3]
    """

    def __init__(self) -> None:
        self.epochs: list[Row] = []
        self.evaluations: list[Row] = []
        self.interrupted = False
        self.stopped: str | None = None
        self.skipped = 0
        self.seconds = 0.0
        self._losses = array("d")

    @property
    def losses(self) -> NDArray:
        """The loss of every step of this run, f64[steps]."""
        return np.array(self._losses, np.float64)

    @property
    def status(self) -> str:
        """The end of the run: `completed`, `interrupted`, or the reason of a stop."""
        return "interrupted" if self.interrupted else self.stopped or "completed"

    def add(self, losses: Sequence[float]) -> None:
        """Append the losses of a call."""
        self._losses.extend(losses)

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, name: str) -> NDArray:
        """A column of the epochs, f64[epochs], nan where it was not measured; raises KeyError for an unknown name."""
        if not any(name in row for row in self.epochs):
            raise KeyError(name)
        return np.array([row.get(name, math.nan) for row in self.epochs], np.float64)

    @property
    def columns(self) -> list[str]:
        """The names in the rows of the epochs, in order."""
        return list(dict.fromkeys(name for row in self.epochs for name in row))

    def __str__(self) -> str:
        names = self.columns
        cells = [[short_number(row.get(name)) for name in names] for row in self.epochs]
        rows = align_columns([list(map(printable, names)), *cells], [False] * len(names))
        told = rows if self.epochs else [f"no epoch; {len(self.losses)} steps"]
        return "\n".join([*told, *[f"{self.skipped} of {len(self.losses)} steps were skipped"] * bool(self.skipped)])

    def __repr__(self) -> str:
        about = f"{len(self.losses)} steps, {self.status}"
        return f"{self}\n{about}" if self.epochs else f"no epoch; {about}"

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """A matplotlib figure: the losses of steps and epochs on the left, other metrics on the right.

        A notebook shows it; with a path it is saved as a PNG. Raises MissingExtraError where matplotlib is not
        installed.
        """
        named = {name: self[name] for name in self.columns if name not in ("epoch", "steps", "seconds")}
        return draw_curves(path, self.losses, self["steps"] if self.epochs else np.zeros(0), named)


def short_number(x: float | None) -> str:
    """A number in a short form."""
    return "" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x)


def show_metrics(values: Mapping[str, Any]) -> str:
    """`loss 0.25  accuracy 0.9`."""
    return printable("  ".join(f"{name} {short_number(x)}" for name, x in values.items()))
