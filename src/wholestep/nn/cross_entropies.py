"""Cross-entropy of predicted distributions over classes, against labels or other distributions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.dims import Dim
from wholestep.errors import BoundsError, DtypeError, ShapeError, bounds_hint, bounds_text, here, indexed
from wholestep.frontend.array import Array
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import blame
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import faded, finite_maximum, log_softmax
from wholestep.nn.reduction import Reduction, check_axis, loss_setting, real_floating, reduce_losses


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    axis: int = -1,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    class_weights: Any = None,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The cross-entropy of softmax(logits) with the classes along `axis`: -log(p[label]), or -sum(t * log(p)).

    Integer targets are labels; floating-point ones are soft, and need not sum to 1: the gradient is softmax * sum(t) -
    t for any sum. `label_smoothing` moves that share of each target to all classes evenly. `class_weights`, one for
    each class, multiply the terms. `ignore_index` is a label that counts for nothing. `weights` say how much each
    sample counts. With labels the mean divides by the total of the weights of the labels that count, which is nan where
    none does; with soft targets by the number, or the total weight, of samples. The numbers are PyTorch's, whose class
    axis is 1.

    Shapes: logits floats; labels integers of their shape without `axis`, soft targets of their shape; `class_weights`
    [classes]; a scalar, or the shape without `axis` with `reduction="none"`.
    Raises: BoundsError, which is an IndexError, for a label outside the classes, in a compiled program too; ShapeError,
    DtypeError and ParameterError for other invalid arguments.
    Source: Bridle, "Probabilistic interpretation of feedforward classification network outputs", 1990; Szegedy et al.,
    "Rethinking the inception architecture for computer vision", 2016, for label smoothing.

    >>> import numpy as np, wholestep as ws
    >>> logits = np.array([[2.0, 0.0], [0.0, 0.0]])
    >>> ws.nn.cross_entropy(logits, np.array([0, 1]), reduction="none").round(6).tolist()
    [0.126928, 0.693147]
    >>> float(ws.nn.cross_entropy(logits, np.array([-1, 1]), ignore_index=-1).round(6))
    0.693147
    >>> ws.grad(lambda x: ws.nn.cross_entropy(x, np.array([[3.0, 1.0]])))(np.zeros((1, 2))).tolist()
    [[-1.0, 1.0]]
    """
    name = "cross_entropy"
    x = real_floating(name, logits, "logits")
    check_axis(name, x, axis)
    eps = loss_setting(name, "label_smoothing", label_smoothing, 0.0, 1.0)
    scale = along_classes(name, class_weights, x, axis)
    if dtypes.is_inexact(wnp.asarray(targets).dtype):
        soft = (1 - eps) * soft_targets(name, targets, x, ignore_index) + eps / x.shape[axis]
        return reduce_losses(name, logits, -wnp.sum(soft * logs_of(x, scale, axis), axis=axis), reduction, weights)
    chosen = check_labels(name, targets, x, axis, ignore_index)
    if isinstance(eps, int | float) and eps == 0:
        return weighed(name, logits, surprise(x, chosen, axis), chosen, scale, reduction, weights)
    logs = logs_of(x, scale, axis)
    losses = -(1 - eps) * at_labels(logs, chosen, axis) - eps * wnp.mean(logs, axis=axis)
    return reduce_losses(
        name, logits, mask_ignored(losses, chosen), reduction, weights, label_weights(chosen, scale, losses)
    )


def logs_of(x: Any, scale: Any, axis: int) -> Any:
    """Logarithms of probabilities, times the weights of their classes."""
    logs = log_softmax(x, axis=axis)
    return logs if scale is None else logs * scale


def surprise(x: Any, labels: Labels, axis: int) -> Any:
    """-log_softmax(x) at the labels; its values at other classes are not kept."""
    top = finite_maximum(x, axis)
    return wnp.log(wnp.sum(wnp.exp(x - top), axis=axis)) + (wnp.squeeze(top, axis) - at_labels(x, labels, axis))


def nll_loss(
    log_probs: Any,
    labels: Any,
    *,
    axis: int = -1,
    ignore_index: int | None = None,
    class_weights: Any = None,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The negative log-likelihood of labels: -log_probs[label], for logarithms of probabilities along `axis`.

    `cross_entropy` is this on log_softmax(logits).

    Shapes: as `cross_entropy`, with labels alone.
    Raises: as `cross_entropy` does.
    Source: as `cross_entropy`.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.nll_loss(np.log([[0.25, 0.75]]), np.array([0])).round(6))
    1.386294
    """
    name = "nll_loss"
    x = real_floating(name, log_probs, "log_probs")
    check_axis(name, x, axis)
    chosen = check_labels(name, labels, x, axis, ignore_index)
    scale = along_classes(name, class_weights, x, axis)
    return weighed(name, log_probs, -at_labels(x, chosen, axis), chosen, scale, reduction, weights)


def focal(
    logits: Any,
    labels: Any,
    *,
    axis: int = -1,
    gamma: float = 2.0,
    ignore_index: int | None = None,
    class_weights: Any = None,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The focal loss of softmax(logits): cross-entropy with labels times (1 - p[label])**gamma.

    With a `gamma` of 0 it is `cross_entropy`.

    Shapes: as `cross_entropy`, with labels alone.
    Raises: as `cross_entropy` does, and ParameterError for a negative gamma.
    Source: Lin, Goyal, Girshick, He and Dollár, "Focal loss for dense object detection", 2017.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.focal(np.zeros((1, 2)), np.array([0])).round(6))
    0.173287
    """
    name = "focal"
    logs, chosen, scale = logs_at_labels(name, logits, labels, axis, ignore_index, class_weights)
    losses = faded(-wnp.expm1(logs), loss_setting(name, "gamma", gamma)) * -logs
    return weighed(name, logits, losses, chosen, scale, reduction, weights)


def logs_at_labels(
    name: str, logits: Any, labels: Any, axis: int, ignore_index: int | None, class_weights: Any
) -> tuple[Any, Labels, Any]:
    """The logarithms of the probabilities of labels, the labels, and the weights of classes along their axis."""
    x = real_floating(name, logits, "logits")
    check_axis(name, x, axis)
    chosen = check_labels(name, labels, x, axis, ignore_index)
    scale = along_classes(name, class_weights, x, axis)
    return at_labels(log_softmax(x, axis=axis), chosen, axis), chosen, scale


def poly_cross_entropy(
    logits: Any,
    labels: Any,
    *,
    axis: int = -1,
    epsilon: float = 1.0,
    ignore_index: int | None = None,
    class_weights: Any = None,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The poly-1 loss of softmax(logits): cross-entropy with labels plus epsilon * (1 - p[label]).

    With an `epsilon` of 0 it is `cross_entropy`.

    Shapes: as `cross_entropy`, with labels alone.
    Raises: as `cross_entropy` does, and ParameterError for an epsilon below -1, where the loss falls with p.
    Source: Leng et al., "PolyLoss: a polynomial expansion perspective of classification loss functions", 2022.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.poly_cross_entropy(np.zeros((1, 2)), np.array([0])).round(6))
    1.193147
    """
    name = "poly_cross_entropy"
    logs, chosen, scale = logs_at_labels(name, logits, labels, axis, ignore_index, class_weights)
    losses = -wnp.expm1(logs) * loss_setting(name, "epsilon", epsilon, -1.0) - logs
    return weighed(name, logits, losses, chosen, scale, reduction, weights)


class Labels(NamedTuple):
    """Labels within the range of the classes, and the mask of labels that count (None for all)."""

    index: Any
    mask: Any
    name: str


def check_labels(name: str, labels: Any, x: Any, axis: int, ignore_index: int | None) -> Labels:
    """Labels checked against the shape of their scores; ignored labels become class 0 and are masked."""
    if ignore_index is None:
        return Labels(labels_of(name, labels, x, axis), None, name)
    given = wnp.asarray(labels)
    mask = given != ignore_index
    return Labels(labels_of(name, wnp.where(mask, given, 0), x, axis), mask, name)


def labels_of(name: str, labels: Any, x: Any, axis: int) -> Any:
    """Integer labels shaped like x without an axis; raises BoundsError for a label outside this axis.

    For traced labels the program raises it as it runs.
    """
    index = wnp.asarray(labels)
    if index.dtype.kind not in "iu":
        raise DtypeError(
            f"{name}: labels are {type_of(index)}, not integers",
            hint="integers are labels and floating-point numbers soft targets; cast them with .astype",
        )
    place = axis % x.ndim
    if index.shape != x.shape[:place] + x.shape[place + 1 :]:
        raise ShapeError(
            f"{name}: labels are {type_of(index)}, and the scores {type_of(x)} with classes along axis {axis}",
            hint=axis_hint(index.shape, x.shape),
        )
    return checked_index(name, index, x.shape[place])


def axis_hint(labels: Any, scores: Any) -> str:
    """The way out where labels do not fit to the axis of the classes: another axis, where they fit to one alone."""
    if labels == scores:
        return "labels are numbers, as np.argmax(x, axis=-1) gives; one-hot x.astype(np.float32) are soft targets"
    fitting = [i for i in range(len(scores)) if labels == scores[:i] + scores[i + 1 :]]
    other = f"; axis={fitting[0]} is that axis here" if len(fitting) == 1 else ""
    return f"labels have the scores' shape without the axis of the classes{other}"


def checked_index(name: str, index: Any, size: int, what: str = "label") -> Any:
    """An index for a bounds-checked read of an axis of `size` elements: known values are checked here.

    Traced values are checked by the read; negative ones, which it would count from the end, are moved out of range.
    """
    data = index.value.data if isinstance(index, Array) else index
    if data is None:
        wide = index.astype(np.int64, copy=False)
        return wnp.where(wide < 0, wide - size, wide) if dtypes.counts_back(index.dtype) else wide
    values = np.asarray(data)
    # An index beyond a symbolic size is found by the read, in the program.
    bad = np.argwhere((values < 0) | (not isinstance(size, Dim) and values >= size))
    if len(bad):
        at = tuple([int(i) for i in bad[0]])
        found = f"{name}: {what} {values[at]}{f' at {list(at)}' if at else ''}"
        raise BoundsError(f"{found}{bounds_text(what, size)}", hint=bounds_hint(what))
    return index


@contextmanager
def index_called(what: str) -> Iterator[None]:
    """Give the index of the reads inside a name, such as "cross_entropy: label", for the error of a running program."""
    before = blame(indexed(here(), what))
    try:
        yield
    finally:
        blame(before)


def at_labels(x: Any, labels: Labels, axis: int) -> Any:
    """The elements of x at the labels."""
    with index_called(f"{labels.name}: label"):
        return wnp.squeeze(wnp.take_along_axis(x, wnp.expand_dims(labels.index, axis), axis=axis), axis)


def weighed(name: str, like: Any, losses: Any, labels: Labels, scale: Any, reduction: str, weights: Any) -> Any:
    """Losses at labels times the weights of their classes, reduced."""
    units = label_weights(labels, scale, losses)
    if scale is not None:
        losses = losses * wnp.take(scale.reshape(-1), labels.index)
    return reduce_losses(name, like, mask_ignored(losses, labels), reduction, weights, units)


def mask_ignored(losses: Any, labels: Labels) -> Any:
    """The losses that count, 0 for the others."""
    return losses if labels.mask is None else wnp.where(labels.mask, losses, 0)


def label_weights(labels: Labels, scale: Any, like: Any) -> Any:
    """The weight of each label in the mean: that of its class, 0 for an ignored label; None if all are 1."""
    if scale is not None:
        return mask_ignored(wnp.take(scale.reshape(-1), labels.index), labels)
    return None if labels.mask is None else labels.mask.astype(like.dtype)


def soft_targets(name: str, targets: Any, x: Any, ignore_index: int | None) -> Any:
    """Soft targets in the shape of the logits."""
    soft = real_floating(name, targets, "soft targets")
    if soft.shape != x.shape:
        raise ShapeError(
            f"{name}: soft targets are {type_of(soft)}, and the logits {type_of(x)}",
            hint="soft targets have the logits' shape; labels are integers, without the axis of the classes",
        )
    if ignore_index is not None:
        raise DtypeError(f"{name}: ignore_index is for labels, and the targets are {type_of(soft)}", hint="use weights")
    return soft


def along_classes(name: str, class_weights: Any, x: Any, axis: int) -> Any:
    """Weights of classes in a shape that broadcasts against the scores; None where there are none."""
    if class_weights is None:
        return None
    found, classes = wnp.asarray(class_weights), x.shape[axis]
    if found.shape != (classes,):
        raise ShapeError(f"{name}: class_weights are {type_of(found)}, and there are {classes} classes")
    return found.astype(x.dtype, copy=False).reshape(without(axis, x.ndim, classes))


def without(axis: int, ndim: int, size: int) -> tuple[int, ...]:
    """A shape of ones except `size` at one axis."""
    return tuple([size if i == axis % ndim else 1 for i in range(ndim)])
