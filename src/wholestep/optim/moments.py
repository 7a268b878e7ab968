"""Adam and AdamW: a step of about the learning rate for each parameter, independent of the size of its gradient."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import (
    real_zeros,
    root_of_squares,
    running_mean,
    scalar_like,
    squared_magnitude,
    working_zeros,
)


class WithMoments(Leafwise):
    """The base of Adam and its relatives: running means m of the gradient and v of its square, with decays b1, b2."""

    b1: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.999, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in())

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the rate over the correction of m, one over the root of the correction of v)."""
        # The corrections are scalars, computed once a step, so that the update is one pass over p, g, m and v.
        new = increment_count(common)
        rate = rate_at(self.lr, common["count"])
        return (rate, rate / (1 - self.b1 ** new["count"]), 1 / wnp.sqrt(1 - self.b2 ** new["count"])), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments."""
        return {"m": working_zeros(p), "v": real_zeros(p)}

    def moments(self, kept: dict[str, Any], g: Any) -> tuple[Any, Any]:
        """Both moments after one more gradient."""
        return running_mean(kept["m"], g, self.b1), running_mean(kept["v"], squared_magnitude(g), self.b2)


class Adam(WithMoments):
    """Adam: p -= lr * m' / (sqrt(v') + eps), with bias-corrected means m' of the gradient and v' of its square.

    `lr` is a number, or a function of the number of updates made so far, 0 for the first. `b1` and `b2` are the decay
    rates of the means of the gradient and of its square; `eps` is added to the denominator. With `amsgrad` the largest
    v so far takes the place of v. Moments have the dtype of their parameter, float32 for half precisions; for a complex
    parameter the second moment is that of the absolute value.

    `lazy` selects the parameters that are tables of which a step reads a few rows: True for all, or a function of the
    path, a table of paths, a pattern or several. A row (an index of the first axis) whose gradient is zero is then
    unchanged: neither it nor its moments move or decay, and no weight decay applies. Only the count of updates, which
    the corrections of all moments use, is that of all rows. A compiled step reads and writes only the rows that were
    gathered.

    Shapes: trees of floating or complex arrays; the state has two arrays like each, with `amsgrad` three.
    Raises: ParameterError for a negative rate or eps, or decay rates outside [0, 1), DtypeError for a value that is no
    number.
    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; Reddi, Kale and Kumar, "On the
    convergence of Adam and beyond", 2018.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, params = ws.optim.adam(0.1), np.array([1.0, -1.0])
    >>> params, state = optimizer.update(np.array([1e-3, -1e3]), optimizer.init(params), params)
    >>> params.round(5).tolist()
    [0.9, -0.9]
    """

    _: KW_ONLY
    amsgrad: bool = False
    lazy: bool | Choice = False

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments, and with `amsgrad` the largest second one so far."""
        kept = super().kept(p)
        return {**kept, "largest": real_zeros(p)} if self.amsgrad else kept

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, size, shrink = numbers
        m, v = self.moments(kept, g)
        new = {"m": m, "v": v}
        if self.amsgrad:
            v = new["largest"] = wnp.maximum(kept["largest"], v)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        return decay_parameter(p, rate, decay) - scalar_like(size, v) * m / root, new


class Adamw(Adam):
    """AdamW: Adam with decoupled weight decay, p -= lr * weight_decay * p, which does not pass through the moments.

    `decay` selects the parameters that decay: a function of the path, a table of paths, a pattern or several (`*`
    matches any characters), or None for all. Other options are those of `adam`.

    Shapes: as `adam`.
    Raises: as `adam` does, and ParameterError for a pattern that matches nothing.
    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.adamw(0.1, weight_decay=0.5, decay="w")
    >>> params = {"b": np.array(1.0), "w": np.array(1.0)}
    >>> params, _ = optimizer.update({"b": np.array(0.0), "w": np.array(0.0)}, optimizer.init(params), params)
    >>> float(params["b"]), float(params["w"])
    (1.0, 0.95)
    """

    weight_decay: float = field(default=0.01, metadata=number_in())
    _: KW_ONLY
    decay: Choice = None
