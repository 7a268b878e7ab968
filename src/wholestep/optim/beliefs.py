"""AdaBelief, Yogi, Adan, AdEMAMix and ADOPT: relatives of Adam with other moments."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
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


class Adabelief(WithMoments):
    """AdaBelief: Adam with the mean square of the gradient's deviation from its running mean, plus eps each step.

    `lr`, `b1` and `b2` are those of `adam`, and `eps` is added to the root too. `weight_decay` is decoupled, as in
    `adamw`, for the parameters that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: Zhuang et al., "AdaBelief optimizer: adapting stepsizes by the belief in observed gradients", 2020,
    algorithm 2.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adabelief(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.8889]
    """

    eps: float = field(default=1e-16, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, size, shrink = numbers
        m = running_mean(kept["m"], g, self.b1)
        surprise = squared_magnitude(g - m)
        v = running_mean(kept["v"], surprise, self.b2) + scalar_like(self.eps, surprise)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        return decay_parameter(p, rate, decay) - scalar_like(size, v) * m / root, {"m": m, "v": v}


class Yogi(WithMoments):
    """Yogi: Adam whose second moment moves by (1 - b2) * g**2 towards g**2, independent of their distance.

    `lr` and `b1` are those of `adam`; both moments begin at `start`, and `eps` is added to the root of the second.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adam` does.
    Source: Zaheer et al., "Adaptive methods for nonconvex optimization", 2018, algorithm 2, with corrected moments as
    in Adam.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.yogi(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.9001]
    """

    eps: float = field(default=1e-3, metadata=number_in())
    _: KW_ONLY
    start: float = field(default=1e-6, metadata=number_in())

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate over the correction of m, one over the root of the correction of v)."""
        new = increment_count(common)
        count = new["count"]
        return (rate_at(self.lr, common["count"]) / (1 - self.b1**count), 1 / wnp.sqrt(1 - self.b2**count)), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments, which begin at `start`."""
        return {name: x + scalar_like(self.start, x) for name, x in super().kept(p).items()}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        size, shrink = numbers
        m, v, square = running_mean(kept["m"], g, self.b1), kept["v"], squared_magnitude(g)
        v = v - scalar_like(1 - self.b2, v) * wnp.sign(v - square) * square
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        return p - scalar_like(size, v) * m / root, {"m": m, "v": v}


class Adan(Leafwise):
    """Adan: Nesterov's momentum from means of the gradient and of its change, over the root of a mean of their square.

    `lr` is as in `adam`; `b1`, `b2` and `b3` are the decay rates of the means of the gradient, of its change and of the
    square; `eps` is added to the root. Parameters that `decay` selects are then divided by `1 + lr * weight_decay`.

    Shapes: trees of floating or complex arrays; the state has four arrays like each.
    Raises: as `adamw` does.
    Source: Xie et al., "Adan: adaptive Nesterov momentum algorithm for faster optimizing deep models", 2022,
    algorithm 1, with corrected moments as in the authors' code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adan(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.9]
    """

    b1: float = field(default=0.98, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.92, metadata=number_in(0.0, 1.0))
    b3: float = field(default=0.99, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(rate, rate over the correction of each mean, one over the root of the square's correction, first step)."""
        new = increment_count(common)
        rate, count = rate_at(self.lr, common["count"]), new["count"]
        sizes = rate / (1 - self.b1**count), rate * self.b2 / (1 - self.b2**count)
        return (rate, *sizes, 1 / wnp.sqrt(1 - self.b3**count), common["count"] == 0), new

    def kept(self, p: Any) -> dict[str, Any]:
        """The means of gradient, change and square, and the previous gradient."""
        zeros = {name: working_zeros(p) for name in ("m", "change", "before")}
        return {**zeros, "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, of_m, of_change, shrink, first = numbers
        change = wnp.where(first, 0, g - kept["before"])
        m, moving = running_mean(kept["m"], g, self.b1), running_mean(kept["change"], change, self.b2)
        v = running_mean(kept["v"], squared_magnitude(g + scalar_like(self.b2, p) * change), self.b3)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        p = p - (scalar_like(of_m, v) * m + scalar_like(of_change, v) * moving) / root
        p = p if decay is None else p / scalar_like(1 + rate * decay, v)
        return p, {"m": m, "change": moving, "before": g, "v": v}


class Ademamix(WithMoments):
    """AdEMAMix: AdamW along m' + alpha * slow, where `slow` is a running mean of gradients with decay b3.

    The slow mean, over thousands of gradients, begins at 0 and is not bias-corrected. `alpha` and `b3` are numbers, or
    schedules that raise them: `linear(0.0, 5.0, steps)`. `lr`, `b1`, `b2` and `eps` are those of `adam`. `weight_decay`
    is decoupled, as in `adamw`, for the parameters that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has three arrays like each.
    Raises: as `adamw` does.
    Source: Pagliardini, Ablin and Grangier, "The AdEMAMix optimizer: better, faster, older", 2024.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.ademamix(0.1, b3=0.9), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.85]
    """

    _: KW_ONLY
    b3: Rate = field(default=0.9999, metadata=number_in(0.0, 1.0) | {"scheduled": True})
    alpha: Rate = field(default=5.0, metadata=number_or_schedule())
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the numbers of Adam, b3, alpha times the rate)."""
        count = common["count"]
        numbers, new = super().numbers(common)
        return (*numbers, rate_at(self.b3, count), rate_at(self.alpha, count) * numbers[0]), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments and the slow mean."""
        return {**super().kept(p), "slow": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, size, shrink, keep, share = numbers
        m, v = self.moments(kept, g)
        slow = running_mean(kept["slow"], g, keep)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        step = (scalar_like(size, v) * m + scalar_like(share, v) * slow) / root
        return decay_parameter(p, rate, decay) - step, {"m": m, "v": v, "slow": slow}


class Adopt(WithMoments):
    """ADOPT: momentum of gradients over the root of the second moment before them, which lets any b2 converge.

    `lr` is as in `adam`; `b1` and `b2` are the decay rates of the momentum and of the second moment, and the root is
    `eps` or more. The first gradient only initializes the second moment. The normalized gradient is clipped to
    count**0.25 in size, which grows with the number of updates, unless `clip` is False. `weight_decay` is decoupled, as
    in `adamw`, for the parameters that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `adamw` does.
    Source: Taniguchi et al., "ADOPT: modified Adam can converge with any b2 with the optimal rate", 2024, algorithm 2,
    with the clipping of the authors' code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adopt(0.1, 0.0), np.ones(1)
    >>> p, state = optimizer.update(np.full(1, 2.0), optimizer.init(p), p)
    >>> optimizer.update(np.full(1, 1.0), state, p)[0].round(4).tolist()
    [0.95]
    """

    b2: float = field(default=0.9999, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-6, metadata=number_in())
    _: KW_ONLY
    clip: bool = True
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, b1, b2, the largest size); in the first update rate, b1 and b2 are 0, 1 and 0."""
        count, later = common["count"], common["count"] > 0
        b1, b2 = wnp.where(later, self.b1, 1.0), wnp.where(later, self.b2, 0.0)
        rate = wnp.where(later, rate_at(self.lr, count), 0.0)
        return (rate, b1, b2, wnp.maximum(count, 1) ** 0.25), increment_count(common)

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, b1, b2, most = numbers
        root = wnp.maximum(root_of_squares(kept["v"]), scalar_like(self.eps, kept["v"]))
        ratio = g / root
        if self.clip:
            ratio = cut_to(ratio, scalar_like(most, root))
        m = running_mean(kept["m"], ratio, b1)
        v = running_mean(kept["v"], squared_magnitude(g), b2)
        return decay_parameter(p, rate, decay) - scalar_like(rate, p) * m, {"m": m, "v": v}


def cut_to(x: Any, most: Any) -> Any:
    """Numbers clipped to an absolute value."""
    if not dtypes.is_complex(x.dtype):
        return wnp.clip(x, -most, most)
    size = abs(x)
    return x * (most / wnp.maximum(size, most))
