"""Reduction of the learning rate on a plateau of the loss."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.averaging import Wrapper
from wholestep.optim.compound import Scaled
from wholestep.optim.hyper import DESCEND, Path, fields_named, map_fields, number_in
from wholestep.optim.protocol import call_update, required_extra


class Plateau(Wrapper):
    """Multiply the optimizer's rates by `factor` where the loss has not improved for more than `patience` checks.

    Each check takes the mean loss of `every` updates, those of an epoch, say. It is an improvement if it is less than
    the best one by the fraction `threshold`. After a reduction, `cooldown` checks do not count as bad. The scale, which
    multiplies numbers and schedules alike, starts at 1 and does not fall below `least`. It is part of the state, so
    that the whole rule runs inside the compiled program. The rule is that of torch's ReduceLROnPlateau with its
    relative threshold for losses that are not negative.

    Shapes: those of the optimizer, and a loss of one number.
    Raises: ParameterError for numbers out of range, for an optimizer without a field `lr`, and in `update` for no loss.
    Source: PyTorch's ReduceLROnPlateau.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.plateau(ws.optim.sgd(1.0), 0.5, patience=1), np.zeros(1)
    >>> state, scales = optimizer.init(p), []
    >>> for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0):
    ...     p, state = optimizer.update(np.ones(1), state, p, loss=loss)
    ...     scales.append(float(state["scale"]))
    >>> scales
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]
    """

    optimizer: Any
    factor: float = field(default=0.1, metadata=number_in(0.0, 1.0))
    patience: float = field(default=10, metadata=number_in())
    _: KW_ONLY
    threshold: float = field(default=1e-4, metadata=number_in(0.0, 1.0))
    cooldown: float = field(default=0, metadata=number_in())
    every: float = field(default=1, metadata=number_in(1.0))
    least: float = field(default=0.0, metadata=number_in())

    def resolved(self) -> Any:
        """The same object; raises ParameterError for an optimizer without a field `lr`."""
        super().resolved()
        if not fields_named(self.optimizer, "lr"):
            raise ParameterError(
                f"plateau: {self.optimizer!r} has no learning rate",
                hint="it is a field `lr` of a dataclass, or of a part of it",
            )
        return self

    def init(self, params: Any) -> Any:
        """The optimizer's state, and the statistics of the losses so far."""
        zero, none = np.zeros(()), np.zeros((), np.int64)
        watch = {"scale": np.ones(()), "best": np.full((), np.inf), "bad": none, "cooling": none}
        return {"optimizer": self.optimizer.init(params), **watch, "sum": zero, "seen": none}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters, and a state whose scale includes this loss, for the next update."""
        loss = wnp.asarray(required_extra("plateau", "loss", extras)).astype(np.float64)
        inner = scale_rates(self.optimizer, state["scale"])
        new, own = call_update(inner, grads, state["optimizer"], params, extras)
        return new, {"optimizer": own, **self.watched(state, loss)}

    def watched(self, state: Any, loss: Any) -> dict[str, Any]:
        """The statistics of the losses after one more loss."""
        total, seen = state["sum"] + loss, state["seen"] + 1
        due = seen >= self.every
        mean = total / seen
        better = mean < state["best"] - self.threshold * abs(wnp.where(wnp.isinf(state["best"]), 0.0, state["best"]))
        cooling = wnp.maximum(state["cooling"] - 1, 0)
        bad = wnp.where(better | (state["cooling"] > 0), 0, state["bad"] + 1)
        falls = due & (bad > self.patience)
        scale = wnp.maximum(state["scale"] * self.factor, self.least)
        rest = wnp.asarray(self.cooldown).astype(np.int64)
        return {
            "scale": wnp.where(falls, wnp.minimum(scale, state["scale"]), state["scale"]),
            "best": wnp.where(due & better, mean, state["best"]),
            "bad": wnp.where(due, wnp.where(falls, 0, bad), state["bad"]),
            "cooling": wnp.where(falls, rest, wnp.where(due, cooling, state["cooling"])),
            "sum": wnp.where(due, 0.0, total),
            "seen": wnp.where(due, 0, seen),
        }


def scale_rates(optimizer: Any, scale: Any) -> Any:
    """The same optimizer with every field `lr` multiplied by a number, which may be traced."""

    def scaled(path: Path, fact: Any, value: Any) -> Any:
        if path[-1] != "lr" or value is None:
            return DESCEND
        return Scaled(value, scale) if callable(value) else value * scale

    return map_fields(optimizer, scaled)
