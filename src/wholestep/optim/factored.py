"""Adafactor: second moments of a matrix as a row and a column, steps in proportion to the parameter."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar_like, working_array


class Adafactor(Leafwise):
    """Adafactor: Adam without a first moment, whose second one is a row and a column for a matrix.

    The second moment at update t keeps 1 - t**-power of what it was. The update is shortened to a root mean square of
    `clip`. With `relative` the step is min(lr, 1 / sqrt(t)) * max(least, rms(p)), otherwise lr. `eps` bounds the second
    moment from below; by default it is that of the dtype. `decay` says which parameters shrink by lr * weight_decay.
    Formulas and defaults are those of torch.optim.Adafactor.

    Shapes: trees of real floating arrays; the state has a row and a column for those of two axes or more, else an
    array.
    Raises: ParameterError for numbers out of range, DtypeError for what is none, UnsupportedError for complex
    parameters.
    Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.adafactor(), np.ones((300, 200))
    >>> state = optimizer.init(p)
    >>> state["row"].size + state["column"].size
    500
    """

    lr: Rate = field(default=1e-2, metadata=number_or_schedule())
    power: float = field(default=0.8, metadata=number_in(strictly=True))
    _: KW_ONLY
    eps: float | None = field(default=None, metadata=number_in(strictly=True, optional=True))
    least: float = field(default=1e-3, metadata=number_in())
    clip: float = field(default=1.0, metadata=number_in(strictly=True))
    relative: bool = True
    weight_decay: float = field(default=0.0, metadata=number_in())
    decay: Choice = None

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, the largest relative step, the part of v that is new)."""
        new = increment_count(common)
        count = new["count"].astype(np.float64)
        rate = rate_at(self.lr, common["count"])
        return (rate, wnp.minimum(rate, 1 / wnp.sqrt(count)), count**-self.power), new

    def kept(self, p: Any) -> dict[str, Any]:
        """Means of squares: of each row and column over the last two axes, or of each element of a vector."""
        p = working_array(p)
        if dtypes.is_complex(p.dtype):
            raise UnsupportedError("adafactor: complex parameters are not covered", hint="adam takes them")
        if p.ndim < 2:
            return {"row": None, "column": None, "v": wnp.zeros_like(p)}
        row, column = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {"row": np.zeros(row, p.dtype), "column": np.zeros(column, p.dtype), "v": None}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, relative, fresh = numbers
        tiny = np.finfo(p.dtype).eps if self.eps is None else self.eps
        size = (
            scalar_like(relative, p) * wnp.maximum(scalar_like(self.least, p), rms(p))
            if self.relative
            else scalar_like(rate, p)
        )
        if kept["v"] is not None:
            v = lerp(kept["v"], g * g, fresh)
            new = {"row": None, "column": None, "v": v}
        else:
            row = lerp(kept["row"], wnp.mean(g * g, axis=-1, keepdims=True), fresh)
            column = lerp(kept["column"], wnp.mean(g * g, axis=-2, keepdims=True), fresh)
            v = row * column / wnp.maximum(wnp.mean(row, axis=-2, keepdims=True), scalar_like(tiny, p))
            new = {"row": row, "column": column, "v": None}
        u = g / wnp.sqrt(wnp.maximum(v, scalar_like(tiny * tiny, p)))
        longest = wnp.maximum(scalar_like(1.0, p), rms(u) / scalar_like(self.clip, p))
        return decay_parameter(p, rate, decay) - size / longest * u, new


def rms(x: Any) -> Any:
    """The root of the mean square, in the dtype of x."""
    return wnp.sqrt(wnp.mean(x * x))


def lerp(mean: Any, x: Any, fresh: Any) -> Any:
    """A running mean after one more value, of which it takes the part `fresh`."""
    return mean + scalar_like(fresh, mean) * (x - mean)
