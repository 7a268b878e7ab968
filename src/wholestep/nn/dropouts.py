"""Dropout: each number is 0 with probability p and divided by 1 - p otherwise, by an explicit key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import DtypeError, ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import SELU_ALPHA, SELU_SCALE
from wholestep.nn.exponentials import in_single
from wholestep.nn.keys import key_needed
from wholestep.nn.module import Module
from wholestep.random import uniform
from wholestep.words import type_in_words


def dropout(x: Any, p: float, key: Any) -> NDArray:
    """x with each element 0 with probability p, the others divided by 1 - p, so that the mean stays.

    `key` is a key or a seed: the same gives the same zeros. p = 0 gives x itself and needs no key; p = 1 gives zeros.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for p outside [0, 1] and for a missing key.
    Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.

    >>> import numpy as np, wholestep as ws
    >>> sorted(set(ws.nn.dropout(np.ones(100), 0.5, ws.random.key(0)).tolist()))
    [0.0, 2.0]
    """
    a = wnp.asarray(x)
    return dropped("dropout", a, p, key, a.shape)


def channel_dropout(x: Any, p: float, key: Any) -> NDArray:
    """Dropout of whole channels: all of x[i, j] is kept or 0 together, the latter with probability p.

    `key` is as in `dropout`.

    Shapes: x floats [n, channels, ...]; the same.
    Raises: as `dropout` does.
    Source: Tompson et al., "Efficient object localization using convolutional networks", 2015.

    >>> import numpy as np, wholestep as ws
    >>> y = ws.nn.channel_dropout(np.ones((2, 8, 3)), 0.5, ws.random.key(0))
    >>> bool((y == y[:, :, :1]).all()), len(set(y[:, :, 0].flatten().tolist()))
    (True, 2)
    """
    a = wnp.asarray(x)
    return dropped("channel_dropout", a, p, key, (*a.shape[:2], *[1] * (a.ndim - 2)))


def alpha_dropout(x: Any, p: float, key: Any) -> NDArray:
    """Dropout for networks of `selu`: dropped elements take the limit of selu at -inf; mean and variance are kept.

    With mean 0 and variance 1 of x, each element is replaced by -scale * alpha of `selu` with probability `p`, and the
    result is mapped affinely back to mean 0 and variance 1. p = 1 gives zeros. `key` is as in `dropout`.

    Shapes: x floats of any shape; the same.
    Raises: as `dropout` does.
    Source: Klambauer et al., "Self-normalizing neural networks", 2017.

    >>> import numpy as np, wholestep as ws
    >>> y = ws.nn.alpha_dropout(ws.random.normal(ws.random.key(1), (10_000,)), 0.3, ws.random.key(0))
    >>> bool(abs(y.mean()) < 0.05), bool(abs(y.std() - 1) < 0.05)
    (True, True)
    """
    a = wnp.asarray(x)
    chance = probability("alpha_dropout", p)
    if chance == 0:
        return x
    if chance == 1:
        return wnp.zeros_like(a)
    floor = -SELU_SCALE * SELU_ALPHA
    scale = ((1 - chance) * (1 + chance * floor * floor)) ** -0.5
    kept = uniform(key_needed("alpha_dropout", key), a.shape, np.float32) >= np.float32(chance)
    return in_single(lambda v: scale * (wnp.where(kept, v, floor) - chance * floor), a)


def probability(name: str, p: Any) -> float:
    """A probability as a float; raises DtypeError for a p that is not a number, ParameterError outside [0, 1]."""
    if isinstance(p, bool) or not isinstance(p, int | float | np.integer | np.floating):
        raise DtypeError(f"{name}: p is {type_in_words(p)}, not a number")
    if not 0 <= p <= 1:
        raise ParameterError(f"{name}: p is {p}; it must be in [0, 1]")
    return float(p)


def dropped(name: str, x: Any, p: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Dropout where elements of `shape` are drawn and broadcast to x."""
    chance = probability(name, p)
    if chance == 0:
        return x
    if chance == 1:
        return wnp.zeros_like(x)
    kept = uniform(key_needed(name, key), shape, np.float32) >= np.float32(chance)
    return wnp.where(kept, in_single(lambda v: v * (1 / (1 - chance)), x), 0)


class Dropout(Module):
    """`dropout` with probability `p` in training, given a key, and nothing in evaluation.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for p outside [0, 1], and in training for a missing key, unless p is 0.
    Source: as `dropout`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Dropout(0.5)
    >>> layer(np.ones(3), key=0).shape, layer.eval()(np.ones(3)).tolist()
    ((3,), [1.0, 1.0, 1.0])
    """

    function: ClassVar[Callable[..., Any]] = staticmethod(dropout)

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(type(self).__name__, p)

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        return type(self).function(x, self.p, key) if self.training else x


class ChannelDropout(Dropout):
    """`channel_dropout` with probability `p` in training, given a key, and nothing in evaluation.

    Shapes: x floats [n, channels, ...]; the same.
    Raises: as `Dropout` does.
    Source: as `channel_dropout`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.ChannelDropout(0.5)
    >>> layer(np.ones((2, 3, 4)), key=0).shape, float(layer.eval()(np.ones((1, 1, 2))).sum())
    ((2, 3, 4), 2.0)
    """

    function = staticmethod(channel_dropout)


class AlphaDropout(Dropout):
    """`alpha_dropout` with probability `p` in training, given a key, and nothing in evaluation.

    Shapes: x floats of any shape; the same.
    Raises: as `Dropout` does.
    Source: as `alpha_dropout`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.AlphaDropout(0.5)
    >>> layer(np.ones(4), key=0).shape, layer.eval()(np.ones(2)).tolist()
    ((4,), [1.0, 1.0])
    """

    function = staticmethod(alpha_dropout)
