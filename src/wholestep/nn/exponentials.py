"""Softmax, its logarithm and its relatives along one axis, numerically stable for large scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import DtypeError
from wholestep.frontend.custom import composite
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray


def in_single(f: Callable[[Any], Any], x: Any) -> Any:
    """f at an array; half precisions are computed in float32 and rounded once."""
    a = wnp.asarray(x)
    wide = dtypes.compute_dtype(a.dtype)
    return f(a) if wide == a.dtype else f(a.astype(wide)).astype(a.dtype)


def pointwise(f: Callable[[Any], Any], slope: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """The elementwise f with its derivative `slope`: the backward pass needs only the operand."""
    made = composite(f, name=name, narrow=True)
    made.defvjp(lambda args, y, g: (g * slope(args[0]),))
    return made


def with_softmax_pullback(f: Callable[[Any], Any], axis: int, name: str = "softmax") -> Callable[[Any], Any]:
    """The softmax f with a pullback that needs only its result."""
    made = composite(f, name=name, narrow=True)
    made.defvjp(lambda args, y, g: (y * (g - wnp.sum(g * y, axis=axis, keepdims=True)),))
    return made


def softmax(x: Any, axis: int = -1) -> NDArray:
    """Exponentials along an axis, divided by their sum.

    A slice that is -inf throughout gives nan: attention has a softmax of its own for that.

    Shapes: x floats of any shape; the same.
    Raises: AxisError for an axis that is not there, ValueError for one without elements.
    Source: Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions", 2021.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.softmax(np.log([1.0, 3.0])).round(6).tolist()
    [0.25, 0.75]
    """

    def of(a: Any) -> Any:
        powers = wnp.exp(a - stop_gradient(wnp.max(a, axis=axis, keepdims=True)))
        return powers / wnp.sum(powers, axis=axis, keepdims=True)

    return in_single(with_softmax_pullback(of, axis), x)


def log_softmax(x: Any, axis: int = -1) -> NDArray:
    """The logarithm of the softmax along an axis, exact also where the softmax rounds to 0.

    Shapes: x floats of any shape; the same.
    Raises: as `softmax` does.
    Source: as `softmax`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.log_softmax(np.array([0.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """

    def of(a: Any) -> Any:
        off = a - finite_maximum(a, axis)
        return off - wnp.log(wnp.sum(wnp.exp(off), axis=axis, keepdims=True))

    return in_single(of, x)


def logsumexp(x: Any, axis: int | tuple[int, ...] = -1, *, keepdims: bool = False) -> NDArray:
    """The logarithm of the sum of the exponentials along one axis or several, without overflow.

    A slice that is -inf throughout gives -inf, with a gradient of zero.

    Shapes: x floats of any shape; without the axes, or with `keepdims` of size 1 along them.
    Raises: as `softmax` does.
    Source: as `softmax`.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.logsumexp(np.array([1000.0, 1000.0])).round(3))
    1000.693
    """

    def of(a: Any) -> Any:
        shift = finite_maximum(a, axis)
        total = wnp.sum(wnp.exp(a - shift), axis=axis, keepdims=True)
        nothing = total == 0  # the logarithm has no derivative at 0
        made = wnp.where(nothing, -math.inf, wnp.log(wnp.where(nothing, 1, total)) + shift)
        return made if keepdims else wnp.squeeze(made, axis=axis)

    return in_single(of, x)


def logmeanexp(x: Any, axis: int | tuple[int, ...] = -1, *, keepdims: bool = False) -> NDArray:
    """The logarithm of the mean of the exponentials along one axis or several, without overflow.

    Shapes: as `logsumexp`.
    Raises: as `softmax` does.
    Source: as `softmax`.

    >>> import numpy as np, wholestep as ws
    >>> float(ws.nn.logmeanexp(np.array([1000.0, 1000.0])))
    1000.0
    """

    def of(a: Any) -> Any:
        total = logsumexp(a, axis, keepdims=keepdims)
        return total - math.log(a.size / total.size) if total.size else total

    return in_single(of, x)


def finite_maximum(a: Any, axis: Any) -> Any:
    """The largest element along an axis, a constant to subtract before exponentials; 0 where it is not finite."""
    largest = stop_gradient(wnp.max(a, axis=axis, keepdims=True))
    return wnp.where(wnp.isfinite(largest), largest, 0)


def one_hot(ids: Any, classes: int, dtype: Any = "float32") -> NDArray:
    """A 1 at the place of each id along a new last axis, and 0 elsewhere.

    Negative ids count from the end, as an index does.

    Shapes: ids [...] of any integer dtype; [..., classes] of `dtype`.
    Raises: DtypeError for ids that are not integer, IndexError for one outside the classes.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.one_hot(np.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = integer_index("one_hot", ids)
    line = wnp.arange(classes)
    return wnp.where(wnp.take(line, places)[..., None] == line, 1, 0).astype(dtypes.check(dtype))


def integer_index(name: str, ids: Any) -> Any:
    """An array of integers, to be used as an index; raises DtypeError for any other."""
    found = wnp.asarray(ids)
    if not dtypes.is_integer(found.dtype):
        raise DtypeError(f"{name}: ids are of dtype {found.dtype}, not integer", hint="convert them with .astype(int)")
    return found


def safe_log(x: Any) -> NDArray:
    """The logarithm, with x below the smallest normal number of its dtype counted as that number, derivative 0.

    Shapes: x floats or complex numbers of any shape; the same.
    Raises: ValueError for integers.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.safe_log(np.array([0.0, 1.0])).round(1).tolist(), float(ws.grad(ws.nn.safe_log)(0.0))
    ([-708.4, 0.0], 0.0)
    """

    def of(a: Any) -> Any:
        least = float(np.finfo(a.dtype).smallest_normal)
        small = a <= least
        return wnp.where(small, math.log(least), wnp.log(wnp.where(small, 1, a)))

    return in_single(of, x)


def faded(missed: Any, gamma: Any) -> Any:
    """missed**gamma, the factor of a focal loss, with derivatives of three orders where `missed` rounds to 0.

    Below the cube root of the smallest normal number the power is constant: no loss there is larger than this bound.
    """
    least = float(np.finfo(missed.dtype).smallest_normal) ** (1 / 3)
    return wnp.where(missed > least, missed, least) ** gamma


def safe_sqrt(x: Any) -> NDArray:
    """The square root, 0 with derivative 0 where x is 0 or less; the root itself has an infinite derivative at 0.

    Shapes: x floats or complex numbers of any shape; the same.
    Raises: nothing of its own.

    >>> import wholestep as ws
    >>> float(ws.nn.safe_sqrt(4.0)), float(ws.grad(ws.nn.safe_sqrt)(0.0))
    (2.0, 0.0)
    """
    a = wnp.asarray(x)
    nothing = a <= 0
    return wnp.where(nothing, 0, wnp.sqrt(wnp.where(nothing, 1, a)))
