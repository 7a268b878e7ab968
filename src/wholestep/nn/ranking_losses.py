"""Margin losses: zero once the right answer is ahead of the wrong ones by a margin."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.cross_entropies import index_called, labels_of, without
from wholestep.nn.reduction import (
    Reduction,
    check_axis,
    loss_setting,
    narrow,
    paired_operands,
    paired_signs,
    real_floating,
    reduce_losses,
)


def hinge(
    scores: Any, targets: Any, *, margin: float = 1.0, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """The hinge loss of two classes: max(0, margin - t * x), for scores x and targets t of -1 and 1.

    Shapes: as `mse`.
    Raises: as `mse` does, and ParameterError for other targets; in a compiled program BoundsError.
    Source: Cortes and Vapnik, "Support-vector networks", 1995.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hinge(np.array([2.0, 0.5, 1.0]), np.array([1, 1, -1]), reduction="none").tolist()
    [0.0, 0.5, 2.0]
    """
    x, t = paired_signs("hinge", scores, targets)
    return reduce_losses("hinge", scores, wnp.maximum(margin - t * x, 0), reduction, weights)


def multiclass_hinge(
    scores: Any,
    labels: Any,
    *,
    axis: int = -1,
    margin: float = 1.0,
    power: int = 1,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The hinge loss of several classes: the mean of max(0, margin - x[label] + x[j])**power over all classes.

    The class of the label itself adds nothing to the sum and counts in the mean, as in PyTorch's multi_margin_loss.
    `weights` and `reduction` are those of `mse`.

    Shapes: scores floats, labels integers of their shape without `axis`; a scalar, or that shape with
    `reduction="none"`.
    Raises: BoundsError for a label outside the classes, ParameterError for a power other than 1 and 2; ShapeError,
    DtypeError and AxisError for operands that do not fit.
    Source: Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines", 2001.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.multiclass_hinge(np.array([[0.5, 0.0, 1.0]]), np.array([0])))
    0.6666666666666666
    """
    x = real_floating("multiclass_hinge", scores, "scores")
    if power not in (1, 2):
        raise ParameterError(f"multiclass_hinge: power is {power!r}; it is 1 or 2")
    check_axis("multiclass_hinge", x, axis)
    at = wnp.expand_dims(labels_of("multiclass_hinge", labels, x, axis), axis)
    with index_called("multiclass_hinge: label"):
        own = wnp.take_along_axis(x, at, axis=axis)
    gaps = wnp.maximum(margin - own + x, 0)
    classes = x.shape[axis]
    others = wnp.arange(classes).reshape(without(axis, x.ndim, classes)) != at
    losses = wnp.sum(wnp.where(others, gaps if power == 1 else gaps * gaps, 0), axis=axis) / classes
    return reduce_losses("multiclass_hinge", scores, losses, reduction, weights)


def cosine_similarity(x: Any, y: Any, *, axis: int = -1, eps: float = 1e-8) -> NDArray:
    """The cosine of the angle between vectors along `axis`, lengths below `eps` counting as `eps`.

    A vector of length 0 has the cosine 0 with every other.

    Shapes: x and y floats of shapes that broadcast; the result has their shape without the axis.
    Raises: AxisError for an axis that is not there, DtypeError for operands other than real floats, ValueError where
    shapes do not broadcast.
    Source: Salton, Wong and Yang, "A vector space model for automatic indexing", 1975.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.cosine_similarity(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([1.0, 0.0])).round(6).tolist()
    [0.707107, 0.0]
    """
    name = "cosine_similarity"
    a, b = wnp.broadcast_arrays(real_floating(name, x, "vectors"), real_floating(name, y, "vectors"))
    check_axis(name, a, axis)
    lengths = [wnp.maximum(wnp.linalg.norm(v, axis=axis), eps) for v in (a, b)]
    cosines = wnp.sum(a * b, axis=axis) / (lengths[0] * lengths[1])
    return cosines.astype(narrow(x, cosines), copy=False)


def cosine_loss(
    x: Any,
    y: Any,
    targets: Any = None,
    *,
    axis: int = -1,
    margin: float = 0.0,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """1 - cosine for vectors along `axis` that belong together, max(0, cosine - margin) for those that do not.

    Targets are 1 for together and -1 for apart; without targets all belong together. `weights` and `reduction` are
    those of `mse`.

    Shapes: x and y as `cosine_similarity`, targets of their shape without the axis; a scalar, or that shape with
    `reduction="none"`.
    Raises: as `cosine_similarity` does, ShapeError for other targets, ParameterError for another reduction.
    Source: PyTorch's CosineEmbeddingLoss.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.cosine_loss(np.array([[3.0, 0.0]]), np.array([[0.0, 2.0]])))
    1.0
    """
    cosine = cosine_similarity(x, y, axis=axis)
    if targets is None:
        return reduce_losses("cosine_loss", x, 1 - cosine, reduction, weights)
    cosine, t = paired_operands("cosine_loss", cosine, targets)
    loss_setting("cosine_loss", "margin", margin, -1.0, 1.0)
    losses = wnp.where(t > 0, 1 - cosine, wnp.maximum(cosine - margin, 0))
    return reduce_losses("cosine_loss", x, losses, reduction, weights)


def triplet(
    anchors: Any,
    positives: Any,
    negatives: Any,
    *,
    axis: int = -1,
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    eps: float = 1e-6,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), where d(x, y) is the p-norm of x - y + eps.

    With `swap` the distance of the negative is the smaller of those to the anchor and to the positive. `weights` and
    `reduction` are those of `mse`.

    Shapes: anchors, positives and negatives floats of one shape, with the vectors along `axis`; a scalar, or that shape
    without it with `reduction="none"`.
    Raises: as `mse` does, and AxisError for an axis that is not there.
    Source: Balntas et al., "Learning local feature descriptors with triplets and shallow convolutional neural
    networks", 2016.

    >>> import numpy as np, wholestep as ws
    >>> a, near, far = np.zeros((1, 2)), np.array([[1.0, 0.0]]), np.array([[1.5, 0.0]])
    >>> float(ws.nn.triplet(a, near, far).round(6))
    0.5
    """
    a, b = paired_operands("triplet", anchors, positives, "positives")
    _, c = paired_operands("triplet", anchors, negatives, "negatives")
    check_axis("triplet", a, axis)

    def distance(x: Any, y: Any) -> Any:
        return wnp.linalg.norm(x - y + eps, ord=p, axis=axis)

    apart = distance(a, c)
    if swap:
        apart = wnp.minimum(apart, distance(b, c))
    return reduce_losses("triplet", anchors, wnp.maximum(distance(a, b) - apart + margin, 0), reduction, weights)
