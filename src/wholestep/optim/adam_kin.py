"""Relatives of Adam: Nesterov's momentum, a rectified variance, the largest gradient, steps by norm, signs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.optim.hyper import Rate, checked, rate_at, scheduled, within
from wholestep.optim.leafwise import Leafwise, pulled, shrunk, stepped
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import real_zeros, scalar, squared, toward, zeros


@dataclass(frozen=True, repr=False)
class Nadam(Leafwise):
    """Adam whose first moment looks one update ahead."""

    lr: Rate = field(metadata=scheduled())
    b1: float = field(metadata=within(0.0, 1.0))
    b2: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    weight_decay: float | None = field(metadata=within(optional=True))
    momentum_decay: float = field(metadata=within())
    decay: Choice

    def common(self) -> dict[str, Any]:
        """The number of updates and the product of their momenta."""
        return {**super().common(), "product": np.ones(())}

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the factor of g, the factor of m, one over the root of the correction of v)."""
        count = common["count"] + 1
        now, then = [self.b1 * (1 - 0.5 * 0.96 ** (t * self.momentum_decay)) for t in (count, count + 1)]
        rate, product = rate_at(self.lr, common["count"]), common["product"] * now
        sizes = rate * (1 - now) / (1 - product), rate * then / (1 - product * then)
        return (*sizes, 1 / wnp.sqrt(1 - self.b2**count)), {"count": count, "product": product}

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments."""
        return {"m": zeros(p), "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and its moments."""
        of_g, of_m, shrink = numbers
        g = pulled(p, g, decay)
        m, v = toward(kept["m"], g, self.b1), toward(kept["v"], squared(g), self.b2)
        root = wnp.sqrt(v) * scalar(shrink, v) + scalar(self.eps, v)
        return p - (scalar(of_g, v) * g + scalar(of_m, v) * m) / root, {"m": m, "v": v}


@dataclass(frozen=True, repr=False)
class Radam(Leafwise):
    """Adam that divides by the second moment only once enough gradients went into it, and by less at first."""

    lr: Rate = field(metadata=scheduled())
    b1: float = field(metadata=within(0.0, 1.0))
    b2: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the step where v is not used, that where it is)."""
        new = stepped(common)
        count = new["count"]
        rate = rate_at(self.lr, common["count"]) / (1 - self.b1**count)
        left = 1 - self.b2**count
        most = 2 / (1 - self.b2) - 1
        length = most - 2 * count * (1 - left) / left
        enough = length > 5
        length = wnp.where(enough, length, 6.0)
        whole = wnp.where(enough, (most - 4) * (most - 2), 1.0)
        tractable = (length - 4) * (length - 2) * most / (whole * length)
        return (wnp.where(enough, 0.0, rate), wnp.where(enough, rate * wnp.sqrt(tractable * left), 0.0)), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments."""
        return {"m": zeros(p), "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and its moments."""
        plain, adaptive = numbers
        g = pulled(p, g, decay)
        m, v = toward(kept["m"], g, self.b1), toward(kept["v"], squared(g), self.b2)
        size = scalar(plain, v) + scalar(adaptive, v) / (wnp.sqrt(v) + scalar(self.eps, v))
        return p - size * m, {"m": m, "v": v}


@dataclass(frozen=True, repr=False)
class Adamax(Leafwise):
    """p -= lr * m' / u, where u is the largest |g| so far, decaying."""

    lr: Rate = field(metadata=scheduled())
    b1: float = field(metadata=within(0.0, 1.0))
    b2: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    weight_decay: float | None = field(metadata=within(optional=True))
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate over the correction of m."""
        new = stepped(common)
        return rate_at(self.lr, common["count"]) / (1 - self.b1 ** new["count"]), new

    def kept(self, p: Any) -> dict[str, Any]:
        """The first moment and the largest gradient."""
        return {"m": zeros(p), "u": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and what is kept for it."""
        g = pulled(p, g, decay)
        m, u = toward(kept["m"], g, self.b1), kept["u"]
        u = wnp.maximum(scalar(self.b2, u) * u, abs(g) + scalar(self.eps, u))
        return p - scalar(numbers, u) * m / u, {"m": m, "u": u}


@dataclass(frozen=True, repr=False)
class Lamb(Leafwise):
    """Adam with decay, whose step for each parameter is as long as lr times the parameter."""

    lr: Rate = field(metadata=scheduled())
    b1: float = field(metadata=within(0.0, 1.0))
    b2: float = field(metadata=within(0.0, 1.0))
    eps: float = field(metadata=within())
    weight_decay: float = field(metadata=within())
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, one over the correction of m, one over the root of that of v)."""
        new = stepped(common)
        count = new["count"]
        return (rate_at(self.lr, common["count"]), 1 / (1 - self.b1**count), 1 / wnp.sqrt(1 - self.b2**count)), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments."""
        return {"m": zeros(p), "v": real_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and its moments."""
        rate, grow, shrink = numbers
        m, v = toward(kept["m"], g, self.b1), toward(kept["v"], squared(g), self.b2)
        step = scalar(grow, v) * m / (wnp.sqrt(v) * scalar(shrink, v) + scalar(self.eps, v))
        step = pulled(p, step, decay)
        length, wanted = [wnp.sqrt(wnp.sum(squared(x))) for x in (step, p)]
        usable = (length > 0) & (wanted > 0)
        trust = wnp.where(usable, wanted / wnp.where(usable, length, 1), 1)
        return p - scalar(rate * trust, v) * step, {"m": m, "v": v}


@dataclass(frozen=True, repr=False)
class Lion(Leafwise):
    """p -= lr * sign(b1 * m + (1 - b1) * g), and m = b2 * m + (1 - b2) * g afterwards."""

    lr: Rate = field(metadata=scheduled())
    b1: float = field(metadata=within(0.0, 1.0))
    b2: float = field(metadata=within(0.0, 1.0))
    weight_decay: float = field(metadata=within())
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        return rate_at(self.lr, common["count"]), stepped(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The first moment."""
        return {"m": zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and its moment."""
        direction = wnp.sign(toward(kept["m"], g, self.b1))
        return shrunk(p, numbers, decay) - scalar(numbers, p) * direction, {"m": toward(kept["m"], g, self.b2)}


def nadam(
    lr: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decay: Choice = None,
) -> Nadam:
    """NAdam: Adam whose first moment looks one update ahead, with a momentum that grows towards b1.

    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas and defaults are those of
    torch.optim.NAdam. Raises as `adam` does. Dozat, Incorporating Nesterov momentum into Adam (2016).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.nadam(0.1), np.ones(1)
    >>> optimizer.update(np.ones(1), optimizer.init(p), p)[0].round(4).tolist()
    [0.8944]
    """
    return checked(Nadam(lr, b1, b2, eps, weight_decay or None, momentum_decay, decay))


def radam(
    lr: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    decay: Choice = None,
) -> Radam:
    """RAdam: momentum at first, then Adam with a rate that grows as the variance of its second moment falls.

    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas and defaults are those of
    torch.optim.RAdam. Raises as `adam` does. Liu and others, On the variance of the adaptive learning rate (2020).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.radam(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.8]
    """
    return checked(Radam(lr, b1, b2, eps, weight_decay or None, decay))


def adamax(
    lr: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    decay: Choice = None,
) -> Adamax:
    """Adamax: Adam with the largest gradient so far, decaying by b2, in the place of the root of the second moment.

    `weight_decay` is added to the gradients of the parameters that `decay` means. Formulas are those of
    torch.optim.Adamax. Raises as `adam` does. Kingma and Ba, Adam, section 7.1 (2015).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adamax(0.1), np.ones(1)
    >>> optimizer.update(np.full(1, 2.0), optimizer.init(p), p)[0].round(4).tolist()
    [0.9]
    """
    return checked(Adamax(lr, b1, b2, eps, weight_decay or None, decay))


def lamb(
    lr: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    *,
    decay: Choice = None,
) -> Lamb:
    """LAMB: the direction of AdamW, as long as lr * |p| for each parameter p; plain lr where p or the step is 0.

    `decay` says which parameters decay. Raises as `adamw` does. You and others, Large batch optimization for deep
    learning (2020), algorithm 2, with the identity for phi.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lamb(0.1, weight_decay=0.0), np.array([3.0, 4.0])
    >>> moved, _ = optimizer.update(np.array([1.0, 1.0]), optimizer.init(p), p)
    >>> float(np.linalg.norm(moved - p).round(6))
    0.5
    """
    return checked(Lamb(lr, b1, b2, eps, weight_decay, decay))


def lion(lr: Rate, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 0.0, *, decay: Choice = None) -> Lion:
    """Lion: the sign of a mean of gradients, with weight decay beside it; one moment is kept for each parameter.

    `decay` says which parameters decay. Raises as `adamw` does. Chen and others, Symbolic discovery of optimization
    algorithms (2023).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lion(0.1), np.ones(2)
    >>> optimizer.update(np.array([5.0, -0.1]), optimizer.init(p), p)[0].tolist()
    [0.9, 1.1]
    """
    return checked(Lion(lr, b1, b2, weight_decay, decay))
