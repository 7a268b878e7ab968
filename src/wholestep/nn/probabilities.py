"""Losses of probabilities against outcomes, or against other probabilities."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp, scipy
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import faded
from wholestep.nn.reduction import (
    Reduction,
    check_axis,
    check_chances,
    loss_setting,
    paired_chances,
    paired_operands,
    reduce_losses,
)


def bce(probabilities: Any, targets: Any, *, weights: Any = None, reduction: Reduction = "mean") -> NDArray:
    """Binary cross-entropy of probabilities: -t * log(p) - (1 - t) * log(1 - p).

    An event of probability 0 that occurs has infinite loss; `bce_with_logits` has no such singularity.

    Shapes: as `mse`; targets lie between 0 and 1.
    Raises: as `mse` does, and ParameterError for probabilities and targets outside [0, 1]; in a compiled program
    BoundsError.
    Source: Good, "Rational decisions", 1952.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.bce(np.array([0.5, 1.0]), np.array([0, 1]), reduction="sum").round(6))
    0.693147
    """
    p, t = paired_chances("bce", probabilities, targets)
    p = check_chances("bce", "probabilities", p, "bce_with_logits takes scores of any size")
    return reduce_losses(
        "bce", probabilities, -scipy.special.xlogy(t, p) - scipy.special.xlog1py(1 - t, -p), reduction, weights
    )


def bce_with_logits(
    logits: Any, targets: Any, *, pos_weight: Any = None, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """Binary cross-entropy of sigmoid(logits), without overflow: t * softplus(-x) + (1 - t) * softplus(x).

    `pos_weight`, a number or an array that broadcasts to the logits, multiplies the first term; the mean does not
    divide by it.

    Shapes: as `mse`; targets lie between 0 and 1.
    Raises: as `bce` does, and ValueError for a `pos_weight` that does not broadcast.
    Source: as `bce`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.bce_with_logits(np.array([0.0, 1000.0]), np.array([1, 0]), reduction="none").round(6).tolist()
    [0.693147, 1000.0]
    """
    x, t = paired_chances("bce_with_logits", logits, targets)
    surprise = wnp.logaddexp(wnp.zeros_like(x), -x)
    factor: Any = 1
    if pos_weight is not None:
        factor = 1 + (wnp.broadcast_to(wnp.asarray(pos_weight).astype(x.dtype, copy=False), x.shape) - 1) * t
    return reduce_losses("bce_with_logits", logits, (1 - t) * x + factor * surprise, reduction, weights)


def kl_div(
    log_probs: Any,
    targets: Any,
    *,
    axis: int = -1,
    log_targets: bool = False,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The Kullback-Leibler divergence of predicted from target distributions: the sum of t * (log(t) - x) along `axis`.

    `log_probs` are logarithms of probabilities; targets are probabilities, or with `log_targets` logarithms too. The
    mean is over distributions, as a divergence asks for (PyTorch's "batchmean"). A target of 0 costs nothing. `weights`
    and `reduction` are those of `mse`.

    Shapes: `log_probs` floats and targets of one shape; a scalar, or that shape without `axis` with `reduction="none"`.
    Raises: as `mse` does, and AxisError for an axis that is not there.
    Source: Kullback and Leibler, "On information and sufficiency", 1951.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.kl_div(np.log([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(6))
    0.693147
    """
    x, t = paired_operands("kl_div", log_probs, targets)
    check_axis("kl_div", x, axis)
    if log_targets:
        terms = wnp.exp(t) * (t - x)
    else:
        terms = scipy.special.xlogy(t, t) - t * wnp.where(t == 0, 0, x)
    return reduce_losses("kl_div", log_probs, wnp.sum(terms, axis=axis), reduction, weights)


def binary_focal(
    logits: Any,
    targets: Any,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The focal loss of sigmoid(logits): binary cross-entropy times (1 - p)**gamma, p being the chance of the target.

    `alpha` is the weight of positive targets and 1 - alpha that of negative ones; None weighs none.

    Shapes: as `mse`; targets lie between 0 and 1.
    Raises: as `bce` does, and ParameterError for a negative gamma or an alpha outside [0, 1].
    Source: as `focal`.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.binary_focal(np.zeros(1), np.ones(1), alpha=None).round(6))
    0.173287
    """
    x, t = paired_chances("binary_focal", logits, targets)
    missed = t * scipy.special.expit(-x) + (1 - t) * scipy.special.expit(x)
    surprise = (1 - t) * x + wnp.logaddexp(wnp.zeros_like(x), -x)
    losses = faded(missed, loss_setting("binary_focal", "gamma", gamma)) * surprise
    if alpha is not None:
        loss_setting("binary_focal", "alpha", alpha, 0.0, 1.0)
        losses = losses * (alpha * t + (1 - alpha) * (1 - t))
    return reduce_losses("binary_focal", logits, losses, reduction, weights)
