"""numpy.linalg: norms of vectors and matrices, each with derivative 0 where it is zero, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import ShapeError
from wholestep.frontend.dispatch import covers
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift, wrap
from wholestep.numpy.linalg.factors import check_matrix, inv, largest, slogdet, svdvals
from wholestep.numpy.movement import normalized_axes
from wholestep.numpy.reductions import real_root


def sum_of_squares(a: Any, axes: tuple[int, ...]) -> Any:
    """The sum of |a|**2 over axes."""
    return np.sum(a.real**2 + a.imag**2 if dtypes.is_complex(a.dtype) else a * a, axis=axes)


def vector(a: Any, ord: Any, axis: int) -> Any:
    """The norm of the vectors along an axis."""
    if ord is None or ord == 2:
        return real_root(sum_of_squares(a, (axis,)))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == math.inf:
        return largest(np.abs(a), axis)
    if ord == -math.inf:
        return np.min(np.abs(a), axis=axis)
    if ord == 0:
        return np.sum((a != 0).astype(dtypes.real_of(a.dtype)), axis=axis)
    size = np.abs(a)
    if ord == 1:
        return np.sum(size, axis=axis)
    # A zero has no finite negative power: it makes the norm 0, and no derivative passes it.
    nothing = size == 0 if ord > 0 else np.isinf(stop_gradient(size) ** ord)
    total = np.sum(np.where(nothing, 0, np.where(nothing, 1, size) ** ord), axis=axis)
    empty = total == 0
    made = np.where(empty, 0 if ord > 0 else math.inf, np.where(empty, 1, total) ** (1 / ord))
    if ord < 0:
        made = np.where(np.any(nothing, axis=axis) & ~np.isnan(total), 0, made)
    return made.astype(total.dtype)


def matrix_norms(a: Any, ord: Any, rows: int, columns: int) -> Any:
    """The norm of the matrices that two axes span."""
    if ord in (None, "fro", "f"):
        return real_root(sum_of_squares(a, (rows, columns)))
    if ord in (2, -2, "nuc"):
        s = svdvals(np.moveaxis(a, (rows, columns), (-2, -1)))
        return np.sum(s, axis=-1) if ord == "nuc" else largest(s, -1) if ord == 2 else np.min(s, axis=-1)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError("Invalid norm order for matrices.")
    along, across = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = np.sum(np.abs(a), axis=along, keepdims=True)
    return np.squeeze((largest if ord > 0 else np.min)(sums, axis=across, keepdims=True), axis=(rows, columns))


@covers(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """numpy.linalg.norm, all orders; its derivative at zero is 0."""
    a: Any = inexact_array(x)
    if axis is None and (ord is None or (ord in ("f", "fro") and a.ndim == 2) or (ord == 2 and a.ndim == 1)):
        made = real_root(sum_of_squares(a, tuple(range(a.ndim))))
        return made.reshape((1,) * a.ndim) if keepdims else made
    axes = normalized_axes("norm", axis, a.ndim)
    if len(axes) == 1:
        made = vector(a, ord, axes[0])
    elif len(axes) == 2:
        made = matrix_norms(a, ord, *axes)
    else:
        raise ShapeError(f"norm: takes one axis or two, not {len(axes)} axes of {a.type}", hint="give axis=")
    return np.expand_dims(made, axes) if keepdims else wrap(lift(made).value)


@covers(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """numpy.linalg.vector_norm."""
    a: Any = inexact_array(x)
    axes = normalized_axes("vector_norm", axis, a.ndim)
    order = [i for i in range(a.ndim) if i not in axes]
    flat = np.transpose(a, (*axes, *order)).reshape((-1, *[a.shape[i] for i in order]))
    made = vector(flat, ord, 0)
    if keepdims:
        return made.reshape([1 if i in axes else n for i, n in enumerate(a.shape)])
    return wrap(lift(made).value)


@covers(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """numpy.linalg.matrix_norm."""
    return norm(x, ord, (-2, -1), keepdims)


@covers(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """numpy.linalg.cond."""
    a: Any = wrap(check_matrix("cond", x))
    if 0 in a.shape[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        s = svdvals(a)
        made = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        singular = (slogdet(stop_gradient(a))[0] == 0)[..., None, None]
        regular = np.where(singular, np.eye(int(a.shape[-1]), dtype=a.dtype), a)
        size = norm(regular, p, (-2, -1)) * norm(inv(regular), p, (-2, -1))
        made = np.where(singular[..., 0, 0], math.nan, size)
    unknown = np.isnan(made) & ~np.any(np.isnan(a), axis=(-2, -1))
    return wrap(lift(np.where(unknown, math.inf, made)).value)
