"""Stochastic gradient descent, plain, with momentum, or with Nesterov's."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar_like, working_zeros


class Sgd(Leafwise):
    """Stochastic gradient descent: p -= lr * v with v = momentum * v + g, or lr * (g + momentum * v) with `nesterov`.

    `lr` is a number, or a function of the number of updates made so far. With a momentum of 0 no velocity is kept.
    From the second update on the velocity takes up (1 - dampening) * g. `weight_decay` adds weight_decay * p to the
    gradients of the parameters that `decay` means: a function of the path, a table of paths, patterns, or None for all.
    Half-precision parameters have float32 velocities. The formulas are those of torch.optim.SGD.

    Shapes: trees of floating or complex arrays; with momentum the state has an array like each.
    Raises: ParameterError for a negative rate or decay, a momentum or dampening outside [0, 1), `nesterov` without
    momentum or with dampening, and a pattern that matches nothing; DtypeError for what is no number.
    Source: Robbins and Monro, "A stochastic approximation method", 1951; Polyak, "Some methods of speeding up the
    convergence of iteration methods", 1964; Sutskever et al., "On the importance of initialization and momentum in deep
    learning", 2013.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.sgd(0.1, momentum=0.5)
    >>> params, state = np.array([1.0]), optimizer.init(np.array([1.0]))
    >>> for _ in range(2):
    ...     params, state = optimizer.update(np.array([1.0]), state, params)
    >>> params.round(6).tolist(), state["velocity"].tolist()
    ([0.75], [1.5])
    """

    momentum: float | None = field(default=0.0, metadata=number_in(0.0, 1.0, off=0.0))
    nesterov: bool = False
    _: KW_ONLY
    dampening: float | None = field(default=0.0, metadata=number_in(0.0, 1.0, off=0.0))
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def resolved(self) -> Sgd:
        """The same; raises ParameterError where Nesterov's momentum has none to look ahead with."""
        if self.nesterov and (not self.momentum or self.dampening):
            raise ParameterError("sgd: nesterov=True needs a momentum, and no dampening")
        return self

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the part of the gradient that the velocity takes up: all of the first one)."""
        count = common["count"]
        part = None if self.dampening is None else wnp.where(count == 0, 1.0, 1.0 - self.dampening)
        return (rate_at(self.lr, count), part), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """With momentum a velocity."""
        return {} if self.momentum is None else {"velocity": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, part = numbers
        g = add_weight_decay(p, g, decay)
        if self.momentum is None:
            return p - scalar_like(rate, p) * g, kept
        momentum = scalar_like(self.momentum, p)
        v = momentum * kept["velocity"] + (g if part is None else scalar_like(part, p) * g)
        direction = momentum * v + g if self.nesterov else v
        return p - scalar_like(rate, p) * direction, {"velocity": v}
