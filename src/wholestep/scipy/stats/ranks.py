"""scipy.stats: ranks of samples, and correlations of values and of ranks with their p-values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import scipy.stats

from wholestep import dtypes
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import binds
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import dtype_outside, np
from wholestep.scipy.stats.continuous import beta, t
from wholestep.scipy.stats.descriptive import real_floats

outside: Any = scipy.stats

RANKS = ("average", "min", "max", "dense", "ordinal")


class CorrelationResult(NamedTuple):
    """A correlation and its p-value, by the names that SciPy's results have."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic by its older name."""
        return self.statistic

    def confidence_interval(self, confidence_level: Any = 0.95, method: Any = None) -> Any:
        """Raise UnsupportedError: only SciPy's own result, of plain arrays, has an interval."""
        raise UnsupportedError(
            "confidence_interval: not covered for traced arrays", hint="call scipy.stats on plain arrays for it"
        )


@binds(
    outside.rankdata,
    "without a derivative; in the dtype of the installed SciPy, by whose integer ranks a slice with NaN has ranks of 0",
)
def rankdata(a: Any, method: Any = "average", axis: Any = None, nan_policy: Any = "propagate") -> Any:
    if method not in RANKS:
        raise ParameterError(f"rankdata: method is {method!r}; it is one of {', '.join(map(repr, RANKS))}")
    if nan_policy != "propagate":
        raise UnsupportedError(f"rankdata: nan_policy={nan_policy!r} is not covered for traced arrays")
    x = stop_gradient(lift(a))
    if dtypes.is_complex(x.dtype):
        raise UnsupportedError(f"rankdata: complex numbers are not covered, and this is {x.type}")
    x = x.reshape(-1) if axis is None else x
    rows = np.moveaxis(x, -1 if axis is None else axis, -1)
    dtype = dtype_outside(outside.rankdata, rows.dtype, method=method)
    ranks = ranks_of_rows(rows, method).astype(dtype)
    if dtypes.is_inexact(rows.dtype):
        missing = np.isnan(rows).any(axis=-1, keepdims=True)
        ranks = np.where(missing, 0 if dtypes.is_integer(dtype) else math.nan, ranks).astype(dtype)
    return np.moveaxis(ranks, -1, -1 if axis is None else axis)


class ModeResult(NamedTuple):
    """The most frequent values and how often they occur, by the names that SciPy's results have."""

    mode: Any
    count: Any


@binds(
    outside.mode,
    "the smallest of the most frequent values, differentiable; with `nan_policy='propagate'` alone, by which NaN is a "
    "value like others",
)
def mode(a: Any, axis: Any = 0, nan_policy: Any = "propagate", keepdims: Any = False) -> Any:
    if nan_policy != "propagate":
        raise UnsupportedError(f"mode: nan_policy={nan_policy!r} is not covered for traced arrays")
    x = lift(a)
    if dtypes.is_complex(x.dtype):
        raise UnsupportedError(f"mode: complex numbers are not covered, and this is {x.type}")
    if x.ndim == 0 or axis is None:
        x, axis = x.reshape(-1), None if x.ndim == 0 else axis
    rows = np.sort(np.moveaxis(x, -1 if axis is None else axis, -1), axis=-1)
    n = rows.shape[-1]
    if n == 0:
        raise ShapeError(f"mode: {x.type} has no elements along the axis")
    places = np.arange(n)
    other = rows[..., 1:] != rows[..., :-1]
    if dtypes.is_inexact(rows.dtype):
        other = other & ~np.isnan(rows[..., :-1])  # a NaN is as good as the next one
    begins = np.concatenate([np.ones((*rows.shape[:-1], 1), bool), other], axis=-1)
    run = places - np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.argmax(run, axis=-1)[..., None]  # the end of the longest run, and of the first one where several are
    value, count = np.take_along_axis(rows, last, axis=-1), np.take_along_axis(run, last, axis=-1) + 1
    made = [value, count.astype(np.int64)]
    if keepdims:
        shape = (1,) * lift(a).ndim if axis is None else None
        made = [y.reshape(shape) if shape else np.moveaxis(y, -1, axis) for y in made]
    else:
        made = [y[..., 0][()] for y in made]
    return ModeResult(*made)


def ranks_of_rows(rows: Any, method: str) -> Any:
    """The ranks along the last axis."""
    n = rows.shape[-1]
    if n == 0:
        return rows
    order = np.argsort(rows, axis=-1, stable=True)
    back = np.argsort(order, axis=-1, stable=True)
    if method == "ordinal":
        return back + 1
    ordered = np.take_along_axis(rows, order, axis=-1)
    other = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*rows.shape[:-1], 1), bool)
    begins, ends = np.concatenate([edge, other], axis=-1), np.concatenate([other, edge], axis=-1)
    places = np.arange(1, n + 1)
    # The place of the first of equal elements is the largest start so far, and that of the last the least end to come.
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.flip(np.minimum.accumulate(np.flip(np.where(ends, places, n), -1), axis=-1), -1)
    made = {"min": first, "max": last, "average": (first + last) / 2, "dense": np.cumsum(begins, axis=-1)}[method]
    return np.take_along_axis(made, back, axis=-1)


def check_alternative(name: str, alternative: Any) -> None:
    """Raise ParameterError for an unknown `alternative`."""
    if alternative not in ("two-sided", "less", "greater"):
        raise ParameterError(f"{name}: alternative is {alternative!r}; it is 'two-sided', 'less' or 'greater'")


def pvalue_of(statistic: Any, law: Any, parameters: dict[str, Any], alternative: str) -> Any:
    """The p-value of a statistic whose law is symmetric about 0 where there is no correlation."""
    if alternative == "less":
        return law.cdf(statistic, **parameters)
    both = alternative == "two-sided"
    return law.sf(abs(statistic) if both else statistic, **parameters) * (2 if both else 1)


@binds(
    outside.pearsonr,
    "a named tuple of statistic and p-value; the p-value by the distribution (`method=None`) in double precision; "
    "constant samples give NaN without a warning",
)
def pearsonr(x: Any, y: Any, alternative: Any = "two-sided", method: Any = None, axis: Any = 0) -> CorrelationResult:
    check_alternative("pearsonr", alternative)
    if method is not None:
        raise UnsupportedError("pearsonr: method= is not covered for traced arrays", hint="leave it out")
    a, b = real_floats("pearsonr", x), real_floats("pearsonr", y)
    dtype = dtypes.promoted_dtype(a.dtype, b.dtype)
    a, b = a.astype(dtype), b.astype(dtype)
    if axis is None:
        a, b, axis = a.reshape(-1), b.reshape(-1), -1
    ndim = max(a.ndim, b.ndim)
    a, b = [np.moveaxis(v.reshape((*(1,) * (ndim - v.ndim), *v.shape)), axis, -1) for v in (a, b)]
    n = a.shape[-1]
    if n != b.shape[-1] or n < 2:
        raise ShapeError(f"pearsonr: samples of {n} and {b.shape[-1]} elements; they are equal, and 2 or more")
    r = np.clip(np.sum(direction_of(a) * direction_of(b), axis=-1), -1.0, 1.0)
    if n == 2:
        r = np.round(r)
        return CorrelationResult(r[()], np.where(np.isnan(r), math.nan, 1.0).astype(dtype)[()])
    half = {"a": n / 2 - 1, "b": n / 2 - 1, "loc": -1.0, "scale": 2.0}
    return CorrelationResult(r[()], pvalue_of(r, beta, half, alternative).astype(dtype)[()])


def direction_of(rows: Any) -> Any:
    """Deviations of rows from their means over their norms; NaN for constant rows."""
    constant = np.all(rows == rows[..., :1], axis=-1, keepdims=True)
    off = rows - np.mean(rows, axis=-1, keepdims=True)
    most = stop_gradient(np.max(abs(off), axis=-1, keepdims=True))
    scaled = off / np.where(constant, 1, most)
    norm = np.sqrt(np.where(constant, 1, np.sum(scaled * scaled, axis=-1, keepdims=True)))
    return np.where(constant, math.nan, scaled / norm)


@binds(
    outside.spearmanr,
    "a named tuple of statistic and p-value, without a derivative; constant variables give NaN without a warning",
)
def spearmanr(
    a: Any, b: Any = None, axis: Any = 0, nan_policy: Any = "propagate", alternative: Any = "two-sided"
) -> CorrelationResult:
    check_alternative("spearmanr", alternative)
    variables = [rows_of_variables(v, axis, nan_policy) for v in ((a,) if b is None else (a, b))]
    rows = variables[0] if b is None else np.concatenate(variables)
    many, n = rows.shape
    if many < 2:
        raise ShapeError("spearmanr: one variable; two at least are compared", hint="give b, or an array of two axes")
    if n < 2:
        return CorrelationResult(np.full((), math.nan), np.full((), math.nan))
    ranks = rankdata(rows, axis=-1)
    constant = np.all(ranks == ranks[:, :1], axis=-1)
    rs = np.corrcoef(np.where(constant[:, None], math.nan, ranks))
    freedom = n - 2
    with np.errstate(divide="ignore"):
        statistic = rs * np.sqrt(np.maximum(freedom / ((rs + 1.0) * (1.0 - rs)), 0))
    p = pvalue_of(statistic, t, {"df": float(freedom)}, alternative)
    return CorrelationResult(rs[1, 0], p[1, 0]) if many == 2 else CorrelationResult(rs, p)


def rows_of_variables(a: Any, axis: Any, nan_policy: Any) -> Any:
    """Variables as rows of float64, which lie along the other axis."""
    x = real_floats("spearmanr", a, nan_policy)
    x = x.reshape(-1) if axis is None else x
    if x.ndim > 2 or axis not in (None, 0, 1, -1):
        raise ShapeError(f"spearmanr: takes arrays of one or two axes, and axis 0, 1 or None, not {x.type} and {axis}")
    if x.ndim == 1:
        return x[None, :]
    return x.T if axis == 0 else x
