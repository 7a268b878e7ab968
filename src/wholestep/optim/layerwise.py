"""LARS and NovoGrad: step lengths computed for each parameter as a whole."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import root_of_squares, running_mean, scalar_like, squared_magnitude, working_zeros


def vector_length(x: Any) -> Any:
    """The Euclidean norm of one parameter."""
    return root_of_squares(wnp.sum(squared_magnitude(x)))


class Lars(Leafwise):
    """LARS: momentum, with the gradient of each parameter p scaled by trust * |p| / (|g| + weight_decay * |p|).

    `lr` is as in `adam`; the velocity is multiplied by `momentum` in each update. Where p or its gradient is 0 the
    scale is 1. `decay` selects the parameters that decay and are scaled.

    Shapes: trees of floating or complex arrays; the state has an array like each.
    Raises: as `sgd` does.
    Source: You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017, algorithm 1.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lars(1.0, trust=0.5), np.array([3.0, 4.0])
    >>> optimizer.update(np.array([0.0, 10.0]), optimizer.init(p), p)[0].round(6).tolist()
    [3.0, 1.5]
    """

    momentum: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    _: KW_ONLY
    trust: float = field(default=1e-3, metadata=number_in(strictly=True))
    weight_decay: float = field(default=0.0, metadata=number_in())
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        """A velocity."""
        return {"velocity": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        if decay is not None:
            size, slope = vector_length(p), vector_length(g)
            usable = (size > 0) & (slope > 0)
            divisor = wnp.where(usable, slope + scalar_like(decay, p) * size, 1)
            scale = wnp.where(usable, scalar_like(self.trust, p) * size / divisor, 1)
            g = add_weight_decay(p, g, decay) * scale
        v = scalar_like(self.momentum, p) * kept["velocity"] + scalar_like(numbers, p) * g
        return p - v, {"velocity": v}


class Novograd(Leafwise):
    """NovoGrad: momentum of gradients, each divided by a running norm of the gradient of its parameter.

    `lr` is as in `adam`. The momentum is `b1 * m` plus the divided gradient; the norm, a scalar, is the root of a
    running mean of the squared norm with decay `b2`, and `eps` is added to it. After the division `weight_decay * p` is
    added for the parameters p that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has an array and a number for each.
    Raises: as `adamw` does.
    Source: Ginsburg et al., "Stochastic gradient methods with layer-wise adaptive moments for training of deep
    networks", 2019, algorithm 1.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.novograd(0.1), np.array([1.0, 1.0])
    >>> optimizer.update(np.array([3.0, 4.0]), optimizer.init(p), p)[0].round(6).tolist()
    [0.94, 0.92]
    """

    b1: float = field(default=0.95, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.98, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, True in the first step)."""
        return (rate_at(self.lr, common["count"]), common["count"] == 0), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The first moment, and the mean of the squared norm."""
        zeros = working_zeros(p)
        return {"m": zeros, "v": np.zeros((), dtypes.real_of(zeros.dtype))}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, first = numbers
        square = wnp.sum(squared_magnitude(g))
        v = wnp.where(first, square, running_mean(kept["v"], square, self.b2))
        scaled = add_weight_decay(p, g / (root_of_squares(v) + scalar_like(self.eps, v)), decay)
        m = wnp.where(first, scaled, scalar_like(self.b1, p) * kept["m"] + scaled)
        return p - scalar_like(rate, p) * m, {"m": m, "v": v}
