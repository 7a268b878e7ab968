"""NumPy and SciPy without types, for code that calls them on traced arrays; and the operands of such calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy
import scipy.special

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import EVALUATED, REPLACED, is_traced, refusing
from wholestep.frontend.promotion import cast_to, lift, promoted
from wholestep.frontend.source.fresh import live
from wholestep.ir.graph import Value

np: Any = numpy
special: Any = scipy.special


def fallback(module: Any, name: str) -> Any:
    """SciPy's object of this name; a function that is not covered refuses traced arguments."""
    found = getattr(module, name)
    if not callable(found) or isinstance(found, type):
        return found
    return refusing(found, f"{module.__name__}.{name}")


def stands_for(outside: Any, ours: Any, made_of: Callable[[Any], Any]) -> None:
    """Let ours be made for a class of SciPy's where traced arrays are given, and of its objects where they are called.

    Its objects made of plain numbers stay SciPy's until then. A class that stands for itself is made of plain ones.
    """

    def construct(*args: Any, **kwargs: Any) -> Any:
        given, named = live(args), live(kwargs)
        return (ours if is_traced(given) or is_traced(named) else outside)(*given, **named)

    if ours is not outside:
        REPLACED[outside] = construct
    EVALUATED[outside] = made_of


def alike(*xs: Any) -> tuple[Any, ...]:
    """Operands in double precision, all traced where one is."""
    traced = is_traced(xs)
    made = [lift(x) if traced else np.asarray(x) for x in xs]
    return tuple([x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False) for x in made])


def doubles(x: Any) -> Any:
    """A traced operand in float64, as scipy.stats computes; a plain one as it is, in float64 too."""
    return lift(x).astype(np.float64, copy=False) if is_traced(x) else np.asarray(x, np.float64)[()]


@lru_cache(maxsize=256)
def dtype_outside(f: Callable[..., Any], *operands: Any, length: int = 3, **options: Any) -> Any:
    """The dtype of a function's result, in which versions of SciPy differ; dtypes stand for vectors of this length.

    SciPy does not take bfloat16, for which float32 stands.
    """

    def example(x: Any) -> Any:
        if not isinstance(x, numpy.dtype):
            return x
        return numpy.arange(1, length + 1).astype("f4" if dtypes.short(x) == "bf16" else x)

    with numpy.errstate(all="ignore"):
        made = f(*map(example, operands), **{name: example(x) for name, x in options.items()})
    return numpy.asarray(made).dtype


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
    """The value, checked to be a stack of square matrices; raises ShapeError."""
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
