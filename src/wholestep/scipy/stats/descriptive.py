"""scipy.stats: numbers that describe samples along axes: means, moments, spreads and entropies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import scipy.stats

from wholestep import dtypes
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import binds, bound, is_traced
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import dtype_outside, np, special

outside: Any = scipy.stats

PROPAGATED = "with `nan_policy='propagate'` alone"


def real_floats(name: str, a: Any, nan_policy: Any = "propagate") -> Any:
    """A traced array of at least one axis in a floating dtype; raises for complex numbers and other policies of NaN."""
    if nan_policy != "propagate":
        raise UnsupportedError(
            f"{name}: nan_policy={nan_policy!r} is not covered for traced arrays",
            hint="'propagate' is; np.where and np.nanmean leave NaN out",
        )
    x = lift(a)
    if dtypes.is_complex(x.dtype):
        raise UnsupportedError(f"{name}: complex numbers are not covered, and this is {x.type}")
    x = x if dtypes.is_inexact(x.dtype) else x.astype(np.float64)
    return x.reshape(1) if x.ndim == 0 else x


class Samples(NamedTuple):
    """An array whose last axis holds the samples, and the shape that a reduction over it gives."""

    rows: Any
    shape: tuple[Any, ...]

    def reduced(self, made: Any) -> Any:
        """A number for each row, in the shape that was asked for."""
        return made.reshape(self.shape)[()]

    def too_few(self) -> Any:
        """NaN for each row: the result for samples that are too small, as in SciPy."""
        return self.reduced(np.full(self.rows.shape[:-1], math.nan, self.rows.dtype) + 0 * np.sum(self.rows, axis=-1))


def samples(name: str, a: Any, axis: Any, nan_policy: Any, keepdims: Any) -> Samples:
    """The samples that lie along these axes, all of them for None."""
    return samples_of(real_floats(name, a, nan_policy), axis, keepdims)


def samples_of(x: Any, axis: Any, keepdims: Any) -> Samples:
    """The samples of a floating array along these axes, all of them for None."""
    axes = tuple(range(x.ndim)) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    moved = np.moveaxis(x, axes, tuple(range(-len(axes), 0)))
    rows = moved.reshape((*moved.shape[: x.ndim - len(axes)], math.prod([x.shape[i] for i in axes])))
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else rows.shape[:-1]
    return Samples(rows, kept)


@binds(outside.sem, PROPAGATED)
def sem(a: Any, axis: Any = 0, ddof: Any = 1, nan_policy: Any = "propagate", keepdims: Any = False) -> Any:
    own = samples("sem", a, axis, nan_policy, keepdims)
    n = own.rows.shape[-1]
    return own.too_few() if n <= 1 else own.reduced(np.std(own.rows, axis=-1, ddof=ddof) / n**0.5)


@binds(outside.zscore, "constant samples give NaN")
def zscore(a: Any, axis: Any = 0, ddof: Any = 0, nan_policy: Any = "propagate") -> Any:
    x = real_floats("zscore", a, nan_policy).reshape(np.shape(a))
    mean = np.mean(x, axis=axis, keepdims=True)
    std = np.std(x, axis=axis, ddof=ddof, keepdims=True)
    constant = std <= abs(dtypes.limits(x.dtype).eps * mean)
    z = np.where(constant, math.nan, (x - mean) / np.where(constant, 1, std)).astype(x.dtype)
    return z[()]


def central_moment(rows: Any, order: int, center: Any = None) -> Any:
    """The mean of a power of the deviations of rows from their mean, or from a center."""
    known = 1.0 if order == 0 else 0.0 if order == 1 and center is None else None
    if known is not None:
        missing = np.isnan(rows).any(axis=-1)
        return np.where(missing, math.nan, known).astype(rows.dtype)
    off = rows - (np.mean(rows, axis=-1, keepdims=True) if center is None else center)
    return np.mean(off**order, axis=-1)


def near_constant(rows: Any, second: Any) -> Any:
    """True for rows whose variance is nothing but rounding."""
    return second <= (dtypes.limits(rows.dtype).eps * np.mean(rows, axis=-1)) ** 2


@binds(outside.moment, "of orders that are plain integers, about the mean or a number; " + PROPAGATED)
def moment(
    a: Any, order: Any = 1, axis: Any = 0, nan_policy: Any = "propagate", center: Any = None, keepdims: Any = False
) -> Any:
    if is_traced(order):
        raise UnsupportedError("moment: order is traced", hint="give plain integers")
    orders = np.asarray(order)
    if orders.ndim > 1 or not orders.size or (orders != np.round(orders)).any() or (orders < 0).any():
        raise ParameterError(f"moment: order is {order!r}; it is an integer of 0 or more, or several in a list")
    if center is not None and np.ndim(center):
        raise ShapeError(f"moment: center is of shape {np.shape(center)}, not a number")
    own = samples("moment", a, axis, nan_policy, keepdims)
    made = [own.reduced(central_moment(own.rows, int(k), center)) for k in orders.reshape(-1)]
    if not orders.ndim:
        return made[0]
    return np.stack(made).astype(dtype_outside(outside.moment, own.rows.dtype, order=tuple(orders.tolist())))


@binds(outside.skew, PROPAGATED)
def skew(a: Any, axis: Any = 0, bias: Any = True, nan_policy: Any = "propagate", keepdims: Any = False) -> Any:
    own = samples("skew", a, axis, nan_policy, keepdims)
    n = own.rows.shape[-1]
    ratio = standardized(own.rows, 3)
    return own.reduced(ratio if bias or n <= 2 else ratio * (((n - 1.0) * n) ** 0.5 / (n - 2.0)))


def standardized(rows: Any, order: int) -> Any:
    """A central moment over that power of the standard deviation; NaN for constant rows."""
    second = central_moment(rows, 2)
    constant = near_constant(rows, second)
    safe = np.where(constant, 1, second)
    return np.where(constant, math.nan, central_moment(rows, order) / safe ** (order / 2))


@binds(outside.kurtosis, PROPAGATED)
def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: Any = True,
    bias: Any = True,
    nan_policy: Any = "propagate",
    keepdims: Any = False,
) -> Any:
    own = samples("kurtosis", a, axis, nan_policy, keepdims)
    n, ratio = own.rows.shape[-1], standardized(own.rows, 4)
    if not bias and n > 3:
        ratio = 1.0 / (n - 2) / (n - 3) * ((n**2 - 1.0) * ratio - 3 * (n - 1) ** 2.0) + 3.0
    return own.reduced(ratio - 3 if fisher else ratio)


@binds(outside.variation, PROPAGATED)
def variation(a: Any, axis: Any = 0, nan_policy: Any = "propagate", ddof: Any = 0, keepdims: Any = False) -> Any:
    own = samples("variation", a, axis, nan_policy, keepdims)
    n, mean, std = own.rows.shape[-1], np.mean(own.rows, axis=-1), np.std(own.rows, axis=-1)
    if n == ddof:
        return own.reduced(np.where(std > 0, np.copysign(math.inf, mean), math.nan).astype(std.dtype))
    return own.reduced(std * (n / (n - ddof)) ** 0.5 / mean if n > ddof else std * math.nan)


def mean_through(
    name: str,
    there: Callable[[Any], Any],
    back: Callable[[Any], Any],
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    weights: Any = None,
    nan_policy: Any = "propagate",
    keepdims: Any = False,
) -> Any:
    """back(the weighted mean of there(x)): a mean on another scale."""
    x = real_floats(name, a if dtype is None else lift(a).astype(dtype), nan_policy)
    if weights is None:
        own = samples_of(x, axis, keepdims)
        return own.reduced(back(np.mean(there(own.rows), axis=-1)))
    w = real_floats(name, weights if dtype is None else lift(weights).astype(dtype))
    own, share = [samples_of(lift(v), axis, keepdims) for v in np.broadcast_arrays(x, w)]
    total = np.sum(share.rows, axis=-1)
    return own.reduced(back(np.sum(there(own.rows) * share.rows, axis=-1) / total))


def inverse_of_positive(x: Any) -> Any:
    """1 / x; NaN where x is negative."""
    return 1.0 / np.where(x < 0, math.nan, x)


gmean = bound(outside.gmean, PROPAGATED, mean_through, "gmean", np.log, np.exp)
hmean = bound(
    outside.hmean,
    "NaN where an element is negative; " + PROPAGATED,
    mean_through,
    "hmean",
    inverse_of_positive,
    lambda x: 1.0 / x,
)


@binds(outside.iqr, PROPAGATED)
def iqr(
    x: Any,
    axis: Any = None,
    rng: Any = (25, 75),
    scale: Any = 1.0,
    nan_policy: Any = "propagate",
    interpolation: Any = "linear",
    keepdims: Any = False,
) -> Any:
    if isinstance(scale, str):
        if scale.lower() != "normal":
            raise ParameterError(f"iqr: scale is {scale!r}; it is a number or 'normal'")
        scale = 2 * float(special.ndtri(0.75))
    if len(rng) != 2 or not all([0 <= q <= 100 for q in rng]):
        raise ParameterError(f"iqr: rng is {rng!r}; it is two percentages from 0 to 100")
    own = samples("iqr", x, axis, nan_policy, keepdims)
    low, high = [np.quantile(own.rows, q / 100, axis=-1, method=interpolation) for q in (min(rng), max(rng))]
    return own.reduced((high - low) / scale)


@binds(outside.entropy, "the base a plain number; " + PROPAGATED)
def entropy(
    pk: Any,
    qk: Any = None,
    base: Any = None,
    axis: Any = 0,
    nan_policy: Any = "propagate",
    keepdims: Any = False,
) -> Any:
    if is_traced(base):
        raise UnsupportedError("entropy: base is traced", hint="divide by np.log(base)")
    if base is not None and base <= 0:
        raise ParameterError(f"entropy: base is {base!r}; it is a positive number")
    p = real_floats("entropy", pk, nan_policy)
    if qk is None:
        own = samples_of(p, axis, keepdims)
        made = np.sum(special.entr(shares(own.rows)), axis=-1)
    else:
        both = np.broadcast_arrays(p, real_floats("entropy", qk))
        own, other = [samples_of(lift(v), axis, keepdims) for v in both]
        made = np.sum(special.rel_entr(shares(own.rows), shares(other.rows)), axis=-1)
    return own.reduced(made if base is None else made / math.log(base))


def shares(rows: Any) -> Any:
    """Rows over their sums."""
    return rows / np.sum(rows, axis=-1, keepdims=True)
