"""A learning rate that falls where the loss has stopped to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.compound import Scaled
from wholestep.optim.hyper import DESCEND, Path, Spelled, checked, visited, within
from wholestep.optim.protocol import Optimizer, check_optimizer, needed, updated


@dataclass(frozen=True, repr=False)
class Plateau(Spelled):
    """An optimizer whose rates are multiplied by a scale, which falls where the loss does not."""

    optimizer: Any
    factor: float = field(metadata=within(0.0, 1.0))
    patience: float = field(metadata=within())
    threshold: float = field(metadata=within(0.0, 1.0))
    cooldown: float = field(metadata=within())
    every: float = field(metadata=within(1.0))
    least: float = field(metadata=within())

    def init(self, params: Any) -> Any:
        """The optimizer's state, and what the losses so far have come to."""
        zero, none = np.zeros(()), np.zeros((), np.int64)
        watch = {"scale": np.ones(()), "best": np.full((), np.inf), "bad": none, "cooling": none}
        return {"optimizer": self.optimizer.init(params), **watch, "sum": zero, "seen": none}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters, and a state whose scale takes account of this loss from the next update on."""
        loss = wnp.asarray(needed("plateau", "loss", extras)).astype(np.float64)
        inner = times(self.optimizer, state["scale"])
        new, own = updated(inner, grads, state["optimizer"], params, extras)
        return new, {"optimizer": own, **self.watched(state, loss)}

    def watched(self, state: Any, loss: Any) -> dict[str, Any]:
        """What the losses have come to with one more."""
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


def times(optimizer: Any, scale: Any) -> Any:
    """The same optimizer with every field `lr` multiplied by a number, which may be traced."""

    def scaled(path: Path, fact: Any, value: Any) -> Any:
        if path[-1] != "lr" or value is None:
            return DESCEND
        return Scaled(value, scale) if callable(value) else value * scale

    return visited(optimizer, scaled)


def plateau(
    optimizer: Optimizer,
    factor: float = 0.1,
    patience: float = 10,
    *,
    threshold: float = 1e-4,
    cooldown: float = 0,
    every: float = 1,
    least: float = 0.0,
) -> Plateau:
    """Multiply the optimizer's rates by `factor` where the loss has not improved for more than `patience` looks.

    A look is taken at the mean loss of every `every` updates, an epoch's worth, say. It is an improvement if it is less
    than the best one by the part `threshold`. After a fall, `cooldown` looks do not count as bad. The scale, which
    multiplies numbers and schedules alike, starts at 1 and does not fall below `least`. It is in the state, so all of
    this happens inside the compiled program. The rule is that of torch's ReduceLROnPlateau with its relative threshold
    for losses that are not negative.

    Raises ParameterError for numbers out of range, or an optimizer without a field `lr`; and in `update` where no
    loss is given.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.plateau(ws.optim.sgd(1.0), 0.5, patience=1), np.zeros(1)
    >>> state, scales = optimizer.init(p), []
    >>> for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0):
    ...     p, state = optimizer.update(np.ones(1), state, p, loss=loss)
    ...     scales.append(float(state["scale"]))
    >>> scales
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]
    """
    check_optimizer("plateau: the first argument", optimizer)
    found: list[Path] = []

    def note(path: Path, fact: dataclasses.Field[Any], value: Any) -> Any:
        if path[-1] == "lr":
            found.append(path)
        return DESCEND

    visited(optimizer, note)
    if not found:
        raise ParameterError(
            f"plateau: {optimizer!r} has no learning rate", hint="it is a field `lr` of a dataclass, or of a part of it"
        )
    return checked(Plateau(optimizer, factor, patience, threshold, cooldown, every, least))
