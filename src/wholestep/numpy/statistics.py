"""NumPy's statistics: averages, covariances, counts and the aliases of the extrema."""

from __future__ import annotations

import math
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, bound, covers
from wholestep.frontend.promotion import checked, lift
from wholestep.numpy import reductions
from wholestep.numpy.conditions import where_holds
from wholestep.numpy.movement import (
    broadcast_to,
    concatenate,
    moveaxis,
    normalized_axes,
    reshape,
    traced_array,
    transpose,
)
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.selection import is_unknown, known_of
from wholestep.primitives import reduction as re

amax = bound(np.amax, reductions.TIES, reductions.extremum, "max", re.max_, np.maximum, -math.inf, casting="unsafe")
amin = bound(np.amin, reductions.TIES, reductions.extremum, "min", re.min_, np.minimum, math.inf, casting="unsafe")


@binds(np.ptp, casting="unsafe")
def ptp(a: Any, **options: Any) -> Any:
    """numpy.ptp."""
    x = lift(a)
    return reductions.max(x, **options) - reductions.min(x, **options)


@covers(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = NO_VALUE) -> Any:
    """numpy.average."""
    x = traced_array(a)
    axes = normalized_axes("average", axis, x.ndim)
    if weights is None:
        made = reductions.mean(x, axis, keepdims=keepdims)
        scale: Any = lift(made.dtype.type(math.prod([x.shape[i] for i in axes])))
    else:
        w = broadcast_weights("average", x, traced_array(weights), axes, axis)
        integral = x.dtype.kind in "biu"
        kind = dtypes.promoted_dtype(x.dtype, w.dtype, *[np.float64] * integral)
        scale = reductions.sum(w, axis=axes, dtype=kind, keepdims=keepdims)
        data = scale.value.data
        if data is not None and np.any(data == 0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        made = reductions.sum(np.multiply(x, w, dtype=kind), axis=axes, keepdims=keepdims) / scale
    if not returned:
        return made
    return made, (scale if scale.shape == made.shape else Array(broadcast_to(scale, made.shape).value))


def broadcast_weights(name: str, x: Array, w: Array, axes: tuple[int, ...], axis: Any) -> Array:
    """Weights that broadcast against x."""
    if w.shape == x.shape:
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if w.shape != tuple([x.shape[i] for i in axes]):
        raise ShapeError(f"{name}: weights {w.type} do not fit axes {axes} of {x.type}")
    ordered = transpose(w, tuple(np.argsort(axes).tolist()))
    return reshape(ordered, tuple([n if i in axes else 1 for i, n in enumerate(x.shape)]))


@covers(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """numpy.cov."""
    if ddof is not None and ddof != int(ddof):
        raise ParameterError(f"cov: ddof={ddof!r} is no integer")
    x = _observations(m, y, rowvar, dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    w: Any = None
    if fweights is not None:
        w = _one_weight_each("fweights", fweights, x)
    if aweights is not None:
        more = _one_weight_each("aweights", aweights, x)
        w = more if w is None else w * more
    count = x.shape[1] if w is None else np.sum(w)
    if w is None:
        middle, factor = np.mean(x, axis=1), count - ddof
    else:
        middle = np.sum(x * w, axis=1) / count
        factor = count - ddof
        if ddof != 0 and aweights is not None:
            factor = count - ddof * np.sum(w * aweights) / count
    factor = lift(factor) if isinstance(factor, Dim) else factor
    off = x - lift(middle)[:, None]
    right = off.T if w is None else (off * w).T
    made = lift(np.matmul(off, np.conjugate(right)))
    scaled = made / np.maximum(factor, 0) if isinstance(factor, Array) else made * np.true_divide(1, max(factor, 0))
    made = lift(scaled).astype(made.dtype, copy=False)
    return reshape(made, tuple([n for n in made.shape if n != 1]))


def _observations(m: Any, y: Any, rowvar: bool, dtype: Any) -> Array:
    """One variable in each row."""
    x = traced_array(m)
    if x.ndim > 2 or (y is not None and traced_array(y).ndim > 2):
        raise ShapeError("cov: more than two dimensions")
    kinds = [x.dtype, np.dtype(np.float64)] if y is None else [x.dtype, traced_array(y).dtype, np.dtype(np.float64)]
    wanted = dtypes.promoted_dtype(*kinds) if dtype is None else checked(dtype)
    if not dtypes.is_inexact(wanted):
        raise DtypeError(f"cov: a covariance is no integer, and dtype= asks for {dtypes.short(wanted)}")

    def rows(a: Array) -> Array:
        a = Array(a.astype(wanted).value)
        wide = a if a.ndim == 2 else reshape(a, (1, -1))
        return transpose(wide) if not rowvar and wide.shape[0] != 1 else wide

    return rows(x) if y is None else concatenate([rows(x), rows(traced_array(y))], 0)


def _one_weight_each(name: str, weights: Any, x: Array) -> Any:
    w = lift(weights).astype(np.float64)
    if w.shape != (x.shape[1],):
        raise ShapeError(f"cov: {name}= of shape {w.shape} for {x.shape[1]} observations", hint="give one for each")
    return w


@covers(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """numpy.corrcoef."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    size = np.sqrt(np.diagonal(c).real)
    c = c / lift(size)[:, None] / lift(size)[None, :]
    if dtypes.is_complex(c.dtype):
        return np.clip(c.real, -1, 1) + 1j * np.clip(c.imag, -1, 1)
    return np.clip(c, -1, 1)


@covers(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Array:
    """numpy.bincount; minlength is the length where the numbers are not known, and numbers beyond it are an error."""
    size, places = _counted(x, minlength)
    if weights is None:
        made = Array(lift(np.zeros(size, np.int64)).value)
        np.add.at(made, places, 1)
        return made
    w = traced_array(weights)
    if w.shape != places.shape:
        raise ValueError("The weights and list don't have the same length.")
    if dtypes.is_complex(w.dtype):
        raise DtypeError(
            f"bincount: weights of {w.type} would lose their imaginary parts", hint="count w.real and w.imag apart"
        )
    made = Array(lift(np.zeros(size)).value)
    np.add.at(made, places, w.astype(np.float64))
    return made


def _counted(x: Any, minlength: Any) -> tuple[int, Any]:
    """The length of the result of `bincount`, and the places in it."""
    unknown = minlength > 0 and is_unknown(x)
    places = lift(x) if unknown else known_of("bincount", x)
    if places.ndim != 1:
        raise ValueError("object too deep for desired array")
    if places.size and not np.can_cast(places.dtype, np.int64, "safe"):
        raise DtypeError("bincount: the numbers must be integers")
    if unknown:
        said = f"bincount: there are numbers outside [0, {minlength})\nminlength= is the length of the result"
        return minlength, where_holds(places, (places >= 0) & (places < minlength), said).astype(np.int64)
    if places.size and places.min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    return max(int(places.max()) + 1 if places.size else 0, minlength), places.astype(np.int64)


def moved_last(x: Array, axes: tuple[int, ...]) -> Array:
    """These axes merged into one last axis."""
    kept = [i for i in range(x.ndim) if i not in axes]
    if len(axes) == 1:
        return moveaxis(x, axes[0], -1)
    size = math.prod([x.shape[i] for i in axes])
    return reshape(transpose(x, (*kept, *axes)), (*[x.shape[i] for i in kept], size))
