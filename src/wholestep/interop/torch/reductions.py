"""Reductions and running reductions of PyTorch over one, several or all axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import cast, inexact, kind_of
from wholestep.nn.exponentials import logsumexp, safe_sqrt
from wholestep.nn.segments import segment_max, segment_min, segment_prod, segment_sum

REDUCTIONS = Handlers()
entry = REDUCTIONS.entry


def over_axes(x: Any, axes: Any) -> Any:
    """Axes as NumPy takes them; all of them for none, and for an empty list."""
    if axes is None or not wnp.ndim(x) or (isinstance(axes, Sequence) and not axes):
        return None
    return tuple(axes) if isinstance(axes, Sequence) else axes


def summed(x: Any, dtype: Any) -> Any:
    """An operand in the dtype of a sum: int64 for integers and booleans where none is asked for."""
    a = wnp.asarray(x)
    return cast(a, dtype or (np.dtype(np.int64) if kind_of(a.dtype) < 2 else a.dtype))


def in_its_dtype(f: Callable[..., Any]) -> Callable[..., Any]:
    """A sum or product in the dtype of its operand, where NumPy makes int64 of shorter integers."""
    return lambda a, **axes: cast(f(a, **axes), a.dtype)


def reduction(f: Callable[..., Any], prepared: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A handler of a reduction over axes, in the dtype that `prepared` gives the operand."""

    def reduced(x: Any, axes: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        a = prepared(x, dtype)
        return f(a, axis=over_axes(a, axes), keepdims=keepdim)

    return reduced


def running_reduction(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of a running sum or product along an axis."""

    def reduced(x: Any, axis: int, dtype: Any = None) -> Any:
        a = summed(x, dtype)
        return in_its_dtype(f)(a, axis=axis) if a.ndim else a

    return reduced


REDUCTIONS.update(
    {
        "sum": reduction(in_its_dtype(wnp.sum), summed),
        "prod": reduction(in_its_dtype(wnp.prod), summed),
        "mean": reduction(wnp.mean, lambda x, dtype: cast(x, dtype) if dtype else x),
        "amax": reduction(wnp.max, lambda x, dtype: x),
        "amin": reduction(wnp.min, lambda x, dtype: x),
        "any": reduction(wnp.any, lambda x, dtype: x),
        "all": reduction(wnp.all, lambda x, dtype: x),
        "nansum": reduction(in_its_dtype(wnp.nansum), summed),
        "max": lambda x: wnp.max(x),
        "min": lambda x: wnp.min(x),
        "logsumexp": lambda x, axes, keepdim=False: (
            logsumexp(inexact(x)[0], axis=tuple(i % x.ndim for i in axes), keepdims=keepdim) if x.ndim else x
        ),
        "cumsum": running_reduction(wnp.cumsum),
        "cumprod": running_reduction(wnp.cumprod),
    }
)


@entry("argmax")
def argmax(x: Any, axis: int | None = None, keepdim: bool = False) -> Any:
    return wnp.argmax(x, axis=over_axes(x, axis), keepdims=keepdim)


@entry("argmin")
def argmin(x: Any, axis: int | None = None, keepdim: bool = False) -> Any:
    return wnp.argmin(x, axis=over_axes(x, axis), keepdims=keepdim)


def at_places(x: Any, index: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at one index for each line along an axis, and the indices."""
    kept = wnp.expand_dims(index, axis)
    values = wnp.take_along_axis(x, kept, axis=axis)
    return (values, kept) if keepdim else (wnp.squeeze(values, axis=axis), index)


@entry("max.dim")
def max_along(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    return at_places(x, wnp.argmax(stop_gradient(x), axis=axis), axis, keepdim) if x.ndim else (x, np.int64(0))


@entry("min.dim")
def min_along(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    return at_places(x, wnp.argmin(stop_gradient(x), axis=axis), axis, keepdim) if x.ndim else (x, np.int64(0))


def running(x: Any, axis: int, better: Any) -> tuple[Any, Any]:
    """The running extreme along an axis, and its indices, the last one of equal elements."""
    if not x.ndim:
        return x, wnp.zeros((), np.int64)
    best = better.accumulate(stop_gradient(x), axis=axis)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    turn = np.arange(x.shape[axis]).reshape(shape)
    found = (
        wnp.where((x == best) | wnp.isnan(x), turn, 0) if dtypes.is_float(x.dtype) else wnp.where(x == best, turn, 0)
    )
    index = np.maximum.accumulate(found, axis=axis)
    return wnp.take_along_axis(x, index, axis=axis), index


@entry("cummax")
def cummax(x: Any, axis: int) -> tuple[Any, Any]:
    return running(x, axis, np.maximum)


@entry("cummin")
def cummin(x: Any, axis: int) -> tuple[Any, Any]:
    return running(x, axis, np.minimum)


@entry("logcumsumexp")
def logcumsumexp(x: Any, axis: int) -> Any:
    return np.logaddexp.accumulate(x, axis=axis) if x.ndim else x


def corrected(x: Any, axes: Any, correction: Any) -> tuple[Any, Any, float]:
    """The mean, the sum of squared differences from it, and the divisor of a variance; axes are kept."""
    axis = over_axes(x, axes)
    mean = wnp.mean(x, axis=axis, keepdims=True)
    off = x - mean
    squares = wnp.sum((off * wnp.conj(off)).real if dtypes.is_complex(x.dtype) else off * off, axis=axis, keepdims=True)
    count = x.size // max(math.prod(mean.shape), 1)
    return mean, squares, max(count - (1 if correction is None else correction), 0)


def without_axes(x: Any, axes: Any, keepdim: bool) -> Any:
    """A reduction whose axes are kept only if that is asked for."""
    return x if keepdim else wnp.squeeze(x, axis=over_axes(x, axes))


@entry("var")
def var(x: Any, axes: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    _, squares, count = corrected(x, axes, correction)
    return without_axes(squares / count if count else squares / np.zeros((), squares.dtype), axes, keepdim)


@entry("std")
def std(x: Any, axes: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    return safe_sqrt(var(x, axes, correction=correction, keepdim=keepdim))


@entry("var_mean")
def var_mean(x: Any, axes: Any = None, *, correction: Any = 1, keepdim: bool = False) -> tuple[Any, Any]:
    return var(x, axes, correction=correction, keepdim=keepdim), wnp.mean(x, axis=over_axes(x, axes), keepdims=keepdim)


@entry("std_mean")
def std_mean(x: Any, axes: Any = None, *, correction: Any = 1, keepdim: bool = False) -> tuple[Any, Any]:
    return std(x, axes, correction=correction, keepdim=keepdim), wnp.mean(x, axis=over_axes(x, axes), keepdims=keepdim)


@entry("histc")
def histc(x: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Counts in bins of one width between two numbers, by default the least and the largest; the last bin has both."""
    flat = wnp.reshape(x, (-1,))
    low, high = (wnp.min(flat), wnp.max(flat)) if min == max else (cast(min, x.dtype), cast(max, x.dtype))
    low, high = wnp.where(low == high, low - 1, low), wnp.where(low == high, high + 1, high)
    place = wnp.minimum(wnp.floor((flat - low) * bins / (high - low)), bins - 1)
    inside = (flat >= low) & (flat <= high)
    return wnp.sum((place[:, None] == np.arange(bins)) & inside[:, None], axis=0).astype(x.dtype)


@entry("linalg_vector_norm")
def vector_norm(x: Any, order: Any = 2, axes: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    a = cast(x, dtype) if dtype else x
    axis = over_axes(a, axes)
    size = wnp.abs(a)
    if order == math.inf:
        return wnp.max(size, axis=axis, keepdims=keepdim)
    if order == -math.inf:
        return wnp.min(size, axis=axis, keepdims=keepdim)
    if order == 0:
        return wnp.sum((size != 0).astype(size.dtype), axis=axis, keepdims=keepdim)
    if order == 1:
        return wnp.sum(size, axis=axis, keepdims=keepdim)
    if order == 2:
        return safe_sqrt(wnp.sum(size * size, axis=axis, keepdims=keepdim))
    return power_from_zero(wnp.sum(power_from_zero(size, order), axis=axis, keepdims=keepdim), 1 / order)


def power_from_zero(x: Any, exponent: float) -> Any:
    """A power of numbers of at least 0, with the derivative 0 where they are 0."""
    nothing = x == 0
    made = wnp.power(wnp.where(nothing, 1, x), cast(exponent, x.dtype))
    return wnp.where(nothing, cast(0 if exponent > 0 else math.inf, x.dtype), made)


@entry("norm")
def norm(x: Any, order: Any = 2, axes: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return vector_norm(x, 2 if order is None else order, axes, keepdim, dtype=dtype)


@entry("dist")
def dist(x: Any, y: Any, order: Any = 2) -> Any:
    return vector_norm(x - y, order)


@entry("count_nonzero")
def count_nonzero(x: Any, axes: Any = None) -> Any:
    return wnp.count_nonzero(x, axis=over_axes(x, axes))


SEGMENTS = {
    "sum": (segment_sum, wnp.add),
    "mean": (segment_sum, wnp.add),
    "max": (segment_max, wnp.maximum),
    "min": (segment_min, wnp.minimum),
    "prod": (segment_prod, wnp.multiply),
}


@entry("segment_reduce")
def segment_reduce(
    x: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """The reduction of each segment of rows, one after the other, together with an initial number."""
    given = offsets if lengths is None else lengths
    if given is None or given.ndim != 1 or axis % x.ndim:
        raise UnsupportedError("segment_reduce: from PyTorch only the first axis, by lengths or offsets, is covered")
    ends = given[1:] if lengths is None else wnp.cumsum(given)
    rows, count = wnp.searchsorted(ends, np.arange(x.shape[0]), side="right"), ends.shape[0]
    f, joined = SEGMENTS[reduce]
    made = f(x, rows, count)
    if initial is not None:
        made = joined(made, cast(initial, x.dtype))
    if reduce == "mean":
        number = segment_sum(wnp.ones_like(x), rows, count)
        made = wnp.where(
            number > 0, made / wnp.maximum(number, 1), cast(math.nan if initial is None else initial, x.dtype)
        )
    return made
