"""NumPy's reductions that skip NaN: the same reductions with NaN replaced."""

from __future__ import annotations

from typing import Any

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.lift import lift
from wholestep.frontend.ufuncs import assign_out
from wholestep.numpy import reductions
from wholestep.numpy.movement import array_of
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.reductions import root
from wholestep.numpy.selection import where as where_


def replaced(a: Any, number: float) -> Array:
    """The array with a number for every NaN; integers have none."""
    x = array_of(a)
    if not dtypes.is_inexact(x.dtype):
        return x
    return where_(np.isnan(x), x.dtype.type(number), x)  # type: ignore[no-any-return]


def _present(a: Any, where: Any) -> Any:
    """Where the elements are that count."""
    x = array_of(a)
    real = ~np.isnan(x) if dtypes.is_inexact(x.dtype) else np.ones(x.shape, bool)
    return real if where is NO_VALUE or where is True else real & where


@covers(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """numpy.nansum."""
    return reductions.sum(replaced(a, 0), axis, dtype, out, keepdims, initial, where)


@covers(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """numpy.nanprod."""
    return reductions.prod(replaced(a, 1), axis, dtype, out, keepdims, initial, where)


def _extremum(a: Any, reduction: Any, fill: float, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    x = array_of(a)
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
    return _extremum(a, reductions.max, -np.inf, axis, out, keepdims, initial, where)


@covers(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = NO_VALUE
) -> Any:
    """numpy.nanmin; elements that tie share the gradient evenly."""
    return _extremum(a, reductions.min, np.inf, axis, out, keepdims, initial, where)


@covers(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = NO_VALUE
) -> Any:
    """numpy.nanmean."""
    x = array_of(a)
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
    x = array_of(a)
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
    made = root(nanvar(array_of(a), axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))
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


def _arg(a: Any, axis: Any, out: Any, keepdims: Any, fill: float, search: Any) -> Any:
    x = array_of(a)
    data = x.value.data
    if data is not None and dtypes.is_inexact(x.dtype) and np.any(np.all(np.isnan(data), axis=axis)):
        raise ValueError("All-NaN slice encountered")
    return search(replaced(x, fill), axis, out, keepdims=keepdims)


@covers(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """numpy.nanargmax; a slice of NaN alone is refused where the values are known."""
    return _arg(a, axis, out, keepdims, -np.inf, reductions.argmax)


@covers(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    """numpy.nanargmin; a slice of NaN alone is refused where the values are known."""
    return _arg(a, axis, out, keepdims, np.inf, reductions.argmin)
