"""Dense layers: a matrix product and a bias, or a form that is linear in each of two inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.keys import keys_from
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text


def linear(x: Any, w: Any, b: Any = None) -> NDArray:
    """x @ w + b, a matrix product along the last axis.

    Shapes: x [..., in], w [in, out] and b [out]; [..., out] of the dtype that NumPy gives.
    Raises: ShapeError where they do not fit.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.linear(np.array([1.0, 2.0]), np.array([[1.0], [10.0]]), np.array([0.5])).tolist()
    [21.5]
    """
    x, w = wnp.asarray(x), wnp.asarray(w)
    if w.ndim != 2 or x.ndim < 1 or x.shape[-1] != w.shape[0]:
        raise ShapeError(
            f"linear: x is {type_text(x)} and the weight {type_text(w)}",
            hint="the weight is [in, out], and the last axis of x is in",
        )
    if b is None:
        return x @ w
    b = wnp.asarray(b)
    if b.shape != w.shape[1:]:
        raise ShapeError(f"linear: the bias is {type_text(b)}; it must be [{w.shape[1]}]")
    return x @ w + b


class Linear(Module):
    """`linear` with a weight [inputs, outputs] and a bias [outputs] of its own.

    `key` is a seed or a key, or None for that of the path at which the layer stands in a model (see `initialized`), as
    for every layer. Both parameters, of `dtype`, are drawn uniformly within inputs**-0.5, as in PyTorch.
    `bias=False` leaves the bias out.

    Shapes: x [..., inputs]; [..., outputs].
    Raises: ParameterError for sizes that are not positive integers, and as `linear` does.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    undecayed = ("bias",)
    torch_turned = ("weight",)

    _draws = True

    def __init__(
        self, inputs: int, outputs: int, *, key: Any = None, bias: bool = True, dtype: Any = np.float32
    ) -> None:
        sized("Linear", inputs=inputs, outputs=outputs)
        for_weight, for_bias = keys_from(key, 2)
        self.weight = init.kaiming_uniform(for_weight, (inputs, outputs), a=5**0.5, dtype=dtype)
        self.bias = init.symmetric(for_bias, (outputs,), inputs**-0.5, dtype) if bias else None

    def __call__(self, x: Any) -> NDArray:
        return linear(x, self.weight, self.bias)


def bilinear(x: Any, y: Any, w: Any, b: Any = None) -> NDArray:
    """x.T @ w[k] @ y + b[k] for each output k: a form that is linear in each of two inputs.

    Shapes: x [..., first], y [..., second], w [out, first, second] and b [out]; [..., out].
    Raises: ShapeError where they do not fit.
    Source: PyTorch's bilinear.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.bilinear(np.array([1.0, 2.0]), np.array([3.0]), np.array([[[1.0], [10.0]]])).tolist()
    [63.0]
    """
    x, y, w = wnp.asarray(x), wnp.asarray(y), wnp.asarray(w)
    if w.ndim != 3 or 0 in (x.ndim, y.ndim) or (x.shape[-1], y.shape[-1]) != w.shape[1:]:
        raise ShapeError(
            f"bilinear: x is {type_text(x)}, y {type_text(y)} and the weight {type_text(w)}",
            hint="the weight is [out, first, second], and the last axes of x and y are first and second",
        )
    made = wnp.einsum("...i,kij,...j->...k", x, w, y, optimize=True)
    if b is None:
        return made
    b = wnp.asarray(b)
    if b.shape != w.shape[:1]:
        raise ShapeError(f"bilinear: the bias is {type_text(b)}; it must be [{w.shape[0]}]")
    return made + b


class Bilinear(Module):
    """`bilinear` with a weight [outputs, first, second] and a bias [outputs] of its own.

    `key` is a seed or a key; both parameters, of `dtype`, are drawn uniformly within first**-0.5, as in PyTorch.
    `bias=False` leaves the bias out.

    Shapes: x [..., first], y [..., second]; [..., outputs].
    Raises: ParameterError for sizes that are not positive integers, and as `bilinear` does.
    Source: as `bilinear`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Bilinear(3, 2, 4, key=0)
    >>> layer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32)).shape
    (5, 4)
    """

    undecayed = ("bias",)

    _draws = True

    def __init__(
        self, first: int, second: int, outputs: int, *, key: Any = None, bias: bool = True, dtype: Any = np.float32
    ) -> None:
        sized("Bilinear", first=first, second=second, outputs=outputs)
        for_weight, for_bias = keys_from(key, 2)
        bound = first**-0.5
        self.weight = init.symmetric(for_weight, (outputs, first, second), bound, dtype)
        self.bias = init.symmetric(for_bias, (outputs,), bound, dtype) if bias else None

    def __call__(self, x: Any, y: Any) -> NDArray:
        return bilinear(x, y, self.weight, self.bias)


def sized(name: str, **sizes: Any) -> None:
    """Raise ParameterError for a size that is no positive integer."""
    for what, size in sizes.items():
        if not is_integer(size) or size < 1:
            raise ParameterError(f"{name}: {what} is {size!r}; it must be a positive integer")
