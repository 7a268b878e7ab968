"""NumPy's reductions that skip NaN: the same reductions with NaN replaced."""

from __future__ import annotations

from typing import Any

from wholestep import dtypes
from wholestep.errors import DtypeError
from wholestep.frontend.array import Array
from wholestep.frontend.chosen import least
from wholestep.frontend.dispatch import binds, bound
from wholestep.frontend.promotion import checked, lift
from wholestep.numpy import reductions
from wholestep.numpy.conditions import where_holds
from wholestep.numpy.movement import traced_array
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.numpy.reductions import root_of_variance
from wholestep.numpy.selection import where as where_


def replaced(a: Any, number: complex) -> Array:
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


def _skipping(reduction: Any, number: float, a: Any, **options: Any) -> Any:
    """A NaN-skipping reduction, with NaN replaced by the reduction's neutral `number`."""
    return reduction(replaced(a, number), **options)


nansum = bound(np.nansum, "", _skipping, reductions.sum, 0, casting="unsafe")
nanprod = bound(np.nanprod, "", _skipping, reductions.prod, 1, casting="unsafe")
nancumsum = bound(np.nancumsum, "", _skipping, reductions.cumsum, 0, casting="unsafe")
nancumprod = bound(np.nancumprod, "", _skipping, reductions.cumprod, 1, casting="unsafe")


def _nan_extremum(reduction: Any, fill: float, a: Any, where: Any = NO_VALUE, **options: Any) -> Any:
    x = traced_array(a)
    made = reduction(replaced(x, least(x.dtype, fill)), where=where, **options)
    if dtypes.is_inexact(x.dtype) and options.pop("initial", NO_VALUE) is NO_VALUE:
        nothing = ~reductions.any(_present(x, where), **options)
        made = where_(nothing, x.dtype.type(np.nan), made)
        made = made if made.ndim else made[()]
    return made


nanmax = bound(np.nanmax, reductions.TIES, _nan_extremum, reductions.max, -np.inf, casting="unsafe")
nanmin = bound(np.nanmin, reductions.TIES, _nan_extremum, reductions.min, np.inf, casting="unsafe")


def inexact_operand(name: str, a: Any, dtype: Any = None, **options: Any) -> Array:
    """The operand; raises DtypeError for a result of integer `dtype`, since the result may be NaN."""
    x = traced_array(a)
    if dtype is not None and dtypes.is_inexact(x.dtype) and not dtypes.is_inexact(checked(dtype)):
        raise DtypeError(f"{name}: a mean of {x.type} as {dtypes.short(checked(dtype))} could not be NaN")
    return x


@binds(np.nanmean, casting="unsafe")
def nanmean(a: Any, where: Any = NO_VALUE, **options: Any) -> Any:
    """numpy.nanmean."""
    x = inexact_operand("nanmean", a, **options)
    return reductions.mean(replaced(x, 0), where=_present(x, where), **options)


@binds(np.nanvar, casting="unsafe")
def nanvar(a: Any, ddof: Any = 0, where: Any = NO_VALUE, correction: Any = NO_VALUE, **options: Any) -> Any:
    """numpy.nanvar; NaN where no degree of freedom is left."""
    x = inexact_operand("nanvar", a, **options)
    ddof = ddof if correction is NO_VALUE else correction
    if not dtypes.is_inexact(x.dtype):
        return reductions.var(x, ddof=ddof, where=where, **options)
    present = _present(x, where)
    made = reductions.var(replaced(x, 0), ddof=ddof, where=present, **options)
    over = {name: options[name] for name in ("axis", "keepdims") if name in options}
    count = reductions.sum(lift(present), **over)
    made = lift(where_(count - ddof <= 0, made.dtype.type(np.nan), made))
    return made if made.ndim else made[()]


@binds(np.nanstd, casting="unsafe")
def nanstd(a: Any, **options: Any) -> Any:
    """numpy.nanstd; its derivative at zero is 0."""
    made = root_of_variance("nanstd", nanvar(traced_array(a), **options))
    return made if made.ndim else made[()]


def _nan_arg_extremum(search: Any, fill: float, a: Any, axis: Any = None, **options: Any) -> Any:
    x = traced_array(a)
    numbers = replaced(x, fill)
    if dtypes.is_inexact(x.dtype):
        alone = np.any(np.all(np.isnan(x), axis=axis))
        numbers = where_holds(numbers, ~alone, f"nan{search.__name__}: All-NaN slice encountered")
    return search(numbers, axis=axis, **options)


REFUSED = "a slice of NaN alone is an error when the program runs"
nanargmax = bound(np.nanargmax, REFUSED, _nan_arg_extremum, reductions.argmax, -np.inf)
nanargmin = bound(np.nanargmin, REFUSED, _nan_arg_extremum, reductions.argmin, np.inf)
