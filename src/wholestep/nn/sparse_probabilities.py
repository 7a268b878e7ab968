"""Relatives of the softmax: its samples, and a projection onto probabilities that gives exact zeros."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.frontend.custom import composite
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single, softmax
from wholestep.nn.keys import key_needed
from wholestep.nn.reduction import check_axis, real_floating
from wholestep.random import gumbel


def sparsemax(x: Any, axis: int = -1) -> NDArray:
    """The probabilities along an axis that are nearest to x in Euclidean distance, many of them exactly 0.

    Shapes: x real floats of any shape; the same.
    Raises: AxisError for an axis that is not there, DtypeError for operands other than real floats.
    Source: Martins and Astudillo, "From softmax to sparsemax", 2016, algorithm 1.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.sparsemax(np.array([0.5, 0.25, -1.0])).tolist()
    [0.625, 0.375, 0.0]
    """
    check_axis("sparsemax", real_floating("sparsemax", x, "scores"), axis)

    def project(a: Any) -> Any:
        last = wnp.moveaxis(a, axis, -1)
        falling = -wnp.sort(-last, axis=-1)
        sums = wnp.cumsum(falling, axis=-1) - 1
        ranks = wnp.arange(1, last.shape[-1] + 1, dtype=a.dtype)
        count = wnp.sum(falling * ranks > sums, axis=-1, keepdims=True)
        level = wnp.take_along_axis(sums, count - 1, axis=-1) / count.astype(a.dtype)
        return wnp.moveaxis(wnp.maximum(last - level, 0), -1, axis)

    made = composite(project, name="sparsemax", narrow=True)

    def pullback(args: Any, y: Any, g: Any) -> Any:
        inside = (y > 0).astype(y.dtype)
        mean = wnp.sum(g * inside, axis=axis, keepdims=True) / wnp.sum(inside, axis=axis, keepdims=True)
        return (inside * (g - mean),)

    made.defvjp(pullback)
    return in_single(made, x)


def gumbel_softmax(x: Any, key: Any, *, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> NDArray:
    """A differentiable sample of a categorical distribution with logits x: softmax((x + Gumbel noise) / temperature).

    With `hard` the value is one-hot, and the gradient that of the soft sample. The softmax is along `axis`; `key`, a
    seed or a key, draws the noise.

    Shapes: x real floats of any shape; the same.
    Raises: ParameterError for a temperature that is not positive and for a missing key, AxisError for an axis that is
    not there, DtypeError for operands other than real floats.
    Source: Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.gumbel_softmax(np.array([0.0, 30.0]), ws.random.key(0), hard=True).tolist()
    [0.0, 1.0]
    """
    name = "gumbel_softmax"
    scores = real_floating(name, x, "logits")
    check_axis(name, scores, axis)
    if isinstance(temperature, int | float) and not temperature > 0:
        raise ParameterError(f"{name}: temperature is {temperature}; it must be positive")
    noise = gumbel(key_needed(name, key), scores.shape, scores.dtype)
    soft = softmax((scores + noise) / temperature, axis)
    if hard:
        first = wnp.expand_dims(wnp.argmax(soft, axis=axis), axis)
        at = wnp.arange(soft.shape[axis]).reshape([-1 if i == axis % soft.ndim else 1 for i in range(soft.ndim)])
        # The difference is zero in value and has the gradient of the soft sample.
        soft = (first == at).astype(soft.dtype) + (soft - stop_gradient(soft))
    return soft.astype(wnp.asarray(x).dtype, copy=False)
