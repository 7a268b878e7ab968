"""Adafactor: second moments of a matrix as a row and a column, steps in proportion to the parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep import numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.optim.hyper import Rate, checked, rate_at, scheduled, within
from wholestep.optim.leafwise import Leafwise, shrunk, stepped
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar, working


@dataclass(frozen=True, repr=False)
class Adafactor(Leafwise):
    """p -= a * u / max(1, rms(u) / clip), u = g / sqrt(v), with v in factors and a in proportion to the parameter."""

    lr: Rate = field(metadata=scheduled())
    power: float = field(metadata=within(strictly=True))
    eps: float | None = field(metadata=within(strictly=True, optional=True))
    least: float = field(metadata=within())
    clip: float = field(metadata=within(strictly=True))
    relative: bool
    weight_decay: float = field(metadata=within())
    decay: Choice

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the largest relative step, the part of v that is new)."""
        new = stepped(common)
        count = new["count"].astype(np.float64)
        rate = rate_at(self.lr, common["count"])
        return (rate, wnp.minimum(rate, 1 / wnp.sqrt(count)), count**-self.power), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Means of squares: of each row and column over the last two axes, or of each element of a vector."""
        p = working(p)
        if dtypes.is_complex(p.dtype):
            raise UnsupportedError("adafactor: complex parameters are not covered", hint="adam takes them")
        if p.ndim < 2:
            return {"row": None, "column": None, "v": wnp.zeros_like(p)}
        row, column = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {"row": np.zeros(row, p.dtype), "column": np.zeros(column, p.dtype), "v": None}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter after the update, and the means of squares."""
        rate, relative, fresh = numbers
        tiny = np.finfo(p.dtype).eps if self.eps is None else self.eps
        size = scalar(relative, p) * wnp.maximum(scalar(self.least, p), rms(p)) if self.relative else scalar(rate, p)
        if kept["v"] is not None:
            v = lerp(kept["v"], g * g, fresh)
            new = {"row": None, "column": None, "v": v}
        else:
            row = lerp(kept["row"], wnp.mean(g * g, axis=-1, keepdims=True), fresh)
            column = lerp(kept["column"], wnp.mean(g * g, axis=-2, keepdims=True), fresh)
            v = row * column / wnp.maximum(wnp.mean(row, axis=-2, keepdims=True), scalar(tiny, p))
            new = {"row": row, "column": column, "v": None}
        u = g / wnp.sqrt(wnp.maximum(v, scalar(tiny * tiny, p)))
        longest = wnp.maximum(scalar(1.0, p), rms(u) / scalar(self.clip, p))
        return shrunk(p, rate, decay) - size / longest * u, new


def rms(x: Any) -> Any:
    """The root of the mean square, in the dtype of x."""
    return wnp.sqrt(wnp.mean(x * x))


def lerp(mean: Any, x: Any, fresh: Any) -> Any:
    """A running mean after one more value, of which it takes the part `fresh`."""
    return mean + scalar(fresh, mean) * (x - mean)


def adafactor(
    lr: Rate = 1e-2,
    power: float = 0.8,
    *,
    eps: float | None = None,
    least: float = 1e-3,
    clip: float = 1.0,
    relative: bool = True,
    weight_decay: float = 0.0,
    decay: Choice = None,
) -> Adafactor:
    """Adafactor: Adam without a first moment, whose second one is a row and a column for a matrix.

    The second moment at update t keeps 1 - t**-power of what it was. The update is shortened to a root mean square of
    `clip`. With `relative` the step is min(lr, 1 / sqrt(t)) * max(least, rms(p)), otherwise lr. `eps` bounds the second
    moment from below; by default it is that of the dtype. `decay` says which parameters shrink by lr * weight_decay.
    Formulas and defaults are those of torch.optim.Adafactor.

    Raises ParameterError for numbers out of range, DtypeError for what is none, UnsupportedError for complex
    parameters. Shazeer and Stern, Adafactor (2018).

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adafactor(), np.ones((300, 200))
    >>> state = optimizer.init(p)
    >>> state["row"].size + state["column"].size
    500
    """
    return checked(Adafactor(lr, power, eps, least, clip, bool(relative), weight_decay, decay))
