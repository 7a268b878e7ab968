"""Elements in order: the largest or smallest of an axis, and where they are."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.reduction import check_axis


def stable_order(x: Any, axis: int, descending: bool = False) -> Any:
    """The indices that sort an axis, equal elements in their order; nan is larger than all numbers."""
    x = stop_gradient(x)
    if not descending:
        return wnp.argsort(x, axis=axis, kind="stable")
    back = wnp.flip(wnp.argsort(wnp.flip(x, axis=axis), axis=axis, kind="stable"), axis=axis)
    return x.shape[axis] - 1 - back


def top_k(x: Any, k: int, axis: int = -1, *, largest: bool = True) -> tuple[NDArray, NDArray]:
    """The k largest elements along an axis, falling, and their places; with `largest=False` the smallest, rising.

    Of equal elements the first comes first, and nan is larger than anything. Values have the derivative of the elements
    that they are.

    Shapes: x real of any shape with an axis; values of its dtype and places int64, both with k elements along the axis.
    Raises: AxisError for an axis that is not there, ParameterError for a k below 0 or above the axis.
    Source: its definition; the order is that of `jax.lax.top_k`.

    >>> import numpy as np, wholestep as ws
    >>> values, places = ws.nn.top_k(np.array([1.0, 5.0, 2.0, 5.0]), 3)
    >>> values.tolist(), places.tolist()
    ([5.0, 5.0, 2.0], [1, 3, 2])
    """
    a = wnp.asarray(x)
    check_axis("top_k", a, axis)
    n = a.shape[axis]
    if not is_integer(k) or not 0 <= k <= n:
        raise ParameterError(f"top_k: k is {k!r}, and the axis {axis} of {type_of(a)} has {n} elements")
    first = stable_order(a, axis, largest)[(*[slice(None)] * (axis % a.ndim), slice(k))]
    values: Any = wnp.take_along_axis(a, first, axis=axis)
    return values, first
