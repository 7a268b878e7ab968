"""Ufunc rules: each of NumPy's ufuncs as a primitive, or as a few of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.dispatch import unsupported
from wholestep.frontend.integers import INTEGERS
from wholestep.frontend.promotion import cast_to, full_of
from wholestep.frontend.special import SPECIAL
from wholestep.ir.build import owned
from wholestep.ir.graph import Value
from wholestep.primitives import arithmetic as ar, functions as fn, logic as lo
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY, zeros

Rule = Callable[..., Any]
"""Values of the loop's dtypes and one shape -> a value, or a tuple of values."""


def defined_ufuncs() -> dict[str, Elementwise]:
    """The primitives that a ufunc defines, by the ufunc's name."""
    return {
        (p.reference if isinstance(p.reference, str) else p.reference.__name__): p
        for p in REGISTRY.values()
        if isinstance(p, Elementwise) and isinstance(p.reference, str | np.ufunc)
    }


DIRECT: dict[str, Elementwise] = defined_ufuncs()
"""ufunc name -> the primitive it defines. NumPy's and SciPy's names do not clash where the meaning differs."""


def _absolute(x: Value) -> Any:
    if x.dtype.kind == "c":
        return fn.hypot(ar.real(x), ar.imag(x))
    return x if x.dtype.kind in "bu" else ar.abs(x)


def _sign(x: Value) -> Any:
    if x.dtype.kind != "c":
        return lo.sign(x)
    parts = ar.real(x), ar.imag(x)
    far = [_isinf(part) for part in parts]
    ends = [lo.select(end, lo.sign(part), zeros(part.type)) for end, part in zip(far, parts, strict=True)]
    x = lo.select((far[0] | far[1]) & ~(far[0] & far[1]), ar.make_complex(*ends), x)
    size = fn.hypot(ar.real(x), ar.imag(x))
    nothing = size.equals(0)
    scale = ar.make_complex(lo.select(nothing, size * 0 + 1, size), size * 0)
    return lo.select(ar.real(x * 0).equals(0) & nothing, zeros(x.type), x / scale)


def _heaviside(x: Value, h: Value) -> Any:
    step = lo.select(x < 0, zeros(x.type), zeros(x.type) + 1)
    return lo.select(lo.isnan(x), x, lo.select(x.equals(0), h, step))


def _isinf(x: Value) -> Any:
    if x.dtype.kind == "c":
        return _isinf(ar.real(x)) | _isinf(ar.imag(x))
    return ar.abs(x).equals(math.inf)


def _fmax(x: Value, y: Value, pick: Any = ar.maximum) -> Any:
    if x.dtype.kind in "biu":
        return pick(x, y)
    return pick(lo.select(lo.isnan(x), y, x), lo.select(lo.isnan(y), x, y))  # no nan meets a slope of `pick`


def _of_complex(wins: Any, skips_nan: bool) -> Rule:
    """One of two complex numbers, by their real parts and then by the imaginary ones; equal ones share the slope."""

    def rule(x: Value, y: Value) -> Any:
        first = wins(x, y) | lo.isnan(y if skips_nan else x)
        same = ar.make_complex(*[ar.maximum(part(x), part(y)) for part in (ar.real, ar.imag)])
        return lo.select(x.equals(y), same, lo.select(first, x, y))

    return rule


def _spacing(x: Value) -> Any:
    """The gap to the next number away from zero; of float16, as NumPy has it, to the next larger one."""
    down = x.equals(-math.inf) if x.dtype == np.float16 else x < 0
    ends = [full_of(end, x.shape, x.dtype) for end in (-math.inf, math.inf)]
    return ar.nextafter(x, lo.select(down, *ends)) - x


def _reciprocal(x: Value) -> Any:
    if dtypes.is_inexact(x.dtype):
        return 1 / x
    whole = x.equals(1) if x.dtype.kind == "u" else x.equals(1) | x.equals(-1)
    made = lo.select(whole, x, zeros(x.type))  # cut off towards zero
    if x.dtype.kind == "u" or x.dtype.itemsize < 4:
        return made
    return lo.select(x.equals(0), full_of(np.iinfo(x.dtype).min, x.shape, x.dtype), made)  # as x86-64 converts infinity


def _scaled(x: Value, factor: float) -> Any:
    """A value times a number that half precisions would round before the product."""
    return cast_to(cast_to(x, dtypes.compute_dtype(x.dtype)) * factor, x.dtype)


def _ldexp(x: Value, power: Value) -> Any:
    """By four powers of two, none of which is 0 or infinite, however far the whole power reaches."""
    limits = dtypes.limits(x.dtype)
    reach = full_of(float(limits.maxexp - limits.minexp + 2 * limits.nmant), x.shape, x.dtype)
    whole = ar.maximum(-reach, ar.minimum(reach, cast_to(power, x.dtype)))
    part = lo.trunc(whole / 4)
    scale = fn.exp2(part)
    return x * scale * scale * scale * fn.exp2(whole - 3 * part)


def _modf(x: Value) -> Any:
    # The remainder by 1 has the sign of x, also where it is 0.
    return lo.select(_isinf(x), ar.copysign(zeros(x.type), x), ar.fmod(x, zeros(x.type) + 1)), lo.trunc(x)


def _frexp(x: Value) -> Any:
    whole = x.equals(0) | ~lo.isfinite(x)
    power = lo.floor(fn.log2(lo.select(whole, zeros(x.type) + 1, ar.abs(x)))) + 1
    low = ar.abs(_ldexp(x, -power)) < 0.5
    power = lo.select(low, power - 1, power)
    plain = lo.select(whole, zeros(x.type), power)
    return lo.select(whole, x, _ldexp(x, -power)), cast_to(plain, np.dtype(np.int32))


COMPOSED: dict[str, Rule] = {
    "absolute": _absolute,
    "fabs": ar.abs,
    "sign": _sign,
    "square": lambda x: x * x,
    "reciprocal": _reciprocal,
    "positive": owned,
    "conjugate": lambda x: ar.conj(x) if x.dtype.kind == "c" else x,
    "deg2rad": lambda x: _scaled(x, math.pi / 180),
    "radians": lambda x: _scaled(x, math.pi / 180),
    "rad2deg": lambda x: _scaled(x, 180 / math.pi),
    "degrees": lambda x: _scaled(x, 180 / math.pi),
    "heaviside": _heaviside,
    "isinf": _isinf,
    "fmax": _fmax,
    "fmin": lambda x, y: _fmax(x, y, ar.minimum),
    "spacing": _spacing,
    "divmod": lambda x, y: (ar.floor_divide(x, y), ar.remainder(x, y)),
    "modf": _modf,
    "frexp": _frexp,
    "ldexp": _ldexp,
    "float_power": fn.pow,
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_xor": lo.bitwise_xor,
    "logical_not": lo.bitwise_not,
    "greater": lambda x, y: y < x,
    "greater_equal": lambda x, y: y <= x,
    **SPECIAL,
    **INTEGERS,
}
"""ufuncs made of several primitives, by name."""

OF_COMPLEX: dict[str, Rule] = {
    "maximum": _of_complex(lambda x, y: y <= x, False),
    "minimum": _of_complex(lambda x, y: x <= y, False),
    "fmax": _of_complex(lambda x, y: y <= x, True),
    "fmin": _of_complex(lambda x, y: x <= y, True),
}
"""ufuncs that have another rule for complex numbers, by name."""

INTEGER_IDENTITY = frozenset({"floor", "ceil", "trunc", "rint"})
LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def rule_for(ufunc: np.ufunc, loop: tuple[np.dtype[Any], ...]) -> Rule:
    """The rule of a ufunc for values of the loop's dtypes; raises UnsupportedError where nothing does."""
    name = ufunc.__name__
    kind = loop[0].kind
    if name in INTEGER_IDENTITY and kind in "biu":
        return lambda x: x
    if name in ("isfinite", "isnan", "isinf", "signbit") and kind in "biu":
        known = name == "isfinite"
        return lambda x: x < 0 if name == "signbit" and kind == "i" else full_of(known, x.shape, np.dtype(bool))
    if kind == "c" and name in OF_COMPLEX:
        return OF_COMPLEX[name]
    found: Rule | None = COMPOSED.get(name) or DIRECT.get(name)
    if found is None:
        DIRECT.update(defined_ufuncs())  # a user's primitive may be younger than this table
        found = DIRECT.get(name)
    if found is None:
        raise unsupported(f"{'numpy' if hasattr(np, name) else 'scipy.special'}.{name}")
    if isinstance(found, Elementwise) and _kind(loop[0]) not in found.takes:
        raise UnsupportedError(f"{name}: not covered for dtype {dtypes.short(loop[0])}")
    if name in COMPARISONS and {d.kind for d in loop} == {"i", "u"}:
        return across_signs(ufunc, found)
    return found


def across_signs(ufunc: np.ufunc, compare: Rule) -> Rule:
    """A comparison of signed with unsigned integers: exact, since no integer dtype holds both."""

    def rule(x: Value, y: Value) -> Any:
        first = x.dtype.kind == "i"
        below = bool(ufunc(-1, 0) if first else ufunc(0, -1))
        unsigned = y.dtype if first else x.dtype
        plain = compare(cast_to(x, unsigned), cast_to(y, unsigned))
        return lo.select((x if first else y) < 0, full_of(below, x.shape, plain.dtype), plain)

    return rule


def _kind(dtype: np.dtype[Any]) -> str:
    return {"u": "i", "V": "f"}.get(dtype.kind, dtype.kind)
