"""Stochastic gradient descent, plain, with momentum, or with Nesterov's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.hyper import Rate, checked, rate_at, scheduled, within
from wholestep.optim.leafwise import Leafwise, pulled, stepped
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar, zeros


@dataclass(frozen=True, repr=False)
class Sgd(Leafwise):
    """p -= lr * v, where v = momentum * v + (1 - dampening) * g; without momentum v is g, and is not kept."""

    lr: Rate = field(metadata=scheduled())
    momentum: float | None = field(metadata=within(0.0, 1.0, optional=True))
    nesterov: bool
    dampening: float | None = field(metadata=within(0.0, 1.0, optional=True))
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the part of the gradient that the velocity takes up: all of the first one)."""
        count = common["count"]
        part = None if self.dampening is None else wnp.where(count == 0, 1.0, 1.0 - self.dampening)
        return (rate_at(self.lr, count), part), stepped(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """With momentum a velocity."""
        return {} if self.momentum is None else {"velocity": zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and its velocity."""
        rate, part = numbers
        g = pulled(p, g, decay)
        if self.momentum is None:
            return p - scalar(rate, p) * g, kept
        momentum = scalar(self.momentum, p)
        v = momentum * kept["velocity"] + (g if part is None else scalar(part, p) * g)
        direction = momentum * v + g if self.nesterov else v
        return p - scalar(rate, p) * direction, {"velocity": v}


def sgd(
    lr: Rate,
    momentum: float = 0.0,
    nesterov: bool = False,
    *,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    decay: Choice = None,
) -> Sgd:
    """Stochastic gradient descent: p -= lr * v with v = momentum * v + g, or lr * (g + momentum * v) with `nesterov`.

    `lr` is a number, or a function of the number of updates made so far. With a momentum of 0 no velocity is kept.
    From the second update on the velocity takes up (1 - dampening) * g. `weight_decay` adds weight_decay * p to the
    gradients of the parameters that `decay` means: a function of the path, a table of paths, patterns, or None for all.
    Half-precision parameters have float32 velocities. The formulas are those of torch.optim.SGD.

    Raises ParameterError for a negative rate or decay, a momentum or dampening outside [0, 1), `nesterov` without
    momentum or with dampening, and DtypeError for what is no number.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.sgd(0.1, momentum=0.5)
    >>> params, state = np.array([1.0]), optimizer.init(np.array([1.0]))
    >>> for _ in range(2):
    ...     params, state = optimizer.update(np.array([1.0]), state, params)
    >>> params.round(6).tolist(), state["velocity"].tolist()
    ([0.75], [1.5])
    """
    made = checked(Sgd(lr, momentum, bool(nesterov), dampening, weight_decay, decay))
    if nesterov and (not made.momentum or made.dampening):
        raise ParameterError("sgd: nesterov=True needs a momentum, and no dampening")
    return Sgd(made.lr, made.momentum or None, made.nesterov, made.dampening or None, made.weight_decay or None, decay)
