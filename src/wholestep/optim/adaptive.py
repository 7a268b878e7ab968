"""RMSProp, AdaGrad, Adadelta and MADGRAD: gradients divided by the size of the earlier gradients of their parameter."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.optim.averaging import working_copy
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import (
    real_zeros,
    root_of_squares,
    running_mean,
    scalar_like,
    squared_magnitude,
    working_zeros,
)


class Rmsprop(Leafwise):
    """RMSProp: the gradient over the root of the running mean of its square, an exponential mean with decay `keep`.

    `lr` is as in `adam`, and `eps` is added to the root. `centered` subtracts the square of the mean gradient from that
    mean; `momentum` accumulates the steps in a velocity; `weight_decay` is added to the gradients of the parameters
    that `decay` selects. Formulas are those of torch.optim.RMSprop.

    Shapes: trees of floating or complex arrays; the state has one to three arrays like each.
    Raises: as `sgd` does.
    Source: Tieleman and Hinton, "Lecture 6.5: rmsprop", Coursera, 2012.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.rmsprop(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.0]
    """

    keep: float = field(default=0.99, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in())
    _: KW_ONLY
    momentum: float | None = field(default=0.0, metadata=number_in(0.0, 1.0, off=0.0))
    centered: bool = False
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        """The second moment, the first moment with `centered`, and a velocity with momentum."""
        kept = {"v": real_zeros(p)}
        if self.centered:
            kept["m"] = working_zeros(p)
        return kept if self.momentum is None else {**kept, "velocity": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        g = add_weight_decay(p, g, decay)
        new = {"v": running_mean(kept["v"], squared_magnitude(g), self.keep)}
        spread = new["v"]
        if self.centered:
            new["m"] = running_mean(kept["m"], g, self.keep)
            spread = wnp.maximum(spread - squared_magnitude(new["m"]), scalar_like(0.0, spread))
        step = g / (root_of_squares(spread) + scalar_like(self.eps, spread))
        if self.momentum is not None:
            step = new["velocity"] = scalar_like(self.momentum, p) * kept["velocity"] + step
        return p - scalar_like(numbers, p) * step, new


class Adagrad(Leafwise):
    """AdaGrad: the gradient over the root of the sum of all its squares, which begins at `start`.

    `lr` is as in `adam`, and `eps` is added to the root. `weight_decay` is added to the gradients of the parameters
    that `decay` selects. Formulas are those of torch.optim.Adagrad.

    Shapes: trees of floating or complex arrays; the state has one real array like each.
    Raises: as `sgd` does.
    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
    2011.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adagrad(0.5), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.5]
    """

    eps: float = field(default=1e-10, metadata=number_in())
    _: KW_ONLY
    start: float = field(default=0.0, metadata=number_in())
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        v = real_zeros(p)
        return {"v": v + scalar_like(self.start, v)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        g = add_weight_decay(p, g, decay)
        v = kept["v"] + squared_magnitude(g)
        return p - scalar_like(numbers, p) * g / (root_of_squares(v) + scalar_like(self.eps, v)), {"v": v}


class Adadelta(Leafwise):
    """Adadelta: steps whose size is that of earlier steps, so that they have the unit of the parameter.

    `p -= lr * s` with `s = sqrt(d + eps) / sqrt(v + eps) * g`, where d and v are running means of the squares of s and
    g with decay `keep`. `weight_decay` is added to the gradients of the parameters that `decay` selects. Formulas are
    those of torch.optim.Adadelta.

    Shapes: trees of floating or complex arrays; the state has two real arrays like each.
    Raises: as `sgd` does.
    Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adadelta(), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.996838]
    """

    lr: Rate = field(default=1.0, metadata=number_or_schedule())
    keep: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-6, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        """The mean squares of gradients and of steps."""
        return {"v": real_zeros(p), "d": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        g = add_weight_decay(p, g, decay)
        v, d = running_mean(kept["v"], squared_magnitude(g), self.keep), kept["d"]
        step = wnp.sqrt(d + scalar_like(self.eps, d)) / wnp.sqrt(v + scalar_like(self.eps, v)) * g
        return p - scalar_like(numbers, p) * step, {"v": v, "d": running_mean(d, squared_magnitude(step), self.keep)}


class Madgrad(Leafwise):
    """MADGRAD: dual averaging, the sum of all gradients over the cube root of the sum of their squares, with momentum.

    Gradient number k has the weight `lr * sqrt(k)` in both sums. A parameter moves by (1 - momentum) of the distance to
    its initial value minus that quotient; `eps` is added to the cube root. `weight_decay` is added to the gradients of
    the parameters that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has three arrays like each.
    Raises: as `sgd` does.
    Source: Defazio and Jelassi, "Adaptivity without compromise: a momentumized, adaptive, dual averaged gradient method
    for stochastic optimization", 2021, algorithm 1.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.madgrad(1.0, 0.0, 0.0), np.ones(1)
    >>> optimizer.update(np.full(1, 8.0), optimizer.init(p), p)[0].round(6).tolist()
    [-1.0]
    """

    lr: Rate = field(default=0.01, metadata=number_or_schedule())
    momentum: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-6, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The weight of the gradient."""
        new = increment_count(common)
        return rate_at(self.lr, common["count"]) * wnp.sqrt(new["count"]), new

    def kept(self, p: Any) -> dict[str, Any]:
        """The initial parameter, and the sums of gradients and of their squares."""
        return {"start": working_copy(p), "sum": working_zeros(p), "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        g = add_weight_decay(p, g, decay)
        total = kept["sum"] + scalar_like(numbers, p) * g
        v = kept["v"] + scalar_like(numbers, kept["v"]) * squared_magnitude(g)
        # The sum of gradients is 0 wherever v is 0; the root has an infinite slope there.
        root = wnp.cbrt(wnp.where(v > 0, v, 1))
        aim = kept["start"] - total / wnp.where(v > 0, root + scalar_like(self.eps, v), scalar_like(1.0, v))
        return running_mean(p, aim, self.momentum), {"start": kept["start"], "sum": total, "v": v}
