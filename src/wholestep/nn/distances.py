"""Lengths of vectors and distances between all pairs of them."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.reduction import check_axis, narrow, real_floating


def l2_normalize(x: Any, axis: int = -1, *, eps: float = 1e-12) -> NDArray:
    """x divided by its Euclidean length along an axis, lengths below `eps` counting as `eps`.

    A vector of length 0 stays 0.

    Shapes: x real floats of any shape; the same.
    Raises: AxisError for an axis that is not there, DtypeError for operands other than real floats.
    Source: PyTorch's normalize.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.l2_normalize(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    a = real_floating("l2_normalize", x, "vectors")
    check_axis("l2_normalize", a, axis)
    made = a / wnp.maximum(wnp.linalg.norm(a, axis=axis, keepdims=True), eps)
    return made.astype(narrow(x, made), copy=False)


def pairwise_distances(x: Any, y: Any = None, *, p: float = 2.0) -> NDArray:
    """The p-norm of the difference of each vector of x and each of y, or of x itself.

    Differences are taken before their norm, so that near vectors keep their digits. The derivative at distance 0 is 0.

    Shapes: x real floats [..., n, width] and y [..., m, width] with leading axes that broadcast; [..., n, m].
    Raises: ShapeError for arrays that do not fit, DtypeError for operands other than real floats, ParameterError for a
    p that is not positive.
    Source: PyTorch's cdist.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.pairwise_distances(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    name = "pairwise_distances"
    a = real_floating(name, x, "vectors")
    b = a if y is None else real_floating(name, y, "vectors")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"{name}: vectors are {type_of(a)} and {type_of(b)}", hint="both are [..., count, width], of one width"
        )
    if not p > 0:
        raise ParameterError(f"{name}: p is {p}; it must be positive")
    made = wnp.linalg.norm(a[..., :, None, :] - b[..., None, :, :], ord=p, axis=-1)
    return made.astype(narrow(x, made), copy=False)
