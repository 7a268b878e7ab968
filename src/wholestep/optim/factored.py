"""Adafactor and SM3: optimizers whose second moment of a matrix is a row and a column."""

from __future__ import annotations

import functools
from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import root_of_squares, running_mean, scalar_like, working_zeros


class Adafactor(Leafwise):
    """Adafactor: Adam without a first moment, with the second moment of a matrix factored into a row and a column.

    The decay rate of the second moment at update t is `1 - t**-power`. The update is clipped to a root mean square of
    `clip`. With `relative` the step is `min(lr, 1 / sqrt(t)) * max(least, rms(p))`, otherwise `lr`. `eps` bounds the
    second moment from below; by default it is that of the dtype. `decay` selects the parameters that shrink by
    `lr * weight_decay`. Formulas and defaults are those of torch.optim.Adafactor.

    Shapes: trees of real floating arrays; the state has a row and a column for arrays of two axes or more, else an
    array.
    Raises: ParameterError for numbers out of range, DtypeError for a value that is no number, UnsupportedError for
    complex parameters.
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


class Sm3(Leafwise):
    """SM3: AdaGrad that keeps only the largest sum of squares of each row and column.

    The sum of an element is the least of the sums kept for its indices along all axes, plus the square of its gradient.
    Steps are along a running mean, with decay `momentum`, of the gradient over the root of its sum. `lr` is as in
    `adam`, and `eps` is added to the sum.

    Shapes: trees of real floating arrays; the state has an array like each, and a vector for each axis of those of two
    axes or more, else another array.
    Raises: as `sgd` does, and UnsupportedError for complex parameters.
    Source: Anil, Gupta, Koren and Singer, "Memory-efficient adaptive optimization", 2019, SM3-II.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.sm3(0.1, 0.0), np.zeros((2, 2))
    >>> optimizer.update(np.array([[1.0, 2.0], [0.0, 4.0]]), optimizer.init(p), p)[0].round(6).tolist()
    [[-0.1, -0.1], [0.0, -0.1]]
    """

    momentum: float | None = field(default=0.9, metadata=number_in(0.0, 1.0, off=0.0))
    eps: float = field(default=1e-8, metadata=number_in(strictly=True))

    def kept(self, p: Any) -> dict[str, Any]:
        """The sums, and with momentum the mean of steps."""
        p = working_array(p)
        if dtypes.is_complex(p.dtype):
            raise UnsupportedError("sm3: complex parameters are not covered", hint="adam takes them")
        axes = range(p.ndim) if p.ndim > 1 else (None,)
        sums = tuple(np.zeros(p.shape if axis is None else shape_along(p, axis), p.dtype) for axis in axes)
        return {"sums": sums} if self.momentum is None else {"sums": sums, "m": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        v = functools.reduce(wnp.minimum, kept["sums"]) + g * g
        some = v > 0
        step = wnp.where(some, g / wnp.sqrt(wnp.where(some, v + scalar_like(self.eps, v), 1)), 0)
        others = [tuple(i for i in range(p.ndim) if i != axis) for axis in range(p.ndim)] if p.ndim > 1 else [()]
        new = {"sums": tuple(wnp.max(v, axis=axes, keepdims=True) if axes else v for axes in others)}
        if self.momentum is not None:
            step = new["m"] = running_mean(kept["m"], step, self.momentum)
        return p - scalar_like(numbers, p) * step, new


def shape_along(x: Any, axis: int) -> tuple[int, ...]:
    """The shape of an array whose other axes are 1."""
    return tuple(size if i == axis else 1 for i, size in enumerate(x.shape))


def rms(x: Any) -> Any:
    """The root of the mean square, in the dtype of x."""
    return root_of_squares(wnp.mean(x * x))


def lerp(mean: Any, x: Any, fresh: Any) -> Any:
    """A running mean after one more value, whose weight is `fresh`."""
    return mean + scalar_like(fresh, mean) * (x - mean)
