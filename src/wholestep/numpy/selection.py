"""NumPy's choices: where, clip, select, piecewise; and the values of arguments that decide a shape."""

from __future__ import annotations

import functools
from typing import Any

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.array import Array, data_of
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.memory import in_order_of, may_be_transposed
from wholestep.frontend.promotion import (
    WEAK,
    broadcast_shapes,
    broadcast_to,
    cast_to,
    checked,
    lift,
    promoted,
    value_of,
)
from wholestep.frontend.selection import Selection, put
from wholestep.frontend.ufuncs import assign_out, classified, resolve
from wholestep.ir.build import owned
from wholestep.ir.graph import Value
from wholestep.numpy.outside import NO_VALUE, np
from wholestep.primitives.logic import isnan, select as select_primitive


def known_of(name: str, x: Any) -> Any:
    """The plain value of an argument that decides a shape; raises ValueDependentError where it is not known."""
    if type(x) is np.ndarray and x.ndim and x.dtype.kind in "biu":
        return data_of(lift(x).value)
    if not is_traced(x):
        return np.asarray(x)
    a = lift(x)
    return np.broadcast_to(a.known(name), a.shape)


def is_unknown(x: Any) -> bool:
    """Test whether an argument is traced and has no value yet."""
    return is_traced(x) and data_of(lift(x).value) is None


@covers(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """numpy.where; with a condition alone, the indices where it holds, which must be known."""
    if x is None and y is None:
        return tuple([lift(i) for i in np.nonzero(known_of("where", condition))])
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    chosen = cast_to(lift(condition).value, np.dtype(bool))
    try:
        a, b = promoted(x, y)
    except OverflowError:
        a, b = _wrapped(x, y)
    shape = broadcast_shapes("where", [chosen.shape, a.shape, b.shape])
    return Array(select_primitive(broadcast_to(chosen, shape), broadcast_to(a, shape), broadcast_to(b, shape)))


def _wrapped(*xs: Any) -> list[Value]:
    """Values of one dtype where a Python integer does not fit: here NumPy lets it wrap around."""
    dtype = dtypes.promoted_dtype(*[x if type(x) in WEAK else lift(x).dtype for x in xs])
    return [value_of(np.asarray(x).astype(dtype) if type(x) in WEAK else x, dtype) for x in xs]


@covers(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """numpy.copy: a new array that shares nothing."""
    x = lift(a)
    made = Array(owned(x.value))
    if order == "F" or (order == "A" and x.layout().flags.fnc):
        return in_order_of(made, [np.empty(x.shape, x.dtype, order="F")])
    return in_order_of(made, [x]) if order == "K" and may_be_transposed(x) else made


@covers(np.clip)
def clip(
    a: Any,
    a_min: Any = NO_VALUE,
    a_max: Any = NO_VALUE,
    out: Any = None,
    *,
    min: Any = NO_VALUE,
    max: Any = NO_VALUE,
    **kwargs: Any,
) -> Any:
    """numpy.clip; the derivative is 1 on the closed interval."""
    low, high = _clip_bound(a_min, min), _clip_bound(a_max, max)
    where_, dtype = kwargs.pop("where", True), kwargs.pop("dtype", None)
    if kwargs.keys() - {"casting", "order", "subok"}:
        raise TypeError(f"clip: unexpected keyword arguments {sorted(kwargs)}")
    x = Array(lift(a).value)
    if x.dtype.kind in "iu":  # bounds beyond the dtype are none, as in NumPy
        low = None if type(low) is int and low <= np.iinfo(x.dtype).min else low
        high = None if type(high) is int and high >= np.iinfo(x.dtype).max else high
    given = [v for v in (x, low, high) if v is not None]
    dtype = functools.reduce(_larger_dtype, given[1:], x.dtype) if dtype is None else checked(dtype)
    values = [value_of(v, dtype) for v in given]
    shape = broadcast_shapes("clip", [v.shape for v in values])
    made, *bounds = [broadcast_to(v, shape) for v in values]
    if low is not None:
        bound = bounds.pop(0)
        made = select_primitive(_or_nan(made < bound, bound), bound, made)
    if high is not None:
        bound = bounds.pop(0)
        made = select_primitive(_or_nan(made > bound, bound), bound, made)
    result = Array(made, not shape)
    if where_ is not True:
        result = np.where(where_, result, out)
    return result if out is None else assign_out("clip", out[0] if isinstance(out, tuple) else out, result)


def _larger_dtype(dtype: Any, bound: Any) -> Any:
    """The dtype in which NumPy compares numbers of a dtype with a bound."""
    return resolve(np.maximum, (dtype, *classified((bound,))[1]))[1][0]


def _or_nan(beyond: Value, bound: Value) -> Value:
    return beyond | isnan(bound) if bound.type.inexact else beyond


def _clip_bound(old: Any, new: Any) -> Any:
    """One bound under its old or its new name."""
    if old is not NO_VALUE and new is not NO_VALUE:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    found = new if old is NO_VALUE else old
    return None if found is NO_VALUE else found


@covers(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    """numpy.select: the first condition that holds decides."""
    if len(condlist) != len(choicelist):
        raise ShapeError("select: list of cases must be same length as list of conditions")
    if not condlist:
        raise ShapeError("select: with an empty condition list is not possible")
    conditions = [lift(c) for c in condlist]
    for i, c in enumerate(conditions):
        if c.dtype.kind != "b":
            raise DtypeError(f"select: entry {i} of the conditions is {c.type}, not boolean")
    values = promoted(*choicelist, default)
    shape = broadcast_shapes("select", [v.shape for v in (*[c.value for c in conditions], *values)])
    made = broadcast_to(values[-1], shape)
    for c, v in zip(conditions[::-1], values[-2::-1], strict=True):
        made = select_primitive(broadcast_to(c.value, shape), broadcast_to(v, shape), made)
    return Array(made)


@covers(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """numpy.piecewise; a function is given the elements that its condition chooses."""
    a = Array(lift(x).value)
    conditions = _conditions(condlist, a)
    if len(funclist) == len(conditions) + 1:
        rest = np.logical_not(functools.reduce(np.logical_or, conditions))
        conditions = [*conditions, rest]
    elif len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    made = Array(broadcast_to(lift(np.zeros((), a.dtype)).value, a.shape))
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            made[...] = where(condition, Array(value_of(function, a.dtype)), made)
        elif is_traced(condition) and data_of(condition.value) is None:
            mask = broadcast_to(condition.value, a.shape)
            put(made, mask, function(Selection(a.value, mask), *args, **kw), "")
        else:
            mask = np.broadcast_to(known_of("piecewise", condition), a.shape)
            if mask.any():
                made[mask] = function(a[mask], *args, **kw)
    return made


def _conditions(condlist: Any, x: Array) -> list[Any]:
    """The conditions one by one, each boolean and of x's shape."""
    first = condlist[0] if isinstance(condlist, list | tuple | np.ndarray | Array) and len(condlist) else condlist
    single = np.ndim(first) == 0 if not isinstance(first, Array) else first.ndim == 0
    several = not (isinstance(condlist, Array | np.ndarray) and condlist.ndim == 0) and (not single or x.ndim == 0)
    found = list(condlist) if several else [condlist]
    return [c.astype(bool) if isinstance(c, Array) else np.asarray(c, bool) for c in map(_condition, found)]


def _condition(c: Any) -> Any:
    return lift(c) if is_traced(c) else c
