"""NumPy's reductions that skip NaN: the same reductions with NaN replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds
from wholestep.frontend.promotion import lift
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


def skipping(outside: Any, reduction: Any, number: float) -> Callable[..., Any]:
    """A reduction that a number in place of NaN leaves as it is without them."""

    def implementation(a: Any, **options: Any) -> Any:
        return reduction(replaced(a, number), **options)

    return binds(outside, casting="unsafe")(implementation)


nansum = skipping(np.nansum, reductions.sum, 0)
nanprod = skipping(np.nanprod, reductions.prod, 1)
nancumsum = skipping(np.nancumsum, reductions.cumsum, 0)
nancumprod = skipping(np.nancumprod, reductions.cumprod, 1)


def _nan_extremum(a: Any, reduction: Any, fill: float, where: Any = NO_VALUE, **options: Any) -> Any:
    x = traced_array(a)
    if dtypes.is_complex(x.dtype):
        raise UnsupportedError(f"nanmax and nanmin: not covered for complex arrays such as {x.type}")
    made = reduction(replaced(x, fill), where=where, **options)
    if dtypes.is_inexact(x.dtype) and options.pop("initial", NO_VALUE) is NO_VALUE:
        nothing = ~reductions.any(_present(x, where), **options)
        made = where_(nothing, x.dtype.type(np.nan), made)
        made = made if made.ndim else made[()]
    return made


@binds(np.nanmax, casting="unsafe")
def nanmax(a: Any, **options: Any) -> Any:
    """numpy.nanmax; elements that tie share the gradient evenly."""
    return _nan_extremum(a, reductions.max, -np.inf, **options)


@binds(np.nanmin, casting="unsafe")
def nanmin(a: Any, **options: Any) -> Any:
    """numpy.nanmin; elements that tie share the gradient evenly."""
    return _nan_extremum(a, reductions.min, np.inf, **options)


@binds(np.nanmean, casting="unsafe")
def nanmean(a: Any, where: Any = NO_VALUE, **options: Any) -> Any:
    """numpy.nanmean."""
    x = traced_array(a)
    return reductions.mean(replaced(x, 0), where=_present(x, where), **options)


@binds(np.nanvar, casting="unsafe")
def nanvar(a: Any, ddof: Any = 0, where: Any = NO_VALUE, correction: Any = NO_VALUE, **options: Any) -> Any:
    """numpy.nanvar; NaN where no degree of freedom is left."""
    x = traced_array(a)
    ddof = ddof if correction is NO_VALUE else correction
    present = _present(x, where)
    made = reductions.var(replaced(x, 0), ddof=ddof, where=present, **options)
    over = {name: options[name] for name in ("axis", "keepdims") if name in options}
    count = reductions.sum(lift(present), **over)
    made = lift(where_(count - ddof <= 0, made.dtype.type(np.nan), made))
    return made if made.ndim else made[()]


@binds(np.nanstd, casting="unsafe")
def nanstd(a: Any, **options: Any) -> Any:
    """numpy.nanstd; its derivative at zero is 0."""
    made = real_root(nanvar(traced_array(a), **options))
    return made if made.ndim else made[()]


def _nan_arg_extremum(a: Any, fill: float, search: Any, axis: Any = None, **options: Any) -> Any:
    x = traced_array(a)
    data = x.value.data
    if data is not None and dtypes.is_inexact(x.dtype) and np.any(np.all(np.isnan(data), axis=axis)):
        raise ValueError("All-NaN slice encountered")
    return search(replaced(x, fill), axis=axis, **options)


@binds(np.nanargmax)
def nanargmax(a: Any, **options: Any) -> Any:
    """numpy.nanargmax; a slice of NaN alone is refused where the values are known."""
    return _nan_arg_extremum(a, -np.inf, reductions.argmax, **options)


@binds(np.nanargmin)
def nanargmin(a: Any, **options: Any) -> Any:
    """numpy.nanargmin; a slice of NaN alone is refused where the values are known."""
    return _nan_arg_extremum(a, np.inf, reductions.argmin, **options)
