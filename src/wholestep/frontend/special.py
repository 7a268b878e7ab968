"""Functions of scipy.special that are made of several primitives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.frontend.integrals import INTEGRALS
from wholestep.frontend.promotion import cast_to
from wholestep.ir.graph import Value
from wholestep.primitives import arithmetic as ar, functions as fn, logic as lo, special as sf
from wholestep.primitives.family import zeros
from wholestep.primitives.incomplete import gammainc, gammaincc


def _xlogy(x: Value, y: Value) -> Any:
    return _times_log(x, y, fn.log, (y <= 0) if y.dtype.kind == "f" else y.equals(0), 1)


def _xlog1py(x: Value, y: Value) -> Any:
    return _times_log(x, y, fn.log1p, (y <= -1) if y.dtype.kind == "f" else y.equals(-1), 0)


def _times_log(x: Value, y: Value, log: Any, outside: Value, safe: float) -> Any:
    """x times a logarithm, and 0 where x is 0 and the logarithm is not finite."""
    nothing = x.equals(0) & (outside | ~lo.isfinite(y) & ~lo.isnan(y))
    return lo.select(nothing, zeros(x.type), x * log(lo.select(nothing, zeros(y.type) + safe, y)))


def _entr(x: Value) -> Any:
    value = -_xlogy(x, x)
    return lo.select(x < 0, zeros(x.type) - math.inf, value)


def _rel_entr(x: Value, y: Value) -> Any:
    both = (x > 0) & (y > 0)
    one = zeros(x.type) + 1
    above, below = lo.select(both, x, one), lo.select(both, y, one)
    ratio = above / below
    normal = lo.isfinite(ratio) & (ratio >= dtypes.limits(x.dtype).tiny)
    main = x * lo.select(normal, fn.log(lo.select(normal, ratio, one)), fn.log(above) - fn.log(below))
    edge = lo.select(x.equals(0) & (y >= 0), zeros(x.type), one * math.inf)
    unknown = lo.isnan(x) | lo.isnan(y)
    return lo.select(both, main, lo.select(unknown, x + y, edge))


def _box(x: Value, power: Value, log: Any, origin: float) -> Any:
    """(exp(power * log) - 1) / power, its limit where the power is 0 or x at the edge or infinite."""
    top = x.equals(math.inf) & ~lo.isnan(power)
    edge = x.equals(origin)
    one = zeros(x.type) + 1
    logarithm = log(lo.select(edge | top, one, x))
    bounded = edge & (power > 0) | top & (power < 0)
    unbounded = lo.select(top, one * math.inf, one * -math.inf)
    limit = lo.select(bounded, -1 / lo.select(bounded, power, one), unbounded)
    return lo.select(edge | top, limit, logarithm * sf.exprel(power * logarithm))


def _inverse_box(y: Value, power: Value) -> Any:
    """log(1 + power * y) / power, through a function of their product that is smooth at 0; nan beyond the domain."""
    one = zeros(y.type) + 1
    product = power * y
    return lo.select(product < -1, one * math.nan, y * sf.hyp2f1(one, one, one + 1, -product))


def _counted(k: Value, made: Value) -> Any:
    """A probability of counts up to k, or above it; nan for k below 0."""
    return lo.select(k < 0, zeros(made.type) + math.nan, made)


def _huber(delta: Value, r: Value) -> Any:
    size = ar.abs(r)
    inside = size <= delta
    near = lo.select(inside, r, zeros(r.type))  # no infinite r meets a cotangent of 0
    made = lo.select(inside, 0.5 * (near * near), delta * (size - 0.5 * delta))
    return lo.select(delta < 0, zeros(r.type) + math.inf, made)


def _pseudo_huber(delta: Value, r: Value) -> Any:
    nothing = delta.equals(0)
    ratio = r / lo.select(nothing, zeros(r.type) + 1, delta)
    made = delta * delta * fn.expm1(0.5 * fn.log1p(ratio * ratio))
    return lo.select(delta < 0, zeros(r.type) + math.inf, made)


SPECIAL: dict[str, Callable[..., Any]] = {
    "xlogy": _xlogy,
    "xlog1py": _xlog1py,
    "entr": _entr,
    "rel_entr": _rel_entr,
    "kl_div": lambda x, y: _rel_entr(x, y) - x + y,
    "boxcox": lambda x, power: _box(x, power, fn.log, 0),
    "boxcox1p": lambda x, power: _box(x, power, fn.log1p, -1),
    "inv_boxcox": lambda y, power: fn.exp(_inverse_box(y, power)),
    "inv_boxcox1p": lambda y, power: fn.expm1(_inverse_box(y, power)),
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
    "_zeta": fn.zeta,
    "kn": lambda n, x: sf.kv(cast_to(n, x.dtype), x),
    "yn": lambda n, x: sf.yv(cast_to(n, x.dtype), x),
    "pdtr": lambda k, m: _counted(k, gammaincc(lo.floor(k) + 1, m)),
    "pdtrc": lambda k, m: _counted(k, gammainc(lo.floor(k) + 1, m)),
    "chdtr": lambda df, x: gammainc(0.5 * df, 0.5 * x),
    "chdtrc": lambda df, x: gammaincc(0.5 * df, 0.5 * x),
    "exp10": lambda x: fn.pow(zeros(x.type) + 10, x),
    **INTEGRALS,
}
"""ufunc name -> values of the loop's dtypes and one shape -> a value."""
