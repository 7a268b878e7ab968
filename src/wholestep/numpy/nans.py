"""NumPy's reductions that skip NaN: the same reductions with NaN replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import lift
from wholestep.frontend.ufuncs import assign_out
from wholestep.numpy import reductions
from wholestep.numpy.movement import traced_array
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.reductions import real_root
from wholestep.numpy.selection import where as where_


def replaced(a: Any, number: float) -> Array:
    """The array with a number for every NaN; integers have none."""
    x = traced_array(a)
    if not dtypes.is_inexact(x.dtype):
        return x
    return where_(np.isnan(x), x.dtype.type(number), x)  # type: ignore[no-any-return]


def _present(a: Any, where: Any) -> Any:
    """A mask of the elements that count."""
    x = traced_array(a)
    real = ~np.isnan(x) if dtypes.is_inexact(x.dtype) else np.ones(x.shape, bool)
    return real if where is NO_VALUE or where is True else real & where


def _nan_reduction(outside: Any, reduction: Any, number: float) -> Callable[..., Any]:
    def implementation(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = NO_VALUE,
        initial: Any = NO_VALUE,
        where: Any = NO_VALUE,
    ) -> Any:
        return reduction(replaced(a, number), axis, dtype, out, keepdims, initial, where)

    implementation.__name__ = implementation.__qualname__ = outside.__name__
    implementation.__doc__ = f"numpy.{outside.__name__}."
    return covers(outside)(implementation)


nansum = _nan_reduction(np.nansum, reductions.sum, 0)
nanprod = _nan_reduction(np.nanprod, reductions.prod, 1)


def _nan_extremum(
    a: Any, reduction: Any, fill: float, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Any:
    x = traced_array(a)
    if dtypes.is_complex(x.dtype):
        raise UnsupportedError(f"nanmax and nanmin: not covered for complex arrays such as {x.type}")
    made = reduction(replaced(x, fill), axis, None, keepdims, initial, where)
    if dtypes.is_inexact(x.dtype) and initial is NO_VALUE:
        nothing = ~reductions.any_(_present(x, where), axis=axis, keepdims=keepdims)
        made = where_(nothing, x.dtype.type(np.nan), made)
        made = made if made.ndim else made[()]
    return made if out is None else assign_out("nanmax", out, made, "unsafe")


@covers(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Any:
    """numpy.nanmax; elements that tie share the gradient evenly."""
    return _nan_extremum(a, reductions.max, -np.inf, axis, out, keepdims, initial, where)


@covers(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Any:
    """numpy.nanmin; elements that tie share the gradient evenly."""
    return _nan_extremum(a, reductions.min, np.inf, axis, out, keepdims, initial, where)


@covers(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Any:
    """numpy.nanmean."""
    x = traced_array(a)
    return reductions.mean(replaced(x, 0), axis, dtype, out, keepdims, where=_present(x, where))


@covers(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """numpy.nanvar; NaN where no degree of freedom is left."""
    x = traced_array(a)
    ddof = ddof if correction is NO_VALUE else correction
    present = _present(x, where)
    made = reductions.var(replaced(x, 0), axis, dtype, None, ddof, keepdims, where=present, mean=mean)
    count = reductions.sum(lift(present), axis=axis, keepdims=keepdims)
    made = lift(where_(count - ddof <= 0, made.dtype.type(np.nan), made))
    made = made if made.ndim else made[()]
    return made if out is None else assign_out("nanvar", out, made, "unsafe")


@covers(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = NO_VALUE,
    *,
    where: Any = NO_VALUE,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
) -> Any:
    """numpy.nanstd; its derivative at zero is 0."""
    made = real_root(
        nanvar(traced_array(a), axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    )
    made = made if made.ndim else made[()]
    return made if out is None else assign_out("nanstd", out, made, "unsafe")


@covers(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """numpy.nancumsum."""
    return reductions.cumsum(replaced(a, 0), axis, dtype, out)


@covers(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """numpy.nancumprod."""
    return reductions.cumprod(replaced(a, 1), axis, dtype, out)


def _nan_arg_extremum(a: Any, axis: Any, out: Any, keepdims: Any, fill: float, search: Any) -> Any:
    x = traced_array(a)
    data = x.value.data
    if data is not None and dtypes.is_inexact(x.dtype) and np.any(np.all(np.isnan(data), axis=axis)):
        raise ValueError("All-NaN slice encountered")
    return search(replaced(x, fill), axis, out, keepdims=keepdims)


@covers(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """numpy.nanargmax; a slice of NaN alone is refused where the values are known."""
    return _nan_arg_extremum(a, axis, out, keepdims, -np.inf, reductions.argmax)


@covers(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """numpy.nanargmin; a slice of NaN alone is refused where the values are known."""
    return _nan_arg_extremum(a, axis, out, keepdims, np.inf, reductions.argmin)
