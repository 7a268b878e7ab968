"""Losses of pairs and of several labels at once, and losses of sets: ranks, margins, contrasts, overlaps."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.distances import l2_normalize
from wholestep.nn.exponentials import log_softmax
from wholestep.nn.probabilities import bce_with_logits
from wholestep.nn.reduction import (
    Reduction,
    check_axis,
    check_chances,
    paired_chances,
    paired_operands,
    paired_signs,
    real_floating,
    reduce_losses,
)


def margin_ranking(
    first: Any, second: Any, targets: Any, *, margin: float = 0.0, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """max(0, margin - t * (first - second)): first ranks higher where the target t is 1, lower where it is -1.

    `weights` and `reduction` are those of `mse`.

    Shapes: floats first and second and targets, of one shape; a scalar, or that shape with `reduction="none"`.
    Raises: as `mse` does, and ParameterError for other targets; in a compiled program BoundsError.
    Source: Burges et al., "Learning to rank using gradient descent", 2005; PyTorch's MarginRankingLoss.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.margin_ranking(np.array([1.0, 1.0]), np.array([0.0, 3.0]), np.array([1, 1]), reduction="none").tolist()
    [0.0, 2.0]
    """
    a, b = paired_operands("margin_ranking", first, second, "second scores")
    _, t = paired_signs("margin_ranking", first, targets)
    return reduce_losses("margin_ranking", first, wnp.maximum(margin - t * (a - b), 0), reduction, weights)


def hinge_embedding(
    distances: Any, targets: Any, *, margin: float = 1.0, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """The distance itself where the target is 1, max(0, margin - distance) where it is -1.

    Shapes: distances and targets as `mse`.
    Raises: as `mse` does, and ParameterError for other targets; in a compiled program BoundsError.
    Source: Hadsell, Chopra and LeCun, "Dimensionality reduction by learning an invariant mapping", 2006; PyTorch's
    HingeEmbeddingLoss.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hinge_embedding(np.array([0.25, 0.25]), np.array([1, -1]), reduction="none").tolist()
    [0.25, 0.75]
    """
    x, t = paired_signs("hinge_embedding", distances, targets)
    losses = wnp.where(t > 0, x, wnp.maximum(margin - x, 0))
    return reduce_losses("hinge_embedding", distances, losses, reduction, weights)


def soft_margin(scores: Any, targets: Any, *, weights: Any = None, reduction: Reduction = "mean") -> NDArray:
    """log(1 + exp(-t * x)), for scores x and targets t of -1 and 1: the logistic loss.

    Shapes: as `mse`.
    Raises: as `mse` does, and ParameterError for other targets; in a compiled program BoundsError.
    Source: Cox, "The regression analysis of binary sequences", 1958.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.soft_margin(np.array([0.0, 800.0]), np.array([1, -1]), reduction="none").round(4).tolist()
    [0.6931, 800.0]
    """
    x, t = paired_signs("soft_margin", scores, targets)
    return reduce_losses("soft_margin", scores, wnp.logaddexp(0, -t * x), reduction, weights)


def multilabel_soft_margin(
    scores: Any, targets: Any, *, axis: int = -1, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """The mean over the classes of the binary cross-entropy of each, for targets of 0 and 1.

    `weights` and `reduction` are those of `mse`.

    Shapes: scores floats and targets of one shape; a scalar, or that shape without `axis` with `reduction="none"`.
    Raises: as `mse` does, and AxisError for an axis that is not there.
    Source: PyTorch's MultiLabelSoftMarginLoss.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.multilabel_soft_margin(np.array([[0.0, 0.0]]), np.array([[1, 0]])).round(4))
    0.6931
    """
    x = real_floating("multilabel_soft_margin", scores, "scores")
    check_axis("multilabel_soft_margin", x, axis)
    losses = wnp.mean(bce_with_logits(x, targets, reduction="none"), axis=axis)
    return reduce_losses("multilabel_soft_margin", scores, losses, reduction, weights)


def multilabel_margin(
    scores: Any,
    targets: Any,
    *,
    margin: float = 1.0,
    axis: int = -1,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The sum of max(0, margin - (x[i] - x[j])) over classes i of target 1 and j of target 0, over all classes.

    `weights` and `reduction` are those of `mse`.

    Shapes: scores floats and targets, 0 or 1, of one shape; a scalar, or that shape without `axis` with
    `reduction="none"`.
    Raises: as `mse` does, and AxisError for an axis that is not there.
    Source: PyTorch's MultiLabelMarginLoss, whose targets are labels, where these are 0 and 1.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.multilabel_margin(np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[1, 0, 0, 1]])).round(6))
    0.85
    """
    x, t = paired_operands("multilabel_margin", scores, targets)
    check_axis("multilabel_margin", x, axis)
    a, right = wnp.moveaxis(x, axis, -1), wnp.moveaxis(t, axis, -1) > 0
    gaps = wnp.maximum(margin - (a[..., :, None] - a[..., None, :]), 0)
    counted = wnp.where(right[..., :, None] & ~right[..., None, :], gaps, 0)
    losses = wnp.sum(counted, axis=(-2, -1)) / x.shape[axis]
    return reduce_losses("multilabel_margin", scores, losses, reduction, weights)


def nt_xent(
    first: Any, second: Any, *, temperature: float = 0.5, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """The contrastive loss of two views of each sample: each view picks the other out of all views of the batch.

    Similarities are cosines over `temperature`; a view is not compared with itself. The loss of a sample is the mean of
    those of its two views. `weights` and `reduction` are those of `mse`.

    Shapes: first and second floats [n, width]; a scalar, or [n] with `reduction="none"`.
    Raises: ShapeError for other shapes, ParameterError for a temperature that is not positive, and as `mse` does.
    Source: Chen et al., "A simple framework for contrastive learning of visual representations", 2020.

    >>> import numpy as np, wholestep as ws
    >>> views = np.eye(2)
    >>> float(ws.nn.nt_xent(views, views, temperature=1.0).round(4))
    0.5514
    """
    name = "nt_xent"
    a, b = paired_operands(name, first, second, "the other views")
    if a.ndim != 2:
        raise ShapeError(f"{name}: views are {type_of(a)}; they must be [n, width]")
    if isinstance(temperature, int | float) and not temperature > 0:
        raise ParameterError(f"{name}: temperature is {temperature}; it must be positive")
    n = a.shape[0]
    views = l2_normalize(wnp.concatenate([a, b]))
    itself = wnp.arange(2 * n)
    alike = wnp.where(itself[:, None] == itself, -wnp.inf, views @ views.T / temperature)
    other = (itself + n) % (2 * n)
    each = -wnp.take_along_axis(log_softmax(alike), other[:, None], axis=1)[:, 0]
    return reduce_losses(name, first, (each[:n] + each[n:]) / 2, reduction, weights)


def dice(
    probabilities: Any,
    targets: Any,
    *,
    axes: int | tuple[int, ...] | None = None,
    smooth: float = 1.0,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """1 - (2 * sum(p * t) + smooth) / (sum(p) + sum(t) + smooth), over `axes`: one minus the overlap of two sets.

    `axes` are all but the first if not given, so that each sample has a loss. `weights` and `reduction` are those of
    `mse`.

    Shapes: probabilities floats and targets, of one shape; a scalar, or the shape without the axes with
    `reduction="none"`.
    Raises: as `mse` and `bce` do, AxisError for an axis that is not there, ParameterError for a negative `smooth`.
    Source: Milletari, Navab and Ahmadi, "V-Net: fully convolutional neural networks for volumetric medical image
    segmentation", 2016.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.dice(np.array([[1.0, 0.0, 1.0]]), np.array([[1, 0, 0]])))
    0.25
    """
    p, t = paired_chances("dice", probabilities, targets)
    p = check_chances("dice", "probabilities", p, "ws.nn.sigmoid or ws.nn.softmax makes them of scores")
    if isinstance(smooth, int | float) and smooth < 0:
        raise ParameterError(f"dice: smooth is {smooth}; it must be 0 or more")
    over = tuple(range(1, p.ndim)) if axes is None else axes
    shared, total = wnp.sum(p * t, axis=over), wnp.sum(p, axis=over) + wnp.sum(t, axis=over)
    return reduce_losses("dice", probabilities, 1 - (2 * shared + smooth) / (total + smooth), reduction, weights)
