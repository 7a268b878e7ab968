"""Relatives of Adam: Nesterov's momentum, a rectified variance, the largest gradient, steps by norm, signs."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, decay_parameter, increment_count
from wholestep.optim.moments import WithMoments
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import (
    real_zeros,
    root_of_squares,
    running_mean,
    scalar_like,
    squared_magnitude,
    working_zeros,
)


class Nadam(WithMoments):
    """NAdam: Adam whose first moment looks one update ahead, with a momentum that grows towards b1.

    In update t the momentum is `b1 * (1 - 0.96**(t * momentum_decay) / 2)`; `lr`, `b2` and `eps` are those of `adam`.
    `weight_decay` is added to the gradients of the parameters that `decay` selects. Formulas and defaults are those of
    torch.optim.NAdam.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.nadam(0.1), np.ones(1)
    >>> optimizer.update(np.ones(1), optimizer.init(p), p)[0].round(4).tolist()
    [0.8944]
    """

    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    momentum_decay: float = field(default=4e-3, metadata=number_in())
    decay: Choice = None

    def common(self) -> dict[str, Any]:
        """The number of updates and the product of their momenta."""
        return {**super().common(), "product": np.float64(1)}

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the factor of g, the factor of m, one over the root of the correction of v)."""
        count = common["count"] + 1
        now, then = [self.b1 * (1 - 0.5 * 0.96 ** (t * self.momentum_decay)) for t in (count, count + 1)]
        rate, product = rate_at(self.lr, common["count"]), common["product"] * now
        sizes = rate * (1 - now) / (1 - product), rate * then / (1 - product * then)
        return (*sizes, 1 / wnp.sqrt(1 - self.b2**count)), {"count": count, "product": product}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        of_g, of_m, shrink = numbers
        g = add_weight_decay(p, g, decay)
        m, v = self.moments(kept, g)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        return p - (scalar_like(of_g, v) * g + scalar_like(of_m, v) * m) / root, {"m": m, "v": v}


class Radam(WithMoments):
    """RAdam: momentum at first, then Adam with a rate that grows as the variance of its second moment falls.

    `lr`, `b1`, `b2` and `eps` are those of `adam`. `weight_decay` is added to the gradients of the parameters that
    `decay` selects. Formulas and defaults are those of torch.optim.RAdam.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: Liu et al., "On the variance of the adaptive learning rate and beyond", 2020.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.radam(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.8]
    """

    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the step size of plain momentum, that of the adaptive step)."""
        new = increment_count(common)
        count = new["count"]
        rate = rate_at(self.lr, common["count"]) / (1 - self.b1**count)
        left = 1 - self.b2**count
        most = 2 / (1 - self.b2) - 1
        length = most - 2 * count * (1 - left) / left
        enough = length > 5
        length = wnp.where(enough, length, 6.0)
        whole = wnp.where(enough, (most - 4) * (most - 2), 1.0)
        tractable = (length - 4) * (length - 2) * most / (whole * length)
        return (wnp.where(enough, 0.0, rate), wnp.where(enough, rate * wnp.sqrt(tractable * left), 0.0)), new

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        plain, adaptive = numbers
        g = add_weight_decay(p, g, decay)
        m, v = self.moments(kept, g)
        size = scalar_like(plain, v) + scalar_like(adaptive, v) / (root_of_squares(v) + scalar_like(self.eps, v))
        return p - size * m, {"m": m, "v": v}


class Adamax(WithMoments):
    """Adamax: Adam with the largest gradient so far, decaying by b2, in the place of the root of the second moment.

    `lr` and `b1` are those of `adam`; `eps` is added to the size of each gradient. `weight_decay` is added to the
    gradients of the parameters that `decay` selects. Formulas are those of torch.optim.Adamax.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015, section 7.1.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adamax(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.9]
    """

    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate over the correction of m."""
        new = increment_count(common)
        return rate_at(self.lr, common["count"]) / (1 - self.b1 ** new["count"]), new

    def kept(self, p: Any) -> dict[str, Any]:
        """The first moment and the largest gradient."""
        return {"m": working_zeros(p), "u": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        g = add_weight_decay(p, g, decay)
        m, u = running_mean(kept["m"], g, self.b1), kept["u"]
        u = wnp.maximum(scalar_like(self.b2, u) * u, abs(g) + scalar_like(self.eps, u))
        return p - scalar_like(numbers, u) * m / u, {"m": m, "u": u}


class Lamb(WithMoments):
    """LAMB: the direction of AdamW, as long as lr * |p| for each parameter p; plain lr where p or the step is 0.

    `b1`, `b2` and `eps` are those of `adam`. `weight_decay * p` is added to the direction of the parameters p that
    `decay` selects.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: You et al., "Large batch optimization for deep learning", 2020, algorithm 2, with the identity for phi.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lamb(0.1, weight_decay=0.0), np.array([3.0, 4.0])
    >>> moved, _ = optimizer.update(np.array([1.0, 1.0]), optimizer.init(p), p)
    >>> float(np.linalg.norm(moved - p).round(6))
    0.5
    """

    eps: float = field(default=1e-6, metadata=number_in())
    weight_decay: float = field(default=0.01, metadata=number_in())
    _: KW_ONLY
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, one over the correction of m, one over the root of the correction of v)."""
        new = increment_count(common)
        count = new["count"]
        return (rate_at(self.lr, common["count"]), 1 / (1 - self.b1**count), 1 / wnp.sqrt(1 - self.b2**count)), new

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, grow, shrink = numbers
        m, v = self.moments(kept, g)
        step = scalar_like(grow, v) * m / (root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v))
        step = add_weight_decay(p, step, decay)
        length, wanted = [root_of_squares(wnp.sum(squared_magnitude(x))) for x in (step, p)]
        usable = (length > 0) & (wanted > 0)
        trust = wnp.where(usable, wanted / wnp.where(usable, length, 1), 1)
        return p - scalar_like(rate * trust, v) * step, {"m": m, "v": v}


class Lion(Leafwise):
    """Lion: the sign of a mean of gradients, with decoupled weight decay; one moment is kept for each parameter.

    The sign is that of `b1 * m + (1 - b1) * g`; then `m = b2 * m + (1 - b2) * g`. `lr` is as in `adam`, and
    `lr * weight_decay * p` is subtracted from the parameters that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has an array like each.
    Raises: as `adamw` does.
    Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lion(0.1), np.ones(2)
    >>> optimizer.update(np.array([5.0, -0.1]), optimizer.init(p), p)[0].tolist()
    [0.9, 1.1]
    """

    b1: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.99, metadata=number_in(0.0, 1.0))
    weight_decay: float = field(default=0.0, metadata=number_in())
    _: KW_ONLY
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        return {"m": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        direction = wnp.sign(running_mean(kept["m"], g, self.b1))
        new = {"m": running_mean(kept["m"], g, self.b2)}
        return decay_parameter(p, numbers, decay) - scalar_like(numbers, p) * direction, new
