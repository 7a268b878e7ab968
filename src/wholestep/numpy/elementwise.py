"""NumPy's elementwise functions that are not ufuncs: rounding, complex parts, sinc, tests and comparisons."""

from __future__ import annotations

import math
import operator
from typing import Any

from wholestep import dtypes
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import binds, bound, covers
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import cast_to, full_of, lift, wrap
from wholestep.ir.graph import Value
from wholestep.numpy.movement import traced_array
from wholestep.numpy.outside import np
from wholestep.numpy.selection import known_of
from wholestep.primitives import arithmetic as ar
from wholestep.primitives.special import i0 as i0_primitive


@binds(np.round)
def round(a: Any, decimals: Any = 0) -> Any:
    """numpy.round."""
    x, decimals = lift(a), operator.index(decimals)
    if x.dtype.kind in "iu" and decimals >= 0:
        return Array(x.value, x._scalar)
    if decimals == 0:
        return np.rint(x)
    if x.dtype.kind == "b":
        raise DtypeError("round: booleans have no decimals", hint="x.astype(int) makes numbers of them")
    if dtypes.is_complex(x.dtype):
        parts = [round(Array(part(x.value)), decimals).value for part in (ar.real, ar.imag)]
        return Array(ar.make_complex(*parts), x._scalar)
    wide = x.astype(np.float64) if x.dtype.kind in "iu" else x
    factor = 10.0 ** abs(decimals)
    made = np.rint(wide * factor) / factor if decimals > 0 else np.rint(wide / factor) * factor
    return made.astype(x.dtype, copy=False)


@binds(np.around)
def around(a: Any, decimals: Any = 0) -> Any:
    """numpy.around."""
    return round(lift(a), decimals)


@binds(np.fix)
def fix(x: Any) -> Any:
    """numpy.fix: towards zero."""
    return np.trunc(lift(x))


@covers(np.real)
def real(val: Any) -> Array:
    """numpy.real: a view of a complex array, the array itself where it is real."""
    x = lift(val)
    if not dtypes.is_complex(x.dtype):
        return x if x._scalar else x[...]
    if x._scalar:
        return Array(ar.real(x.value), True)
    return x.view_through(
        View(ar.real, lambda base, new: ar.make_complex(new, ar.imag(base)), lambda plain: plain.real)
    )


@covers(np.imag)
def imag(val: Any) -> Array:
    """numpy.imag: a view of a complex array; of a real one zeros that cannot be written."""
    x = lift(val)
    if not dtypes.is_complex(x.dtype):

        def nothing(v: Value) -> Value:
            return full_of(0, v.shape, v.dtype)

        return (
            Array(nothing(x.value), True)
            if x._scalar
            else x.view_through(View(nothing, None, lambda plain: plain.imag))
        )
    if x._scalar:
        return Array(ar.imag(x.value), True)
    return x.view_through(
        View(ar.imag, lambda base, new: ar.make_complex(ar.real(base), new), lambda plain: plain.imag)
    )


@covers(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """numpy.angle."""
    x = lift(z)
    parts = (imag(x), real(x)) if dtypes.is_complex(x.dtype) else (0, stop_gradient(x))  # nan, by arctan2, at 0
    made = np.arctan2(*parts)
    return made * (180 / math.pi) if deg else made


@covers(np.real_if_close)
def real_if_close(a: Any, tol: Any = 100) -> Array:
    """numpy.real_if_close; the values decide the dtype, so they must be known."""
    x = traced_array(a)
    if not dtypes.is_complex(x.dtype):
        return x
    limit = float(np.finfo(x.dtype).eps) * tol if tol > 1 else tol
    return real(x) if np.all(np.absolute(known_of("real_if_close", x).imag) < limit) else x


@covers(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """numpy.nan_to_num."""
    if isinstance(copy, str):
        raise ParameterError(f"nan_to_num: copy={copy!r} is neither True nor False")
    a = lift(x)
    if not dtypes.is_inexact(a.dtype):
        return Array(a.value, a._scalar) if copy else a
    if dtypes.is_complex(a.dtype):
        parts = [_finite(p, nan, posinf, neginf).value for p in (real(a), imag(a))]
        made = Array(ar.make_complex(*parts), a._scalar)
    else:
        made = _finite(a, nan, posinf, neginf)
    if copy or not isinstance(x, Array) or a._scalar:
        return Array(made.value, a._scalar)
    a.write(made.value)
    return a


def _finite(x: Array, nan: Any, posinf: Any, neginf: Any) -> Array:
    limits = dtypes.limits(x.dtype)
    top = limits.max if posinf is None else posinf
    bottom = limits.min if neginf is None else neginf
    numbers = [lift(n).astype(x.dtype) for n in (nan, top, bottom)]
    made = np.where(np.isnan(x), numbers[0], x)
    return lift(np.where(x == np.inf, numbers[1], np.where(x == -np.inf, numbers[2], made)))


@covers(np.sinc)
def sinc(x: Any) -> Any:
    """numpy.sinc; a series near zero keeps every derivative right there."""
    y = lift(x) * math.pi
    small = np.abs(y) < 0.5
    near, far = np.where(small, y, 0.0).astype(y.dtype), np.where(small, 1.0, y).astype(y.dtype)
    square = near * near
    series: Any = 1.0
    for k in range(8, 0, -1):
        series = 1.0 - series * square / (2 * k * (2 * k + 1))
    return wrap(lift(np.where(small, series, np.sin(far) / far)).value)


@covers(np.i0)
def i0(x: Any) -> Any:
    """numpy.i0."""
    a = lift(x)
    if dtypes.is_complex(a.dtype):
        raise TypeError("i0 not supported for complex values")
    return Array(i0_primitive(cast_to(a.value, a.dtype if dtypes.is_float(a.dtype) else np.dtype(np.float64))))


@covers(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """numpy.isclose."""
    x, y = lift(a), lift(b)
    if y.dtype.kind in "biu":
        y = y.astype(np.result_type(y.dtype, 1.0))
    near = (np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y) | (x == y)
    return near | (np.isnan(x) & np.isnan(y)) if equal_nan else near


@covers(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """numpy.allclose: a boolean without a value yet, where the operands have none."""
    return np.all(isclose(lift(a), lift(b), rtol, atol, equal_nan))


@covers(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """numpy.array_equal: a boolean without a value yet, where the operands have none."""
    x, y = lift(a1), lift(a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan and dtypes.is_inexact(x.dtype) and dtypes.is_inexact(y.dtype):
        same = same | (np.isnan(x) & np.isnan(y))
    return np.all(same)


@covers(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """numpy.array_equiv: a boolean without a value yet, where the operands have none."""
    x, y = lift(a1), lift(a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return np.all(x == y)


@covers(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """numpy.iscomplex."""
    a = lift(x)
    return imag(a) != 0


@covers(np.isreal)
def isreal(x: Any) -> Any:
    """numpy.isreal."""
    a = lift(x)
    return imag(a) == 0


def _infinite(name: str, sign: bool, x: Any) -> Any:
    a = lift(x)
    if dtypes.is_complex(a.dtype):
        raise DtypeError(f"{name}: not defined for {a.type}, since complex numbers have no sign")
    return np.isinf(a) & (np.signbit(a) if sign else ~np.signbit(a)) if dtypes.is_float(a.dtype) else np.isinf(a)


isposinf = bound(np.isposinf, "", _infinite, "isposinf", False)
isneginf = bound(np.isneginf, "", _infinite, "isneginf", True)


@covers(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """numpy.astype."""
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')
    return lift(x).astype(dtype, copy=copy)
