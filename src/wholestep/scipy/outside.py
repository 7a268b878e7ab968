"""NumPy and SciPy without types, for code that calls them on traced arrays; and the operands of such calls."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.special

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import is_traced, refusing
from wholestep.frontend.promotion import cast_to, lift, promoted
from wholestep.ir.graph import Value

np: Any = numpy
special: Any = scipy.special


def fallback(module: Any, name: str) -> Any:
    """SciPy's object of this name; a function that is not covered refuses traced arguments."""
    found = getattr(module, name)
    if not callable(found) or isinstance(found, type):
        return found
    return refusing(found, f"{module.__name__}.{name}")


def doubles(x: Any) -> Any:
    """A traced operand in float64, as scipy.stats computes; a plain one as it is, in float64 too."""
    return lift(x).astype(np.float64, copy=False) if is_traced(x) else np.asarray(x, np.float64)[()]


def ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0."""
    return np.where(b == 0, 0, a / np.where(b == 0, 1, b))


def lapack_operands(name: str, *xs: Any) -> list[Value]:
    """Operands in the one dtype that LAPACK computes in: integers in float64."""
    values = promoted(*[lift(x) for x in xs])
    dtype = values[0].dtype
    if dtype.kind in "biu":
        return [cast_to(v, np.dtype(np.float64)) for v in values]
    if dtypes.short(dtype) in ("f16", "bf16"):
        raise DtypeError(f"{name}: does not take {dtypes.short(dtype)}", hint="cast to float32 or float64 first")
    return values


def check_square(name: str, v: Value) -> Value:
    """The same value where it is a stack of square matrices."""
    if v.ndim < 2 or v.shape[-1] != v.shape[-2]:
        raise ShapeError(f"{name}: takes square matrices, not {v.type}")
    return v


def square_operand(name: str, a: Any) -> Value:
    """A stack of square matrices in the dtype that LAPACK computes in."""
    (v,) = lapack_operands(name, a)
    return check_square(name, v)


def refuse_estimate(name: str, disp: Any) -> None:
    """Raise UnsupportedError for disp=False."""
    if not disp:
        raise UnsupportedError(f"{name}: disp=False, which estimates the error, is not covered for traced arrays")
