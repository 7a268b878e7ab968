"""Schedule-free optimizers: a mean of all iterates takes the place of a decaying rate."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.optim.averaging import working_copy
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import real_zeros, root_of_squares, running_mean, scalar_like, squared_magnitude


class ScheduleFree(Leafwise):
    """The base of schedule-free optimizers: a fast sequence that takes the steps, its mean, and parameters between."""

    def near(self) -> float:
        """The weight of the mean in the parameters."""
        raise NotImplementedError

    def common(self) -> dict[str, Any]:
        """The number of updates, the largest rate so far, and the sum of the weights of the mean."""
        return {**super().common(), "most": np.float64(0), "total": np.float64(0)}

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the weight of this step in the mean, the number of updates including this one)."""
        rate, count = rate_at(self.lr, common["count"]), common["count"] + 1
        most = wnp.maximum(common["most"], rate)
        total = common["total"] + most**2
        weight = wnp.where(total > 0, most**2 / wnp.where(total > 0, total, 1), 0.0)
        return (rate, weight, count), {"count": count, "most": most, "total": total}

    def kept(self, p: Any) -> dict[str, Any]:
        """Both sequences, whose initial value is the parameter."""
        return {"fast": working_copy(p), "average": working_copy(p)}

    def stepped(self, kept: dict[str, Any], step: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
        """The parameter and both sequences after a step of the fast one against a direction."""
        rate, weight, _ = numbers
        fast = kept["fast"] - scalar_like(rate, step) * step
        average = kept["average"] + scalar_like(weight, fast) * (fast - kept["average"])
        return running_mean(average, fast, self.near()), {"fast": fast, "average": average}


class ScheduleFreeSgd(ScheduleFree):
    """Schedule-free SGD: gradients at momentum * x + (1 - momentum) * z, where z takes the steps and x is its mean.

    x is the result: `average(state)` reads it, and `with step.averaged():` evaluates with it. The rate `lr` does not
    fall; it may rise at first, `warmup(1.0, 1000)` say, and the weight of each step in the mean is the square of the
    largest rate until then. `weight_decay * p` is added to the gradients of the parameters p that `decay` selects.

    Shapes: trees of floating or complex arrays; the state has two arrays like each.
    Raises: as `sgd` does.
    Source: Defazio et al., "The road less scheduled", 2024, and the authors' code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.schedule_free_sgd(1.0, 0.5), np.zeros(1)
    >>> p, state = optimizer.update(np.ones(1), optimizer.init(p), p)
    >>> p, state = optimizer.update(np.ones(1), state, p)
    >>> p.tolist(), ws.optim.average(state).tolist()
    ([-1.75], [-1.5])
    """

    momentum: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    _: KW_ONLY
    decay: Choice = None

    def near(self) -> float:
        return self.momentum

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        return self.stepped(kept, add_weight_decay(p, g, decay), numbers)


class ScheduleFreeAdamw(ScheduleFree):
    """Schedule-free AdamW: the steps of AdamW without its momentum, and in its place the mean of the iterates.

    Gradients are those at `b1 * x + (1 - b1) * z`, where z takes the steps and x, the result, is its mean:
    `average(state)` reads it, and `with step.averaged():` evaluates with it. The rate `lr` does not fall; it may rise
    at first, `warmup(2e-3, 1000)` say, and the weight of each step in the mean is the square of the largest rate until
    then. `weight_decay * p` is added to the direction of the step for the parameters p that `decay` selects. `b2` and
    `eps` are those of `adam`.

    Shapes: trees of floating or complex arrays; the state has three arrays like each.
    Raises: as `adamw` does.
    Source: Defazio et al., "The road less scheduled", 2024, and the authors' code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.schedule_free_adamw(0.1, b1=0.5), np.ones(1)
    >>> p, state = optimizer.update(np.full(1, 2.0), optimizer.init(p), p)
    >>> p.round(6).tolist(), ws.optim.average(state).round(6).tolist()
    ([0.9], [0.9])
    """

    b1: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.999, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in())
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    _: KW_ONLY
    decay: Choice = None

    def near(self) -> float:
        return self.b1

    def kept(self, p: Any) -> dict[str, Any]:
        """Both sequences and the second moment."""
        return {**super().kept(p), "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        v = running_mean(kept["v"], squared_magnitude(g), self.b2)
        shrink = 1 / wnp.sqrt(1 - self.b2 ** numbers[2])
        direction = g / (root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v))
        moved, new = self.stepped(kept, add_weight_decay(p, direction, decay), numbers)
        return moved, {**new, "v": v}
