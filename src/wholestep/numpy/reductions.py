"""NumPy's reductions: sum, mean, max and functions composed of them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import AxisError, DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.chosen import least
from wholestep.frontend.dispatch import binds, bound
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import broadcast_to, cast_to, checked, full_of, lift, value_of, wrap
from wholestep.ir.graph import Value
from wholestep.ir.types import Type
from wholestep.numpy.movement import axis_of, normalized_axes, ravel
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.primitives import arithmetic as ar, logic as lo, order, reduction as re
from wholestep.primitives.movement import reshape


def restore_axes(v: Value, shape: tuple[Any, ...], axes: tuple[int, ...], keepdims: Any) -> Value:
    """A reduced value with its lost axes back as size 1 where keepdims asks for them."""
    if not keepdims or keepdims is NO_VALUE:
        return v
    made: Value = reshape(v, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))
    return made


def reduced_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction, which NumPy takes as integers or a tuple of them, and not as a list or a truth value."""
    if axis is None:
        return tuple(range(ndim))
    for one in axis if isinstance(axis, tuple) else (axis,):
        if isinstance(one, list | bool | np.bool_):
            raise AxisError(f"{name}: axis={axis!r} is no axis", hint="give an integer, or a tuple of integers")
    return normalized_axes(name, axis, ndim)


def is_kept(name: str, keepdims: Any) -> bool:
    """Test whether a reduction keeps its axes; raises UnsupportedError for a `keepdims` that is no truth value."""
    if keepdims is NO_VALUE:
        return False
    try:
        return bool(operator.index(keepdims))
    except TypeError:
        raise UnsupportedError(f"{name}: keepdims={keepdims!r} is neither True nor False") from None


def is_given(option: Any) -> bool:
    """Test whether a call gave an option, and something else than None."""
    return option is not NO_VALUE and option is not None


def apply_reduction(
    name: str,
    primitive: Any,
    a: Any,
    identity: Any,
    combine: Callable[[Any, Any], Any] | None = None,
    *,
    axis: Any = None,
    dtype: Any = None,
    keepdims: Any = NO_VALUE,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
) -> Any:
    """The common part of all reductions: axes, dtype=, where=, initial= and keepdims=."""
    x = lift(a)
    axes = reduced_axes(name, axis, x.ndim)
    v = x.value if dtype is None else cast_to(x.value, checked(dtype))
    if is_given(initial) and np.ndim(initial):
        raise ParameterError(f"{name}: initial= is one number, not an array of shape {np.shape(initial)}")
    if where is not True and where is not NO_VALUE:
        mask = broadcast_to(cast_to(value_of(where), np.dtype(bool)), v.shape)
        v = lo.select(mask, v, full_of(identity, v.shape, v.dtype))
    made = primitive(v, axes=axes)
    result = wrap(restore_axes(made, v.shape, axes, is_kept(name, keepdims)))
    if combine is None or not is_given(initial):
        return result
    return combine(result, wrap(value_of(initial, made.dtype)))


def sum_dtype(t: Type) -> Any:
    """Small integers and booleans add up in the platform's integer, as NumPy has it."""
    return np.add.reduce(np.zeros(1, t.dtype)).dtype if t.dtype.kind in "biu" else None


def _total(name: str, primitive: Any, unit: int, combine: Any, a: Any, dtype: Any = None, **options: Any) -> Any:
    if type(a) is Array and dtype is None and not options and a.type.inexact:  # as most losses end
        return wrap(primitive(a.value, axes=tuple(range(a.ndim))))
    dtype = sum_dtype(lift(a).type) if dtype is None else checked(dtype)
    if dtype is not None and dtype.kind == "b":
        primitive = OF_TRUTHS[primitive]
    return apply_reduction(name, primitive, a, unit, combine, dtype=dtype, **options)


sum = bound(np.sum, "", _total, "sum", re.sum_, 0, np.add, casting="unsafe")
prod = bound(np.prod, "", _total, "prod", re.prod, 1, np.multiply, casting="unsafe")


def complex_extremum(v: Value, axes: tuple[int, ...], real: Any) -> Value:
    """The first or last of complex numbers in NumPy's order, by the real part and then the imaginary one.

    Elements that tie share the gradient evenly, and a nan is chosen before all numbers.
    """
    x = wrap(v)
    chosen = chosen_of_complex(stop_gradient(x), axes, real)
    parts = [lift(np.where(chosen, part, -math.inf)).value for part in (x.real, x.imag)]
    made: Value = ar.make_complex(*[re.max_(part, axes=axes) for part in parts])
    return made


def chosen_of_complex(x: Any, axes: tuple[int, ...], real: Any) -> Any:
    """A mask of the first or last of complex numbers in NumPy's order; of nans alone where there is one."""
    edge = -math.inf if real is re.max_ else math.inf

    def over(part: Any) -> Any:
        return wrap(restore_axes(real(lift(part).value, axes=axes), x.shape, axes, True))

    first = x.real == over(x.real)
    chosen = first & (x.imag == over(np.where(first, x.imag, edge)))
    unknown = np.isnan(x)
    return np.where(np.any(unknown, axis=axes, keepdims=True), unknown, chosen)


def extremum(
    name: str,
    primitive: Any,
    combine: Any,
    last: float,
    a: Any,
    axis: Any = None,
    initial: Any = NO_VALUE,
    where: Any = NO_VALUE,
    **options: Any,
) -> Any:
    """A maximum or minimum; raises ShapeError for one of nothing.

    The elements that `where` leaves out, and those of no element at all, are `last`, the number that never wins.
    """
    x = lift(a)
    unit = least(x.dtype, last)
    axes = reduced_axes(name, axis, x.ndim)
    chosen = functools.partial(complex_extremum, real=primitive) if dtypes.is_complex(x.dtype) else primitive
    empty = [i for i in axes if isinstance(x.shape[i], int) and x.shape[i] == 0]
    if empty and not is_given(initial):
        raise ShapeError(
            f"{name}: no element to choose from in {x.type}", hint="give initial=, the value of an empty choice"
        )
    if not (where is True or where is NO_VALUE or is_given(initial)):
        raise ShapeError(f"{name}: where= needs initial=, the value of an empty choice")
    if empty:
        chosen = functools.partial(full_of_nothing, unit=unit)
    return apply_reduction(name, chosen, a, unit, combine, axis=axis, initial=initial, where=where, **options)


def full_of_nothing(v: Value, axes: tuple[int, ...], unit: Any) -> Value:
    """The reduction along axes without elements."""
    return full_of(unit, re.reduced_shape(v.shape, axes), v.dtype)


TIES = "elements that tie share the gradient evenly"
max = bound(np.max, TIES, extremum, "max", re.max_, np.maximum, -math.inf, casting="unsafe")
min = bound(np.min, TIES, extremum, "min", re.min_, np.minimum, math.inf, casting="unsafe")


def _truth(name: str, primitive: Any, unit: bool, a: Any, **options: Any) -> Any:
    return apply_reduction(name, primitive, a, unit, dtype=np.bool_, **options)


any = bound(np.any, "", _truth, "any", re.any_, False, casting="unsafe")
all = bound(np.all, "", _truth, "all", re.all_, True, casting="unsafe")


EXACT_COUNT = 1 << 24
"""The largest number of elements by which a mean or a variance is divided in the dtype of its sum. NumPy divides in
float64 and rounds to that dtype, which is the same where float32 holds the number (Figueroa 1995, When is double
rounding innocuous?).
"""


def mean_count(x: Array, axes: tuple[int, ...], where: Any = NO_VALUE, keepdims: Any = NO_VALUE) -> Any:
    """The number of elements that a mean is over."""
    if where is True or where is NO_VALUE:
        return math.prod([x.shape[i] for i in axes])
    wide = np.broadcast_to(where, x.shape) if not isinstance(where, Array) else wrap(broadcast_to(where.value, x.shape))
    return sum(lift(wide), axis=axes, keepdims=keepdims)


def divided_by_count(total: Any, count: Any, size: Any) -> Any:
    """A sum divided by the number of some of `size` elements."""
    exact = isinstance(size, int) and size <= EXACT_COUNT and total.dtype.kind == "f"
    masked = isinstance(count, Array) and count.dtype.kind == "i"
    return total / (count.astype(total.dtype) if exact and masked else count)


def traced_count(n: Any) -> Any:
    """A number of elements, traced where it is symbolic; it promotes as a Python number does."""
    return Array(full_of(n, (), np.dtype(np.int64)), True, True) if isinstance(n, Dim) else n


def mean_dtype(x: Array, dtype: Any) -> Any:
    """Integers are averaged in float64."""
    if dtype is not None:
        return checked(dtype)
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


@binds(np.mean, casting="unsafe")
def mean(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
    """numpy.mean."""
    x = lift(a)
    axes = reduced_axes("mean", axis, x.ndim)
    wanted = mean_dtype(x, dtype)
    total = sum(x, axis=axes, dtype=dtypes.compute_dtype(wanted), **options)
    return divided_by_count(total, mean_count(x, axes, **options), x.size).astype(wanted, copy=False)


@binds(np.var, casting="unsafe")
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    mean: Any = NO_VALUE,
    correction: Any = NO_VALUE,
    **options: Any,
) -> Any:
    """numpy.var; of complex numbers the mean of |x - mean|**2, a real array."""
    x = lift(a)
    axes = reduced_axes("var", axis, x.ndim)
    wanted = mean_dtype(x, dtype)
    over = {"dtype": wanted} if wanted.kind in "biu" else {}
    x = x if over else x.astype(dtypes.compute_dtype(wanted), copy=False)
    where = options.get("where", NO_VALUE)
    off = lift(x - (_mean(x, axis=axes, keepdims=True, where=where, **over) if mean is NO_VALUE else mean))
    if mean is not NO_VALUE and off.dtype != x.dtype:
        raise DtypeError(f"var: mean= of another dtype than {x.type}", hint="it is the mean of the array itself")
    if where is not NO_VALUE and where is not True:
        off = lift(np.where(where, off, 0))  # elements that `where` excludes reach no derivative
    square = off.real**2 + off.imag**2 if dtypes.is_complex(x.dtype) else off * off
    total = sum(square, axis=axes, **over, **options)
    count = mean_count(x, axes, **options) - (ddof if correction is NO_VALUE else correction)
    if isinstance(count, int) and count <= EXACT_COUNT:
        count = count if count > 0 else 0
    else:
        count = np.maximum(traced_count(count), 0)
    result = dtypes.real_of(wanted) if dtype is None and dtypes.is_complex(wanted) else wanted
    return divided_by_count(total, count, x.size).astype(result, copy=False)


_mean = mean


@binds(np.std, casting="unsafe")
def std(a: Any, **options: Any) -> Any:
    """numpy.std; its derivative at zero is 0."""
    return root_of_variance("std", var(a, **options))


def root_of_variance(name: str, x: Array) -> Any:
    """The deviation of a variance in its dtype: NumPy writes the root over it, and cuts a scalar off to an integer."""
    made = real_root(x)
    if made.dtype == x.dtype:
        return made
    if made.ndim:
        raise DtypeError(f"{name}: a deviation is no integer, and dtype= asks for {dtypes.short(x.dtype)}")
    return made.astype(x.dtype)[()]


def real_root(x: Any) -> Any:
    """The square root of a sum of squares, whose derivative at zero is taken as 0."""
    nothing = x == 0
    return np.where(nothing, x, np.sqrt(np.where(nothing, 1, x)))[()]


def _arg_extremum(name: str, primitive: Any, a: Any, axis: Any = None, keepdims: Any = NO_VALUE) -> Any:
    x = lift(a)
    if axis is None:
        made = first_extremum(primitive, ravel(x), 0)
        return wrap(restore_axes(made, x.shape, tuple(range(x.ndim)), keepdims))
    (place,) = reduced_axes(name, axis if isinstance(axis, bool) else operator.index(axis), x.ndim)
    return wrap(restore_axes(first_extremum(primitive, x, place), x.shape, (place,), keepdims))


def first_extremum(primitive: Any, x: Array, axis: int) -> Value:
    """The index of the first extremum along an axis; complex numbers are compared in NumPy's order."""
    if dtypes.is_complex(x.dtype) and x.shape[axis] != 0:
        real = re.max_ if primitive is re.argmax else re.min_
        x, primitive = lift(chosen_of_complex(stop_gradient(x), (axis,), real)), re.argmax
    made: Value = primitive(x.value, axis=axis)
    return made


argmax = bound(np.argmax, "the first of equals", _arg_extremum, "argmax", re.argmax)
argmin = bound(np.argmin, "the first of equals", _arg_extremum, "argmin", re.argmin)


def _cumulative(name: str, primitive: Any, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    x = lift(a)
    if axis is not None:
        reduced_axes(name, axis, x.ndim)
    dtype = sum_dtype(x.type) if dtype is None else checked(dtype)
    x = x if axis is not None else ravel(x)
    v = x.value if dtype is None else cast_to(x.value, dtype)
    place = 0 if axis is None else axis_of(name, axis, x.ndim)
    if v.type.dtype == np.bool_:
        return Array(RUNNING_TRUTHS[primitive](v, axis=place)[0])
    return Array(primitive(v, axis=place, reverse=False))


RUNNING_TRUTHS = {re.cumsum: order.cummax, re.cumprod: order.cummin}
OF_TRUTHS = {re.sum_: re.any_, re.prod: re.all_}
"""A sum of truth values is true where any of them is, a product where all of them are."""


cumsum = bound(np.cumsum, "", _cumulative, "cumsum", re.cumsum)
cumprod = bound(np.cumprod, "the derivative is exact where factors are zero", _cumulative, "cumprod", re.cumprod)
