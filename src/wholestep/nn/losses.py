"""Losses of numbers against target numbers."""

from __future__ import annotations

import math
from typing import Any

from wholestep import numpy as wnp, scipy
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn.reduction import Reduction, loss_setting, paired_operands, real_floating, reduce_losses
from wholestep.numpy.conditions import where_holds


def mse(predictions: Any, targets: Any, *, weights: Any = None, reduction: Reduction = "mean") -> NDArray:
    """The mean squared error, (x - t)**2.

    As in every loss here, `reduction` is "mean", "sum" or "none"; `weights` say how much each sample counts, and the
    mean divides by their total; integer and boolean targets are taken in the predictions' dtype.

    Shapes: predictions floats and targets of one shape, weights of that or of its first axes; a scalar, or that shape
    with `reduction="none"`.
    Raises: ShapeError where shapes differ, DtypeError for predictions that are not real floats, ParameterError for
    another reduction.
    Source: Legendre, "Nouvelles méthodes pour la détermination des orbites des comètes", 1805.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.mse(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
    2.0
    >>> float(ws.nn.mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]), weights=np.array([3.0, 1.0])))
    1.0
    """
    x, t = paired_operands("mse", predictions, targets)
    return reduce_losses("mse", predictions, (x - t) * (x - t), reduction, weights)


def mae(predictions: Any, targets: Any, *, weights: Any = None, reduction: Reduction = "mean") -> NDArray:
    """The mean absolute error, |x - t|, with a derivative of 0 where they are equal.

    Shapes: as `mse`.
    Raises: as `mse` does.
    Source: Koenker and Bassett, "Regression quantiles", 1978.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.mae(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
    1.0
    """
    x, t = paired_operands("mae", predictions, targets)
    return reduce_losses("mae", predictions, wnp.abs(x - t), reduction, weights)


def huber(
    predictions: Any, targets: Any, *, delta: float = 1.0, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """Huber's loss: (x - t)**2 / 2 up to a distance of `delta`, then delta * (|x - t| - delta / 2).

    Shapes: as `mse`.
    Raises: as `mse` does, and ParameterError for a delta that is not positive.
    Source: Huber, "Robust estimation of a location parameter", 1964.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.huber(np.array([0.5, 3.0]), np.zeros(2), reduction="none").tolist()
    [0.125, 2.5]
    """
    x, t = paired_operands("huber", predictions, targets)
    threshold = loss_setting("huber", "delta", delta, positive=True)
    return reduce_losses("huber", predictions, scipy.special.huber(threshold, x - t), reduction, weights)


def smooth_l1(
    predictions: Any, targets: Any, *, beta: float = 1.0, weights: Any = None, reduction: Reduction = "mean"
) -> NDArray:
    """Huber's loss divided by its threshold `beta`, so that its slope far away is 1; `mae` where beta is 0.

    Shapes: as `mse`.
    Raises: as `mse` does, and ParameterError for a negative beta.
    Source: Girshick, "Fast R-CNN", 2015.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.smooth_l1(np.array([1.0, 4.0]), np.zeros(2), beta=2.0, reduction="none").tolist()
    [0.25, 3.0]
    """
    x, t = paired_operands("smooth_l1", predictions, targets)
    if loss_setting("smooth_l1", "beta", beta) == 0:
        return reduce_losses("smooth_l1", predictions, wnp.abs(x - t), reduction, weights)
    return reduce_losses("smooth_l1", predictions, scipy.special.huber(beta, x - t) / beta, reduction, weights)


def log_cosh(predictions: Any, targets: Any, *, weights: Any = None, reduction: Reduction = "mean") -> NDArray:
    """log(cosh(x - t)): half the squared error near by, |x - t| - log(2) far away, exact to rounding everywhere.

    Shapes: as `mse`.
    Raises: as `mse` does.
    Source: Saleh and Saleh, "Statistical properties of the log-cosh loss function used in machine learning", 2022.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.log_cosh(np.array([1e-4, 1e4]), np.zeros(2), reduction="none").round(9).tolist()
    [5e-09, 9999.306852819]
    """
    x, t = paired_operands("log_cosh", predictions, targets)
    gap = x - t
    size = wnp.abs(gap)
    near = size < 1
    half = wnp.sinh(wnp.where(near, gap, 0) / 2)
    far = size + wnp.log1p(wnp.exp(-2 * size)) - math.log(2)
    return reduce_losses("log_cosh", predictions, wnp.where(near, wnp.log1p(2 * half * half), far), reduction, weights)


def poisson_nll(
    predictions: Any,
    targets: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The negative log-likelihood of counts under Poisson distributions: exp(x) - t * x, with x the log of a mean.

    With `log_input=False` x is the mean itself, `x - t * log(x + eps)`. `full` adds Stirling's approximation of log(t!)
    for counts above 1, which no gradient sees.

    Shapes: as `mse`.
    Raises: as `mse` does, and ParameterError for negative counts; in a compiled program BoundsError.
    Source: McCullagh and Nelder, "Generalized linear models", 1989, chapter 6.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.poisson_nll(np.zeros(2), np.array([0, 3])))
    1.0
    """
    x, t = paired_operands("poisson_nll", predictions, targets)
    t = where_holds(t, ~(t < 0), "poisson_nll: there are counts below 0")
    losses = wnp.exp(x) - t * x if log_input else x - t * wnp.log(x + eps)
    if full:
        many = t > 1
        n = wnp.where(many, t, 1)
        losses = losses + wnp.where(many, n * wnp.log(n) - n + 0.5 * wnp.log(2 * math.pi * n), 0)
    return reduce_losses("poisson_nll", predictions, losses, reduction, weights)


def gaussian_nll(
    means: Any,
    targets: Any,
    variances: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    weights: Any = None,
    reduction: Reduction = "mean",
) -> NDArray:
    """The negative log-likelihood of targets under normal distributions: (log(v) + (x - t)**2 / v) / 2.

    A variance below `eps` counts as `eps`, and still has the derivative it would have there, so that it can grow again.
    `full` adds log(2 pi) / 2.

    Shapes: means and targets as `mse`; variances of their shape, or one that broadcasts to it.
    Raises: as `mse` does, and ValueError for variances that do not broadcast.
    Source: Nix and Weigend, "Estimating the mean and variance of the target probability distribution", 1994.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.gaussian_nll(np.array([1.0]), np.array([3.0]), np.array([1.0])))
    2.0
    """
    x, t = paired_operands("gaussian_nll", means, targets)
    v = real_floating("gaussian_nll", variances, "variances")
    v = v + stop_gradient(wnp.maximum(v, eps) - v)
    losses = 0.5 * (wnp.log(v) + (x - t) * (x - t) / v)
    return reduce_losses(
        "gaussian_nll", means, losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction, weights
    )
