"""RMSProp, AdaGrad and Adadelta: gradients divided by the size that gradients of their parameter have had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.optim.hyper import Rate, checked, rate_at, scheduled, within
from wholestep.optim.leafwise import Leafwise, pulled, stepped
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import real_zeros, scalar, squared, toward, zeros


@dataclass(frozen=True, repr=False)
class Rmsprop(Leafwise):
    """p -= lr * g / (sqrt(v) + eps), where v is a running mean of |g|**2."""

    lr: Rate = field(metadata=scheduled())
    keep: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    momentum: float | None = field(metadata=within(0.0, 1.0, optional=True))
    centered: bool
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        return rate_at(self.lr, common["count"]), stepped(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The second moment, the first where it is taken off, and with momentum a velocity."""
        kept = {"v": real_zeros(p)}
        if self.centered:
            kept["m"] = zeros(p)
        return kept if self.momentum is None else {**kept, "velocity": zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and what is kept for it."""
        g = pulled(p, g, decay)
        new = {"v": toward(kept["v"], squared(g), self.keep)}
        spread = new["v"]
        if self.centered:
            new["m"] = toward(kept["m"], g, self.keep)
            spread = wnp.maximum(spread - squared(new["m"]), scalar(0.0, spread))
        step = g / (wnp.sqrt(spread) + scalar(self.eps, spread))
        if self.momentum is not None:
            step = new["velocity"] = scalar(self.momentum, p) * kept["velocity"] + step
        return p - scalar(numbers, p) * step, new


@dataclass(frozen=True, repr=False)
class Adagrad(Leafwise):
    """p -= lr * g / (sqrt(v) + eps), where v is the sum of |g|**2."""

    lr: Rate = field(metadata=scheduled())
    eps: float = field(metadata=within())
    start: float = field(metadata=within())
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        return rate_at(self.lr, common["count"]), stepped(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The sum of squares."""
        v = real_zeros(p)
        return {"v": v + scalar(self.start, v)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and the sum of squares."""
        g = pulled(p, g, decay)
        v = kept["v"] + squared(g)
        return p - scalar(numbers, p) * g / (wnp.sqrt(v) + scalar(self.eps, v)), {"v": v}


@dataclass(frozen=True, repr=False)
class Adadelta(Leafwise):
    """p -= lr * g * sqrt(d + eps) / sqrt(v + eps), with running means v of |g|**2 and d of the squared steps."""

    lr: Rate = field(metadata=scheduled())
    keep: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        return rate_at(self.lr, common["count"]), stepped(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The mean squares of gradients and of steps."""
        return {"v": real_zeros(p), "d": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and what is kept for it."""
        g = pulled(p, g, decay)
        v, d = toward(kept["v"], squared(g), self.keep), kept["d"]
        step = wnp.sqrt(d + scalar(self.eps, d)) / wnp.sqrt(v + scalar(self.eps, v)) * g
        return p - scalar(numbers, p) * step, {"v": v, "d": toward(d, squared(step), self.keep)}


def rmsprop(
    lr: Rate,
    keep: float = 0.99,
    eps: float = 1e-8,
    *,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
    decay: Choice = None,
) -> Rmsprop:
    """RMSProp: the gradient over the root of the running mean of its square, which keeps `keep` of what it was.

    `centered` takes the square of the mean gradient off that mean; `momentum` gathers the steps in a velocity;
    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas are those of
    torch.optim.RMSprop. Raises as `sgd` does. Tieleman and Hinton, Coursera lecture 6.5 (2012).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.rmsprop(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.0]
    """
    return checked(Rmsprop(lr, keep, eps, momentum or None, bool(centered), weight_decay or None, decay))


def adagrad(
    lr: Rate, eps: float = 1e-10, *, start: float = 0.0, weight_decay: float = 0.0, decay: Choice = None
) -> Adagrad:
    """AdaGrad: the gradient over the root of the sum of all its squares, which begins at `start`.

    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas are those of
    torch.optim.Adagrad. Raises as `sgd` does. Duchi, Hazan and Singer, Adaptive subgradient methods (2011).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adagrad(0.5), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.5]
    """
    return checked(Adagrad(lr, eps, start, weight_decay or None, decay))


def adadelta(
    lr: Rate = 1.0, keep: float = 0.9, eps: float = 1e-6, *, weight_decay: float = 0.0, decay: Choice = None
) -> Adadelta:
    """Adadelta: steps whose size is that of earlier steps, so that they have the unit of the parameter.

    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas are those of
    torch.optim.Adadelta. Raises as `sgd` does. Zeiler, ADADELTA (2012).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adadelta(), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(6).tolist()
    [0.996838]
    """
    return checked(Adadelta(lr, keep, eps, weight_decay or None, decay))
