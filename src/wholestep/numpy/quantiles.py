"""NumPy's medians and quantiles, with and without NaN; derivatives follow the sorted order, and the fraction too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import bound, is_traced
from wholestep.frontend.promotion import lift, wrap
from wholestep.numpy.movement import normalized_axes, reshape, traced_array
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.selection import is_unknown, known_of
from wholestep.numpy.sorting import argsort, sort
from wholestep.numpy.statistics import broadcast_weights, moved_last

Rule = Callable[[Any, Any], Any]


def _hyndman(alpha: float, beta: float) -> Rule:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


CONTINUOUS: dict[str, Rule] = {
    "linear": lambda n, q: (n - 1) * q,
    "interpolated_inverted_cdf": _hyndman(0, 1),
    "hazen": _hyndman(0.5, 0.5),
    "weibull": _hyndman(0, 0),
    "median_unbiased": _hyndman(1 / 3, 1 / 3),
    "normal_unbiased": _hyndman(3 / 8, 3 / 8),
}
"""Method -> the place between sorted elements, as Hyndman and Fan (1996) number them."""


def _closest(n: Any, q: Any) -> Any:
    place = n * q - 1.5
    low = np.floor(place)
    return np.maximum(np.where((place == low) & (low % 2 == 1), low, low + 1), 0)


DISCRETE: dict[str, Rule] = {
    "inverted_cdf": lambda n, q: np.maximum(np.ceil(n * q - 1), 0),
    "closest_observation": _closest,
    "lower": lambda n, q: np.floor((n - 1) * q),
    "higher": lambda n, q: np.ceil((n - 1) * q),
    "nearest": lambda n, q: np.round((n - 1) * q),
}
"""Method -> the one sorted element that is taken."""

METHODS = (*CONTINUOUS, *DISCRETE, "averaged_inverted_cdf", "midpoint")


def _between(method: str, n: Any, q: Any) -> tuple[Any, Any, Any]:
    """(lower place, upper place, share of the upper one), not yet inside the array."""
    if method in CONTINUOUS:
        place = CONTINUOUS[method](n, q)
        low = np.floor(place)
        return low, low + 1, place - low
    if method == "midpoint":
        place = (n - 1) * q
        low = np.floor(place)
        return low, np.ceil(place), np.where(place == low, 0.0, 0.5)
    place = n * q - 1
    low = np.floor(place)
    return low, low + 1, np.where(place == low, 0.5, 1.0)


def _inside(place: Any, n: Any) -> Any:
    return np.clip(place, 0, np.maximum(n - 1, 0)).astype(np.int64)


def of_sorted(s: Array, n: Any, q: Any, method: str, dtype: Any) -> Any:
    """Quantiles of rows sorted along the last axis, of which the first n count; q has one axis more in front."""

    def at(place: Any) -> Any:
        index = _inside(place, n)
        rows = np.broadcast_to(index, (*index.shape[:1], *s.shape[:-1], 1))
        wide = np.broadcast_to(s, (index.shape[0], *s.shape))
        return np.take_along_axis(lift(wide), rows, -1)[..., 0]

    if method in DISCRETE:
        return at(DISCRETE[method](n, q)).astype(dtype)
    low, high, share = _between(method, n, q)
    share = (
        np.where(low < 0, 0.0, np.where(low >= n - 1, 1.0, share)) if method not in ("linear", "midpoint") else share
    )
    first, second = at(low), at(high)
    gap = (second - first).astype(dtype)
    first, second, share = first.astype(dtype), second.astype(dtype), share[..., 0].astype(dtype)
    return np.where(share < 0.5, first + gap * share, second - gap * (1 - share))


def _by_weights(name: str, x: Array, axes: tuple[int, ...], axis: Any, weights: Any) -> tuple[Any, Any]:
    """Sorted rows, and up to each element its share of all weights; of weights that NumPy refuses the share is NaN."""
    w: Any = broadcast_weights(name, x, traced_array(weights), axes, axis)
    w = moved_last(lift(np.broadcast_to(w, x.shape)), axes).astype(np.float64)
    rows = moved_last(x, axes)
    if dtypes.is_inexact(x.dtype) and name.startswith("nan"):
        w = np.where(np.isnan(rows), 0.0, w)
    order = argsort(rows, -1)
    sums = np.cumsum(np.take_along_axis(w, order, -1), axis=-1)
    bad = np.any(~(w >= 0), axis=-1, keepdims=True) | ~np.isfinite(sums[..., -1:])
    if not is_unknown(bad) and np.any(known_of(name, bad)):
        raise ParameterError(f"{name}: weights= are finite, and not negative")
    return np.take_along_axis(rows, order, -1), np.where(bad, np.nan, sums / sums[..., -1:])


def _of_shares(rows: Any, shares: Any, q: Any) -> Any:
    """The first element of each sorted row whose share reaches q and is not nothing; NaN where the shares are."""
    if dtypes.is_float(q.dtype):
        shares = lift(shares).astype(q.dtype)
    place = np.sum((shares == 0) | (shares < q), axis=-1, keepdims=True)
    wide = np.broadcast_to(rows, (place.shape[0], *rows.shape))
    made = np.take_along_axis(lift(wide), _inside(place, rows.shape[-1]), -1)[..., 0]
    if not dtypes.is_inexact(rows.dtype):
        return made
    return np.where(np.isnan(shares[..., -1]), np.nan, made).astype(rows.dtype)


def _checked(name: str, q: Any, scale: float, method: str, weighted: bool) -> Any:
    """q as fractions; raises where it is outside its interval."""
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {METHODS}")
    if weighted and method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    given = lift(q) if is_traced(q) else np.asarray(q)
    if given.ndim > 1:
        raise ShapeError(f"{name}: q must be a scalar or 1-d")
    given = given / scale if scale != 1 else given
    if given.dtype.kind in "iu":
        given = given.astype(np.float64)
    data = given.value.data if isinstance(given, Array) else given
    if data is not None and not np.all((data >= 0) & (data <= 1)):
        raise ValueError(
            "Percentiles must be in the range [0, 100]" if scale != 1 else "Quantiles must be in the range [0, 1]"
        )
    return given


def _result_dtype(x: Array, q: Any, given: Any, method: str) -> Any:
    """Discrete methods keep the dtype; others promote with q, which is weak where it is a Python number."""
    if method in DISCRETE:
        return x.dtype
    if x.dtype.kind in "biu":
        return np.dtype(np.float64)
    return x.dtype if type(given) in (int, float) else dtypes.promoted_dtype(x.dtype, q.dtype)


def _quantiles(
    name: str,
    scale: float,
    skip_nan: bool,
    a: Any,
    q: Any,
    axis: Any = None,
    method: str = "linear",
    keepdims: Any = NO_VALUE,
    weights: Any = None,
) -> Any:
    """The common part of all quantiles."""
    x = traced_array(a)
    if dtypes.is_complex(x.dtype):
        raise DtypeError(f"{name}: a must be an array of real numbers")
    axes = normalized_axes(name, axis, x.ndim)
    fractions = _checked(name, q, scale, method, weights is not None)
    dtype = _result_dtype(x, fractions, q, method)
    weighted = weights is not None
    rows, shares = _by_weights(name, x, axes, axis, weights) if weighted else (sort(moved_last(x, axes), -1), None)
    if rows.shape[-1] == 0:
        raise ShapeError(f"{name}: no element to choose from in {x.type}")
    nan = np.isnan(rows) if dtypes.is_inexact(x.dtype) else None
    count: Any = lift(rows.shape[-1]) if isinstance(rows.shape[-1], Dim) else rows.shape[-1]
    if skip_nan and nan is not None:
        count = np.sum(~nan, axis=-1, keepdims=True)[None]
    wide = fractions.reshape((-1, *[1] * rows.ndim))
    made = lift(_of_shares(rows, shares, wide) if weighted else of_sorted(rows, count, wide, method, dtype))
    if nan is not None:
        spoilt = nan[..., 0] if skip_nan else nan[..., -1]
        made = lift(np.where(spoilt, np.asarray(np.nan, dtype), made))
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)] if _truth(keepdims) else rows.shape[:-1]
    return wrap(reshape(made, (*fractions.shape, *kept)).value)


def _truth(keepdims: Any) -> bool:
    return keepdims is not NO_VALUE and bool(keepdims)


OPTIONS: dict[str, Any] = {"ignored": "overwrite_input", "casting": "unsafe"}
EVERY = "every method; weights have no derivative"
quantile = bound(np.quantile, EVERY, _quantiles, "quantile", 1, False, **OPTIONS)
percentile = bound(np.percentile, EVERY, _quantiles, "percentile", 100, False, **OPTIONS)
nanquantile = bound(np.nanquantile, EVERY, _quantiles, "nanquantile", 1, True, **OPTIONS)
nanpercentile = bound(np.nanpercentile, EVERY, _quantiles, "nanpercentile", 100, True, **OPTIONS)


def _median(name: str, skip_nan: bool, a: Any, axis: Any = None, keepdims: Any = NO_VALUE) -> Any:
    x = traced_array(a)
    axes = normalized_axes(name, axis, x.ndim)
    rows = sort(moved_last(x, axes), -1)
    n = rows.shape[-1]
    nan = np.isnan(rows) if dtypes.is_inexact(x.dtype) else None
    if n == 0:
        made = lift(np.mean(rows, axis=-1))
    elif skip_nan and nan is not None:
        count = np.sum(~nan, axis=-1, keepdims=True)
        low = np.take_along_axis(rows, np.maximum(count - 1, 0) // 2, -1)
        high = np.take_along_axis(rows, np.maximum(count // 2, 0) % n, -1)
        made = lift(_middle(low, high, count % 2 == 1)[..., 0])
    else:
        made = lift(np.mean(rows[..., (n - 1) // 2 : n // 2 + 1], axis=-1))
        if nan is not None:
            made = lift(np.where(nan[..., -1], np.asarray(np.nan, made.dtype), made))
    if _truth(keepdims):
        made = reshape(made, tuple([1 if i in axes else m for i, m in enumerate(x.shape)]))
    return wrap(made.value)


MIDDLE = "of an even number of elements the mean of the middle two"
median = bound(np.median, MIDDLE, _median, "median", False, **OPTIONS)
nanmedian = bound(np.nanmedian, "", _median, "nanmedian", True, **OPTIONS)


def _middle(low: Any, high: Any, odd: Any) -> Any:
    return np.where(odd, low, (low + np.where(odd, low, high)) / 2)
