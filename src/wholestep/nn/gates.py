"""Gates: activations that multiply one half of an axis by a function of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import gelu, sigmoid, silu, tanh


def gated(name: str, x: Any, axis: int, made: Callable[[Any, Any], Any]) -> Any:
    """A function of the two halves of an axis; raises ShapeError where the axis has no halves."""
    a = wnp.asarray(x)
    if not -a.ndim <= axis < a.ndim or a.shape[axis] % 2:
        raise ShapeError(f"{name}: axis {axis} of shape {a.shape} has no two halves")
    return made(*wnp.split(a, 2, axis=axis))


def glu(x: Any, axis: int = -1) -> NDArray:
    """The first half of an axis times the sigmoid of the second.

    Shapes: x floats [..., 2 n, ...]; [..., n, ...].
    Raises: ShapeError for an axis of odd size, or that is not there.
    Source: Dauphin, Fan, Auli and Grangier, "Language modeling with gated convolutional networks", 2017.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.glu(np.array([4.0, 0.0])).tolist()
    [2.0]
    """
    return gated("glu", x, axis, lambda a, b: a * sigmoid(b))


def geglu(x: Any, axis: int = -1) -> NDArray:
    """The first half of an axis times the gelu of the second.

    Shapes: x floats [..., 2 n, ...]; [..., n, ...].
    Raises: as `glu` does.
    Source: Shazeer, "GLU variants improve transformer", 2020.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.geglu(np.array([2.0, 1.0])).round(4).tolist()
    [1.6827]
    """
    return gated("geglu", x, axis, lambda a, b: a * gelu(b))


def swiglu(x: Any, axis: int = -1) -> NDArray:
    """The first half of an axis times the silu of the second.

    Shapes: x floats [..., 2 n, ...]; [..., n, ...].
    Raises: as `glu` does.
    Source: Shazeer, "GLU variants improve transformer", 2020.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.swiglu(np.array([2.0, 1.0])).round(4).tolist()
    [1.4621]
    """
    return gated("swiglu", x, axis, lambda a, b: a * silu(b))


def gated_act(x: Any, axis: int = -1) -> NDArray:
    """The tanh of the first half of an axis times the sigmoid of the second.

    Shapes: x floats [..., 2 n, ...]; [..., n, ...].
    Raises: as `glu` does.
    Source: van den Oord et al., "WaveNet: a generative model for raw audio", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.gated_act(np.array([1.0, 0.0])).round(4).tolist()
    [0.3808]
    """
    return gated("gated_act", x, axis, lambda a, b: tanh(a) * sigmoid(b))
