"""Python's own functions on traced numbers: those of `math`, conversions, and the choices that compare values."""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array, data_of
from wholestep.frontend.dispatch import function, is_traced
from wholestep.frontend.promotion import cast_to, lift, promoted
from wholestep.frontend.source.fresh import FreshArray, live
from wholestep.primitives import functions as fn
from wholestep.primitives.movement import reshape

FLOAT, INTEGER, COMPLEX = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.complex128)


def python_number(x: Any, dtype: np.dtype[Any]) -> Any:
    """A traced array of one element as a Python number of a kind: a scalar that gives way in promotion."""
    if not is_traced(x):
        return x
    a = lift(x)
    if a.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    if dtypes.is_complex(a.dtype) and dtype.kind != "c":
        raise TypeError(f"must be real number, not {a.type}")
    value = a.value if a.ndim == 0 else reshape(a.value, shape=())
    return Array(cast_to(value, dtype), True, True)


def weak(x: Any) -> Any:
    """A result as a Python number."""
    a = lift(x)
    return Array(a.value, True, True)


def checked_call(f: Any, args: Any) -> None:
    """Let Python's function refuse values that are known, with its own error."""
    known = [data_of(a.value) if isinstance(a, Array) else a for a in args]
    if all(x is not None for x in known):
        f(*[x.item() if isinstance(x, np.ndarray | np.generic) else x for x in known])


def through_numpy(f: Any, outside: Callable[..., Any], dtype: np.dtype[Any] = FLOAT) -> Callable[..., Any]:
    """A function of `math` as the NumPy function of its meaning."""

    def implementation(*args: Any) -> Any:
        given = [python_number(live(x), dtype) for x in args]
        checked_call(f, given)
        return weak(outside(*given))

    return implementation


def _whole(f: Any, outside: Callable[..., Any]) -> Callable[..., Any]:
    """floor, ceil and trunc, which give integers."""

    def implementation(x: Any) -> Any:
        given = python_number(live(x), FLOAT)
        checked_call(f, [given])
        return Array(cast_to(lift(outside(given)).value, INTEGER), True, True)

    return implementation


def _log(x: Any, base: Any = None) -> Any:
    given = [python_number(live(v), FLOAT) for v in ((x,) if base is None else (x, base))]
    checked_call(math.log, given)
    logs = [np.log(v) for v in given]
    return weak(logs[0] if base is None else logs[0] / logs[1])


def _total(start: Any, items: Any, combine: Callable[..., Any]) -> Any:
    made = start
    for item in items:
        made = combine(made, python_number(live(item), FLOAT))
    return weak(made)


def _hypot(*args: Any) -> Any:
    given = [python_number(live(x), FLOAT) for x in args]
    made = abs(given[0]) if len(given) == 1 else given[0]
    for x in given[1:]:
        made = np.hypot(made, x)
    return weak(made)


def _dist(p: Any, q: Any) -> Any:
    a, b = list(p), list(q)
    if len(a) != len(b):
        raise ValueError("both points must have the same number of dimensions")
    return _hypot(*[python_number(live(x), FLOAT) - python_number(live(y), FLOAT) for x, y in zip(a, b, strict=True)])


PRIMITIVES = {"erf": fn.erf, "erfc": fn.erfc, "gamma": fn.gamma, "lgamma": fn.gammaln}
REAL = {"d->d", "dd->d"}
OTHERWISE = ("remainder",)
"""Functions of another meaning: NumPy's is the remainder of a floored quotient."""


def _remainder(x: Any, y: Any) -> Any:
    """IEEE's, of the quotient rounded to the nearest integer, halves to even ones: exact, as CPython computes it."""
    size, step = abs(x), abs(y)
    below = np.fmod(size, step)
    above = step - below
    half = below - 2.0 * np.fmod(0.5 * (size - below), step)
    nearest = np.where(below < above, below, np.where(below > above, -above, half))
    return np.where(np.signbit(x), -nearest, nearest)


def _modf(x: Any) -> Any:
    given = python_number(live(x), FLOAT)
    return tuple([weak(part) for part in np.modf(given)])


SAME = [
    name
    for name in dir(math)
    if name not in OTHERWISE and REAL.intersection(getattr(getattr(np, name, None), "types", ()))
]
"""The functions of `math` that NumPy has under the same name, of floating-point numbers."""
COMPLEX_SAME = "sin cos tan sinh cosh tanh exp log log10 sqrt".split()
TESTS = ("isnan", "isinf", "isfinite")


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    x, y = python_number(live(a), FLOAT), python_number(live(b), FLOAT)
    near = abs(x - y) <= np.maximum(rel_tol * np.maximum(abs(x), abs(y)), abs_tol)
    return (x == y) | (near & np.isfinite(x) & np.isfinite(y))


def _test(outside: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: outside(python_number(live(x), FLOAT))


def mathematics() -> dict[Any, Callable[..., Any]]:
    """The functions of `math` -> ours."""
    made: dict[Any, Callable[..., Any]] = {}
    for name in SAME:
        made[getattr(math, name)] = through_numpy(getattr(math, name), getattr(np, name))
    for name, outside in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)):
        made[getattr(math, name)] = _whole(getattr(math, name), outside)
    for name, primitive in PRIMITIVES.items():
        made[getattr(math, name)] = through_numpy(
            getattr(math, name), lambda x, primitive=primitive: Array(primitive(x.value), True)
        )
    for name in COMPLEX_SAME:
        made[getattr(cmath, name)] = through_numpy(getattr(cmath, name), getattr(np, name), COMPLEX)
    for name in TESTS:
        made[getattr(math, name)] = _test(getattr(np, name))
    made[math.remainder] = through_numpy(math.remainder, _remainder)
    made |= {math.modf: _modf, math.log: _log, math.hypot: _hypot, math.dist: _dist, math.isclose: _isclose}
    made[math.fsum] = lambda items: _total(0.0, items, lambda a, b: a + b)
    made[math.prod] = lambda items, *, start=1: _product(items, start)
    return made


def _product(items: Any, start: Any) -> Any:
    for item in items:
        start = start * item
    return start


def _float(x: Any = 0.0) -> Any:
    return python_number(live(x), FLOAT)


def _int(x: Any) -> Any:
    now = live(x)
    if isinstance(now, Array) and not dtypes.is_inexact(now.dtype) and data_of(now.value) is not None:
        return int(now)
    a = python_number(now, lift(now).dtype)
    whole = np.trunc(a) if dtypes.is_inexact(a.dtype) else a
    return Array(cast_to(lift(whole).value, INTEGER), True, True)


def _complex(real: Any = 0, imag: Any = 0) -> Any:
    x, y = python_number(live(real), COMPLEX), python_number(live(imag), COMPLEX)
    return weak(x + 1j * y)


def _round(x: Any, ndigits: Any = None) -> Any:
    a = live(x)
    if ndigits is None:
        return _int(np.round(a))
    made = lift(function(np.round)(a, ndigits))
    return Array(made.value, a._scalar, a._weak)


def is_instance(x: Any, kinds: Any) -> bool:
    """Answered for a traced array as for the plain one in its place."""
    if type(x) is not Array or builtins.isinstance(x, kinds):
        return builtins.isinstance(x, kinds)
    if not x._scalar:
        return builtins.isinstance(np.empty((0,), x.dtype), kinds)
    one = np.zeros((), x.dtype)[()]
    return builtins.isinstance(one.item() if x._weak else one, kinds)


def _choice(f: Any, later: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """max and min: the first among equals, by comparison; chosen in the program where values are not known."""

    def implementation(*args: Any, key: Any = None, **default: Any) -> Any:
        items = list(args[0]) if len(args) == 1 else list(args)
        unknown = [type(x) is Array and data_of(x.value) is None for x in items]
        if key is not None or not any(unknown):
            return f(items, key=key, **default) if items else f(*args, key=key, **default)
        best = items[0]
        for item in items[1:]:
            if np.ndim(item) or np.ndim(best):
                raise UnsupportedError(
                    f"{f.__name__}: compares whole arrays, which have no order", hint=f"use np.{f.__name__}imum"
                )
            one, other = [Array(v, True) for v in promoted(item, best)]
            made = lift(np.where(later(one, other), one, other))
            best = Array(made.value, True, all([getattr(x, "_weak", type(x) in (int, float)) for x in (item, best)]))
        return best

    return implementation


def memory_view(x: Any) -> Any:
    """`memoryview`, of a fresh array by its own buffer on every version of Python."""
    if is_traced(x):
        lift(live(x))._refuse("memoryview")
    return x.data if type(x) is FreshArray else memoryview(x)


PYTHON: dict[Any, Callable[..., Any]] = {
    **mathematics(),
    float: _float,
    int: _int,
    complex: _complex,
    round: _round,
    max: _choice(max, lambda item, best: item > best),
    min: _choice(min, lambda item, best: item < best),
}
"""Python's functions -> ours, for calls in which a traced value takes part."""
