"""Charts of a training run: the loss as text for the terminal, as SVG under a cell, and as a picture."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.train.data.datasets import need
from wholestep.words import printable


def chart(values: Sequence[float], width: int = 60, height: int = 8) -> str:
    """Draw positive numbers as a text chart with a logarithmic axis, in plain ASCII.

    Columns hold the mean of equal stretches where there are more values than columns. Values that are not finite or not
    positive leave a gap.

    >>> print(chart([1.0, 0.1, 0.01], height=3))
            1 |*
          0.1 | *
         0.01 |  *
              +---
    """
    columns = [float(np.mean(part)) for part in np.array_split(np.asarray(values, float), min(len(values), width))]
    logs = [math.log10(v) if math.isfinite(v) and v > 0 else None for v in columns]
    known = [v for v in logs if v is not None]
    if not known:
        return "  (no finite loss to draw)"
    low, high = min(known), max(known)
    step = (high - low) / (height - 1) or 1.0
    rows = []
    for row in range(height):
        marks = ["*" if v is not None and round((high - v) / step) == row else " " for v in logs]
        label = f"{10 ** (high - row * step):9.3g}" if high > low or row == 0 else " " * 9
        rows.append(f"{label} |{''.join(marks)}".rstrip())
    return "\n".join([*rows, " " * 10 + "+" + "-" * len(logs)])


COLOURS = ("#5b8def", "#e07b39", "#3fa66a", "#9b59b6")
"""Colours of curves in a notebook, which stand on light and dark pages."""


def svg_chart(curves: Mapping[str, Sequence[tuple[int, float]]], width: int = 480, height: int = 140) -> str:
    """Draw losses over steps as SVG, with a logarithmic axis where all are positive; "" for fewer than two points.

    >>> svg_chart({"loss": [(1, 2.0)]})
    ''
    >>> svg_chart({"loss": [(1, 2.0), (2, 1.0)]}).count("<polyline ")
    1
    """
    found = {name: [(n, x) for n, x in points if math.isfinite(x)] for name, points in curves.items()}
    every = [point for points in found.values() for point in points]
    if len(every) < 2:
        return ""
    steps, values = zip(*every, strict=True)
    scale = math.log if min(values) > 0 else float
    left, low, high = min(steps), scale(min(values)), scale(max(values))
    across, up = (max(steps) - left) or 1, (high - low) or 1.0

    def place(n: int, x: float) -> str:
        return f"{60 + (width - 70) * (n - left) / across:.1f},{8 + (height - 16) * (high - scale(x)) / up:.1f}"

    def words(x: float, y: float, text: str, fill: str = "currentColor") -> str:
        return f'<text x="{x}" y="{y}" fill="{fill}">{html.escape(printable(text))}</text>'

    parts = [words(0, 14, f"{max(values):.3g}"), words(0, height - 6, f"{min(values):.3g}")]
    for i, (name, points) in enumerate(found.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join([place(*point) for point in points])
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(words(width - 80, 16 + 14 * i, name, colour))
    return f'<svg width="{width}" height="{height}" font-family="monospace" font-size="11">{"".join(parts)}</svg>'


def picture(
    path: str | PathLike[str],
    losses: Sequence[float],
    epoch_losses: Sequence[float],
    accuracies: Sequence[float],
    misread: Sequence[tuple[NDArray, int, int]] = (),
) -> None:
    """Save a PNG: the loss of each step and epoch, the accuracy on held-out images, and images that were misread.

    `misread` holds (pixels[8, 8], label, prediction). Needs matplotlib; no window is opened.
    """
    figure = blank_figure(9, 5.2 if misread else 3.6)
    rows: Any = figure.subfigures(2, 1, height_ratios=(3, 1.2)) if misread else [figure]
    left, right = rows[0].subplots(1, 2)
    epochs = np.arange(1, len(epoch_losses) + 1)
    per_epoch = len(losses) / max(len(epoch_losses), 1)
    x = np.arange(1, len(losses) + 1) / max(per_epoch, 1)
    _losses(left, x, losses, epochs, {"mean of an epoch": epoch_losses}, "epoch")
    right.plot(epochs[: len(accuracies)], np.asarray(accuracies) * 100, color="C2")
    right.set(xlabel="epoch", ylabel="% read correctly", title="Held-out images")
    if misread:
        _gallery(rows[1], misread[:10])
    finish_figure(figure, path)


def draw_curves(path: str | PathLike[str] | None, losses: NDArray, ends: NDArray, named: Mapping[str, NDArray]) -> Any:
    """A figure: the loss of each step, and the metrics at the ends of epochs, which `ends` gives as step numbers.

    With a path it is saved as a PNG. Metrics whose names end in "loss" are drawn with the loss of the steps, the other
    ones in a panel of their own. Raises MissingExtraError where matplotlib is not installed; no window is opened.
    """
    kinds = {name: x for name, x in named.items() if name.endswith("loss")}
    others = {name: x for name, x in named.items() if name not in kinds}
    figure = blank_figure(9 if others else 5)
    left, *right = np.atleast_1d(figure.subplots(1, 1 + bool(others)))
    last = int(ends[-1]) if len(ends) else len(losses)
    _losses(left, np.arange(1, len(losses) + 1) + max(0, last - len(losses)), losses, ends, kinds, "step")
    for axes in right:
        for name, x in others.items():
            axes.plot(ends, x, label=printable(name))
        axes.set(xlabel="step", title="Metrics")
        axes.legend(frameon=False)
    return finish_figure(figure, path)


def blank_figure(width: float, height: float = 3.6) -> Any:
    """An empty figure, which needs no window; raises MissingExtraError where matplotlib is not installed."""
    need("matplotlib", extra="train")
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows as a picture."""

        def _repr_png_(self) -> bytes:
            with io.BytesIO() as file:
                self.savefig(file, format="png")
                return file.getvalue()

    return NotebookFigure(figsize=(width, height), layout="constrained", dpi=120)


def finish_figure(figure: Any, path: str | PathLike[str] | None) -> Any:
    """The figure with panels open to the top and the right, saved as a PNG where there is a path."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        figure.savefig(path, format="png")
    return figure


def _losses(axes: Any, x: NDArray, losses: Any, ends: NDArray, named: Mapping[str, Any], unit: str) -> None:
    """The loss of each step, and other losses where epochs end."""
    axes.plot(x, losses, color="0.8", linewidth=0.8, label="each step")
    for i, (name, values) in enumerate(named.items()):
        axes.plot(ends, values, color=f"C{i}", label=printable(name))
    positive = np.concatenate([np.ravel(v) for v in (losses, *named.values())])
    scale = "log" if np.all(positive[np.isfinite(positive)] > 0) else "linear"
    axes.set(xlabel=unit, ylabel="loss" if unit == "step" else "training loss", yscale=scale, title="Loss")
    axes.legend(frameon=False)


def _gallery(row: Any, misread: Sequence[tuple[NDArray, int, int]]) -> None:
    """Misread images side by side, at most ten."""
    row.suptitle("Misread", fontsize="large", x=0.01, horizontalalignment="left")
    for axes, item in zip(row.subplots(1, 10), [*misread, *[None] * (10 - len(misread))], strict=True):
        axes.axis("off")
        if item is not None:
            pixels, label, read = item
            axes.imshow(pixels, cmap="gray_r", vmin=0, vmax=1)
            axes.set_title(f"{label}, read {read}", fontsize="small")
