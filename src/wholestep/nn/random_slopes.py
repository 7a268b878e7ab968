"""Randomized leaky ReLU: the slope of each negative number is drawn in training, and the mean slope in evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import leaky_relu
from wholestep.nn.exponentials import in_single
from wholestep.nn.keys import key_needed
from wholestep.nn.module import Module
from wholestep.random import uniform


def rrelu(x: Any, low: float, high: float, key: Any) -> NDArray:
    """x where it is positive, and elsewhere x times a slope of its own, drawn evenly from [low, high).

    `key` is a seed or a key.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for bounds that are not in order, and for a missing key.
    Source: Xu, Wang, Chen and Li, "Empirical evaluation of rectified activations in convolutional network", 2015.

    >>> import numpy as np, wholestep as ws
    >>> y = ws.nn.rrelu(np.array([-1.0, 2.0]), 0.1, 0.3, ws.random.key(0))
    >>> bool(-0.3 <= y[0] <= -0.1), float(y[1])
    (True, 2.0)
    """
    check_bounds("rrelu", low, high)
    a = wnp.asarray(x)
    slopes = uniform(key_needed("rrelu", key), a.shape, np.float32) * np.float32(high - low) + np.float32(low)
    return in_single(lambda v: wnp.where(v > 0, v, slopes.astype(v.dtype) * v), a)


class RReLU(Module):
    """`rrelu` with slopes from [low, high) in training, given a key, and `leaky_relu` of the mean slope in evaluation.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for bounds that are not in order, and in training for a missing key.
    Source: as `rrelu`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.RReLU(0.25, 0.75)
    >>> layer(np.ones(2), key=0).tolist(), layer.eval()(np.array([-2.0])).tolist()
    ([1.0, 1.0], [-1.0])
    """

    def __init__(self, low: float = 1 / 8, high: float = 1 / 3) -> None:
        check_bounds("RReLU", low, high)
        self.low, self.high = low, high

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        return rrelu(x, self.low, self.high, key) if self.training else leaky_relu(x, (self.low + self.high) / 2)


def check_bounds(name: str, low: float, high: float) -> None:
    """Raise ParameterError for slopes that are not in order."""
    if not low <= high:
        raise ParameterError(f"{name}: the slopes {low} and {high} are not in order", hint="give the lower one first")
