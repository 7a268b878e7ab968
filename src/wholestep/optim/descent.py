"""Stochastic gradient descent: plain, with momentum or Nesterov's, or with the mean of its iterates."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.averaging import working_copy
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, decay_parameter, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar_like, working_zeros


class Sgd(Leafwise):
    """Stochastic gradient descent: p -= lr * v with v = momentum * v + g, or lr * (g + momentum * v) with `nesterov`.

    `lr` is a number, or a function of the number of updates made so far. With a momentum of 0 no velocity is kept. From
    the second update on, `(1 - dampening) * g` is added to the velocity. `weight_decay` adds weight_decay * p to the
    gradients of the parameters that `decay` selects: a function of the path, a table of paths, patterns, or None for
    all. Half-precision parameters have float32 velocities. The formulas are those of torch.optim.SGD.

    Shapes: trees of floating or complex arrays; with momentum the state has an array like each.
    Raises: ParameterError for a negative rate or decay, a momentum or dampening outside [0, 1), `nesterov` without
    momentum or with dampening, and a pattern that matches nothing; DtypeError for a value that is no number.
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
        """The same object; raises ParameterError for Nesterov's momentum without a momentum or with dampening."""
        if self.nesterov and (not self.momentum or self.dampening):
            raise ParameterError("sgd: nesterov=True needs a momentum, and no dampening")
        return self

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the factor of the gradient in the velocity, which is 1 for the first)."""
        count = common["count"]
        part = None if self.dampening is None else wnp.where(count == 0, 1.0, 1.0 - self.dampening)
        return (rate_at(self.lr, count), part), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """A velocity, if there is a momentum."""
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


class Asgd(Leafwise):
    """Averaged SGD: p -= rate * (g + pull * p), with the mean of the parameters from update `start` on.

    The rate of update t is `lr / (1 + pull * lr * t)**power`. `average(state)` reads the mean, which until `start` is
    the parameters themselves, and `with step.averaged():` evaluates with it. `weight_decay` is added to the gradients
    of the parameters that `decay` selects, and `pull` shrinks all. Formulas and defaults are those of torch.optim.ASGD.

    Shapes: trees of floating or complex arrays; the state has an array like each.
    Raises: as `sgd` does.
    Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.asgd(1.0, pull=0.0, start=0), np.zeros(1)
    >>> state = optimizer.init(p)
    >>> for _ in range(3):
    ...     p, state = optimizer.update(np.ones(1), state, p)
    >>> p.tolist(), ws.optim.average(state).tolist()
    ([-3.0], [-2.5])
    """

    lr: Rate = field(default=1e-2, metadata=number_or_schedule())
    _: KW_ONLY
    pull: float = field(default=1e-4, metadata=number_in())
    power: float = field(default=0.75, metadata=number_in())
    start: float = field(default=1e6, metadata=number_in())
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the part of the mean that is new)."""
        rate, count = rate_at(self.lr, common["count"]), common["count"]
        rate = rate / (1 + self.pull * rate * count) ** self.power
        return (rate, 1 / wnp.maximum(count - self.start, 1.0)), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The mean, which begins at the parameter."""
        return {"average": working_copy(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, part = numbers
        g = add_weight_decay(p, g, decay)
        p = decay_parameter(p, rate, self.pull) - scalar_like(rate, p) * g
        mean = kept["average"] + scalar_like(part, p) * (p - kept["average"])
        return p, {"average": wnp.where(part < 1, mean, p)}
