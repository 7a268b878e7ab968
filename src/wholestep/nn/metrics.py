"""`ws.nn.metrics`: metrics of predictions, at once or batch by batch, in and outside of compiled programs.

A running metric is a plain object without state of its own: `init()` gives the state to begin with,
`update(state, ...)` a new one, and `compute(state)` the figure. States are trees of arrays, so they can be buffers of a
compiled step or the carry of a loop.

>>> import numpy as np, wholestep as ws
>>> metric = ws.nn.metrics.Accuracy()
>>> state = metric.init()
>>> for scores, labels in [(np.eye(2), np.array([0, 1])), (np.eye(2), np.array([1, 1]))]:
...     state = metric.update(state, scores, labels)
>>> float(metric.compute(state))
0.75
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.cross_entropies import checked_index, index_called, labels_of, without
from wholestep.nn.reduction import check_axis, paired_operands, real_floating, reduce_losses

Average = Literal["macro", "micro", "weighted"] | None

AVERAGES = (None, "macro", "micro", "weighted")


def accuracy(predictions: Any, labels: Any, *, axis: int = -1, weights: Any = None) -> NDArray:
    """The share of labels that are predicted.

    Floating-point predictions are scores with the classes along `axis`, of which the highest counts (the first of equal
    ones); integers are predicted classes.

    Shapes: labels integers; scores floats with a further axis, classes of the shape of the labels; `weights` as
    `ws.nn.mse`; f64.
    Raises: BoundsError for a label outside the classes of the scores, ShapeError or DtypeError for operands that do not
    fit.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.metrics.accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1])))
    0.5
    """
    return share(hits("accuracy", predictions, labels, axis), weights, "accuracy")


def top_k_accuracy(scores: Any, labels: Any, k: int, *, axis: int = -1, weights: Any = None) -> NDArray:
    """The share of labels that are among the `k` highest scores along `axis`; of equal scores the first are higher.

    Shapes: labels integers, scores floats with a further axis; `weights` as `ws.nn.mse`; f64.
    Raises: ParameterError for a `k` below 1, and as `accuracy` does.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.metrics.top_k_accuracy(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), np.array([1, 2]), 2))
    0.5
    """
    return share(top_hits("top_k_accuracy", scores, labels, k, axis), weights, "top_k_accuracy")


def confusion_matrix(predictions: Any, labels: Any, classes: int, *, axis: int = -1) -> NDArray:
    """The number of times each label (row) was predicted as each class (column).

    Predictions and `axis` are as in `accuracy`.

    Shapes: predictions and labels as `accuracy`; i64[classes, classes].
    Raises: BoundsError for a label or a prediction outside the classes, and as `accuracy` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.metrics.confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    found, true = predicted_classes("confusion_matrix", predictions, labels, axis)
    at = [wnp.ravel(checked_index("confusion_matrix", x, classes)) for x in (true, found)]
    counts = wnp.zeros((classes, classes), np.int64)
    np.add.at(counts, tuple(at), 1)
    return counts


def precision(matrix: Any, *, average: Average = None) -> NDArray:
    """The precision of each class: true positives over predicted positives.

    A class that was never predicted has 0. `average` gives one number: the mean over classes ("macro"), the mean by how
    often each class occurs ("weighted"), or the share over all classes together ("micro").

    Shapes: a confusion matrix [classes, classes]; f64[classes], a scalar with `average`.
    Raises: ShapeError for a matrix that is not square, ParameterError for another `average`.
    Source: van Rijsbergen, "Information retrieval", 1979, chapter 7.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.metrics.precision(np.array([[2, 1], [0, 1]])).tolist()
    [1.0, 0.5]
    """
    return averaged("precision", matrix, average, lambda r, p, t: ratio(r, p))


def recall(matrix: Any, *, average: Average = None) -> NDArray:
    """The share of a class that was predicted as it: true positives over actual ones.

    A class that does not occur has 0; `average` is as in `precision`.

    Shapes: as `precision`.
    Raises: as `precision` does.
    Source: as `precision`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.metrics.recall(np.array([[3, 1], [0, 1]])).tolist()
    [0.75, 1.0]
    """
    return averaged("recall", matrix, average, lambda r, p, t: ratio(r, t))


def f1(matrix: Any, *, average: Average = None) -> NDArray:
    """The harmonic mean of precision and recall.

    A class that neither occurs nor was predicted has 0; `average` is as in `precision`.

    Shapes: as `precision`.
    Raises: as `precision` does.
    Source: as `precision`.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.metrics.f1(np.array([[1, 1], [1, 1]]), average="macro"))
    0.5
    """
    return averaged("f1", matrix, average, lambda r, p, t: ratio(2 * r, p + t))


def r2(predictions: Any, targets: Any, *, weights: Any = None) -> NDArray:
    """The coefficient of determination: 1 minus the squared error over the variance of the targets.

    Several targets a sample give the mean over them. A target that never changes scores 1 where it is met exactly and 0
    elsewhere.

    Shapes: predictions floats and targets of one shape [samples, ...], `weights` [samples]; f64.
    Raises: ShapeError where shapes differ or there is no axis of samples, DtypeError for predictions that are not real
    floats.
    Source: Wright, "Correlation and causation", 1921.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.metrics.r2(np.array([1.0, 2.0, 3.5]), np.array([1.0, 2.0, 3.0])))
    0.875
    """
    x, t = paired_operands("r2", predictions, targets)
    if t.ndim == 0:
        raise ShapeError(f"r2: targets are {type_of(t)}, which has no axis of samples")
    metric = R2(t.shape[1:])
    return metric.compute(metric.update(metric.init(), x, t, weights=weights))


class Averaging:
    """The common part of running means."""

    def init(self) -> dict[str, Any]:
        """The initial state: a total and a count of 0."""
        return {"total": np.zeros(()), "count": np.zeros(())}

    def compute(self, state: dict[str, Any]) -> NDArray:
        """The mean, a float64 scalar; nan before the first value."""
        none = state["count"] == 0
        return wnp.where(none, np.nan, state["total"] / wnp.where(none, 1, state["count"]))


@dataclass(frozen=True)
class Mean(Averaging):
    """The weighted mean of all values so far; nan before the first one.

    Shapes: values of any shape, weights of that or of its first axes; f64, of sums in float64.
    Raises: ShapeError, in `update`, for weights that do not fit.

    >>> import numpy as np
    >>> metric = Mean()
    >>> state = metric.update(metric.init(), np.array([1.0, 3.0]), weights=np.array([1.0, 3.0]))
    >>> float(metric.compute(state))
    2.5
    """

    def update(self, state: dict[str, Any], values: Any, *, weights: Any = None) -> dict[str, Any]:
        """The state after some more values, of any shape; weights have that shape, or that of its first axes."""
        x = wnp.asarray(values).astype(np.float64)
        ones = wnp.ones(x.shape)
        return {
            "total": state["total"] + reduce_losses("Mean", x, x, "sum", weights),
            "count": state["count"] + reduce_losses("Mean", ones, ones, "sum", weights),
        }


@dataclass(frozen=True)
class Accuracy(Averaging):
    """The share of labels predicted so far: `accuracy`, batch by batch; with a `k`, `top_k_accuracy`.

    Shapes: as `accuracy`.
    Raises: as `accuracy` and `top_k_accuracy` do.

    >>> import numpy as np
    >>> metric = Accuracy()
    >>> float(metric.compute(metric.update(metric.init(), np.array([1, 1]), np.array([1, 0]))))
    0.5
    """

    k: int | None = None
    axis: int = -1

    def update(self, state: dict[str, Any], predictions: Any, labels: Any, *, weights: Any = None) -> dict[str, Any]:
        """The state after some more predictions."""
        if self.k is None:
            found = hits("Accuracy", predictions, labels, self.axis)
        else:
            found = top_hits("Accuracy", predictions, labels, self.k, self.axis)
        return Mean().update(state, found, weights=weights)


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of each label predicted as each class so far: `confusion_matrix`, batch by batch.

    Arguments are those of `confusion_matrix`.

    Shapes: as `confusion_matrix`.
    Raises: as `confusion_matrix` does.

    >>> import numpy as np
    >>> metric = ConfusionMatrix(2)
    >>> metric.update(metric.init(), np.array([1, 1]), np.array([1, 0])).tolist()
    [[0, 1], [0, 1]]
    """

    classes: int
    axis: int = -1

    def init(self) -> NDArray:
        """i64[classes, classes] of zeros."""
        return np.zeros((self.classes, self.classes), np.int64)

    def update(self, state: Any, predictions: Any, labels: Any) -> NDArray:
        """The counts after some more predictions."""
        return state + confusion_matrix(predictions, labels, self.classes, axis=self.axis)

    def compute(self, state: Any) -> NDArray:
        """The counts, which `precision`, `recall` and `f1` take."""
        return state


@dataclass(frozen=True)
class R2:
    """The coefficient of determination so far: `r2`, batch by batch, for targets of this shape each.

    Sums of squares are about the running mean, so nothing cancels.

    Shapes: as `r2`, with targets [samples, *shape].
    Raises: as `r2` does.
    Source: as `r2`; Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979.

    >>> import numpy as np
    >>> metric = R2()
    >>> float(metric.compute(metric.update(metric.init(), np.array([1.0, 2.0, 3.5]), np.array([1.0, 2.0, 3.0]))))
    0.875
    """

    shape: tuple[int, ...] = ()

    def init(self) -> dict[str, Any]:
        """The initial state: a total weight, and each target's mean, squares about it, and squared errors, all 0."""
        return {"weight": np.zeros(()), **{name: np.zeros(self.shape) for name in ("mean", "squares", "errors")}}

    def update(self, state: dict[str, Any], predictions: Any, targets: Any, *, weights: Any = None) -> dict[str, Any]:
        """The state after some more samples, along the first axis."""
        x, t = [a.astype(np.float64) for a in paired_operands("r2", predictions, targets)]
        w = wnp.ones(t.shape[:1]) if weights is None else wnp.asarray(weights).astype(np.float64)
        if w.shape != t.shape[:1]:
            raise ShapeError(f"r2: weights are {type_of(w)}, and there are {t.shape[0]} samples")
        each = w.reshape((-1,) + (1,) * len(self.shape))
        new = wnp.sum(w)
        some = wnp.where(new == 0, 1, new)
        mean = wnp.sum(each * t, axis=0) / some
        total = state["weight"] + new
        apart = mean - state["mean"]
        part = new / wnp.where(total == 0, 1, total)
        squares = wnp.sum(each * (t - mean) ** 2, axis=0) + apart * apart * state["weight"] * part
        return {
            "weight": total,
            "mean": state["mean"] + apart * part,
            "squares": state["squares"] + squares,
            "errors": state["errors"] + wnp.sum(each * (x - t) ** 2, axis=0),
        }

    def compute(self, state: dict[str, Any]) -> NDArray:
        """The score, a float64 scalar."""
        still = state["squares"] == 0
        score = 1 - state["errors"] / wnp.where(still, 1, state["squares"])
        return wnp.mean(wnp.where(still, wnp.where(state["errors"] == 0, 1.0, 0.0), score))


def predicted_classes(name: str, predictions: Any, labels: Any, axis: int) -> tuple[Any, Any]:
    """Predicted classes and labels, both of integers and of one shape."""
    x = wnp.asarray(predictions)
    if dtypes.is_inexact(x.dtype):
        x = real_floating(name, x, "scores")
        check_axis(name, x, axis)
        return wnp.argmax(x, axis=axis), labels_of(name, labels, x, axis)
    true = wnp.asarray(labels)
    if x.shape != true.shape:
        raise ShapeError(
            f"{name}: predictions are {type_of(x)}, and labels {type_of(true)}",
            hint="integer predictions are classes, one for each label; floating-point ones are scores",
        )
    return x, true


def hits(name: str, predictions: Any, labels: Any, axis: int) -> Any:
    """True where the label is the predicted one."""
    found, true = predicted_classes(name, predictions, labels, axis)
    return found == true


def top_hits(name: str, scores: Any, labels: Any, k: int, axis: int) -> Any:
    """True where the label is among the k highest scores."""
    if operator.index(k) < 1:
        raise ParameterError(f"{name}: k is {k}; it must be 1 or more")
    x = real_floating(name, scores, "scores")
    check_axis(name, x, axis)
    at = wnp.expand_dims(labels_of(name, labels, x, axis), axis)
    with index_called(f"{name}: label"):
        own = wnp.take_along_axis(x, at, axis=axis)
    before = wnp.arange(x.shape[axis]).reshape(without(axis, x.ndim, x.shape[axis])) < at
    return wnp.sum((x > own) | (before & (x == own)), axis=axis) < k


def share(found: Any, weights: Any, name: str) -> Any:
    """The mean of truth values."""
    ones = found.astype(np.float64)
    return reduce_losses(name, ones, ones, "mean", weights)


def averaged(name: str, matrix: Any, average: Average, score: Callable[..., Any]) -> Any:
    """A score of how often each class was predicted rightly, predicted, and there; or the mean that was asked for."""
    counts = wnp.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ShapeError(f"{name}: the confusion matrix is {type_of(counts)}; it must be square")
    if average not in AVERAGES:
        raise ParameterError(f"{name}: average is {average!r}; it is one of {', '.join(map(repr, AVERAGES))}")
    counts = counts.astype(np.float64)
    right, predicted, true = wnp.diagonal(counts), wnp.sum(counts, axis=0), wnp.sum(counts, axis=1)
    if average == "micro":
        return score(*[wnp.sum(x) for x in (right, predicted, true)])
    scores = score(right, predicted, true)
    if average == "macro":
        return wnp.mean(scores)
    return scores if average is None else ratio(wnp.sum(scores * true), wnp.sum(true))


def ratio(part: Any, whole: Any) -> Any:
    """part / whole, 0 where `whole` is 0."""
    return wnp.where(whole == 0, 0, part / wnp.where(whole == 0, 1, whole))
