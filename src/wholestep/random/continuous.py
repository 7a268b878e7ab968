"""Continuous distributions by inversion: each number is a function of its own words, so it is the same in any batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.frontend.promotion import cast_to
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.arithmetic import make_complex, nextafter
from wholestep.primitives.creation import like
from wholestep.primitives.functions import log, log1p, ndtr, ndtri, tan
from wholestep.primitives.logic import isfinite, less_equal, select
from wholestep.random.keys import (
    Tail,
    broadcast_parameters,
    drawn_numbers,
    float_of,
    key_of,
    normal_tail,
    random_words,
    run_in_trace,
    shape_of,
    tail_of,
    unit_fraction,
    valid_or_nan,
    words_per_number,
)


@run_in_trace
def uniform(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN, minval: Any = 0.0, maxval: Any = 1.0) -> NDArray:
    """Draw uniform numbers from [minval, maxval), of any floating dtype.

    On [0, 1) the numbers are multiples of 2**-53 in float64, 2**-24 in float32, 2**-11 in float16 and 2**-8 in
    bfloat16.

    Shapes: key u32[2]; `minval` and `maxval` broadcast to `shape` and are differentiable; floats of `dtype` and
    `shape`.
    Raises: DtypeError for another dtype, ShapeError for parameters that do not fit, ParameterError where minval is
    known to exceed maxval and for bounds known not to be finite. In a compiled program such numbers are NaN.
    Source: the top bits of the words of `bits`, so that each number is exact.

    >>> import wholestep as ws
    >>> ws.random.uniform(ws.random.key(0), (2, 3)).shape
    (2, 3)
    """
    wanted, sizes, k = float_of("uniform", dtype), shape_of("uniform", shape), key_of("uniform", key)
    u = unit_fraction(random_words(k, sizes, words_per_number(wanted)), wanted)
    if type(minval) in (int, float) and type(maxval) in (int, float) and (minval, maxval) == (0, 1):
        return drawn_numbers(u)
    _, (low, high) = broadcast_parameters("uniform", sizes, wanted, minval, maxval)
    low, high = valid_or_nan("uniform", "minval exceeds maxval, or one is not finite", _is_range, low, high)
    return drawn_numbers(interpolate_below(u, low, high))


def _is_range(low: NDArray, high: NDArray) -> Any:
    return (low <= high) & np.isfinite(low) & np.isfinite(high)


def interpolate_below(u: Value, low: Value, high: Value) -> Value:
    """low + u (high - low), which rounding may not lift to high itself; by halves where the difference is infinite."""
    span, half = high - low, high * 0.5 - low * 0.5
    x = select(isfinite(span), low + u * span, low + u * half + u * half)
    out: Value = select(x >= high, nextafter(high, low), x)
    return out


def standard_normal(t: Tail) -> Value:
    """The inverse of the normal distribution function at a uniform number."""
    return t.signed(-ndtri(t.p))


@run_in_trace
def normal(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the standard normal distribution, of any floating or complex dtype.

    By inversion of the distribution function from a uniform number that is exact near both ends: the tails reach 9.2 in
    float64 and 6.3 in float32. Real and imaginary part of a complex number have variance 1/2 each. For a mean and a
    standard deviation write `mean + std * normal(...)`, which is differentiable in both.

    Shapes: key u32[2]; floats or complex numbers of `dtype` and `shape`.
    Raises: DtypeError for another dtype, and DtypeError or ShapeError for a bad key.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> ws.random.normal(ws.random.key(0), (2, 3), "float32").dtype
    dtype('float32')
    """
    wanted, sizes, k = float_of("normal", dtype, complexes=True), shape_of("normal", shape), key_of("normal", key)
    if dtypes.is_complex(wanted):
        real = dtypes.real_of(wanted)
        count = words_per_number(real)
        parts = random_words(k, sizes, 2 * count)
        x, y = [standard_normal(normal_tail(w, real)) * math.sqrt(0.5) for w in (parts[:count], parts[count:])]
        return drawn_numbers(make_complex(x, y))
    return drawn_numbers(cast_to(standard_normal(tail_of(k, sizes, wanted)), wanted))


@run_in_trace
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the standard normal distribution restricted to [lower, upper].

    Both tails are exact, as far as the distribution function has a value: bounds up to 37 in float64, 12 in float32.
    Where both bounds lie beyond, the numbers are the bound nearer to 0.

    Shapes: key u32[2]; the bounds broadcast to `shape`, by default to each other, and are differentiable; floats of
    `dtype`.
    Raises: as `uniform` does, ParameterError where `lower` is known to exceed `upper`.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> bool(ws.random.truncated_normal(ws.random.key(0), 2.0, 3.0) >= 2.0)
    True
    """
    wanted, k = float_of("truncated_normal", dtype), key_of("truncated_normal", key)
    computed = dtypes.compute_dtype(wanted)
    sizes, (low, high) = broadcast_parameters("truncated_normal", shape, computed, lower, upper)
    low, high = valid_or_nan("truncated_normal", "lower exceeds upper", np.less_equal, low, high)
    mirrored = low > like(low, 0)
    a, b = select(mirrored, -high, low), select(mirrored, -low, high)
    t = tail_of(k, sizes, computed)
    below, above = ndtr(a), ndtr(b)
    gap = above - below
    reached = above > like(above, 0)
    z = ndtri(select(reached, t.pick(above - t.p * gap, below + t.p * gap), like(above, 0.5)))
    z = select(less_equal(z, a), a, select(z >= b, b, z))
    z = select(reached, z, b)
    return drawn_numbers(cast_to(select(mirrored, -z, z), wanted))


def standard_exponential(t: Tail) -> Value:
    """-log of a uniform number."""
    return t.pick(-log1p(-t.p), -log(t.p))


def standard_gumbel(t: Tail) -> Value:
    """-log(-log of a uniform number)."""
    return -log(standard_exponential(t))


def _inverted(name: str, key: Any, shape: Any, dtype: Any, quantile: Any) -> Any:
    """A distribution without parameters: its quantile function at fresh uniform numbers."""
    wanted, sizes = float_of(name, dtype), shape_of(name, shape)
    return drawn_numbers(cast_to(quantile(tail_of(key_of(name, key), sizes, wanted)), wanted))


@run_in_trace
def exponential(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the exponential distribution of rate 1; divide by a rate for another.

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> bool(ws.random.exponential(ws.random.key(0)) > 0)
    True
    """
    return _inverted("exponential", key, shape, dtype, standard_exponential)


@run_in_trace
def gumbel(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the standard Gumbel distribution, P(x <= t) = exp(-exp(-t)).

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: Gumbel, "Statistics of extremes", 1958; by inversion.

    >>> import wholestep as ws
    >>> ws.random.gumbel(ws.random.key(0), (3,)).shape
    (3,)
    """
    return _inverted("gumbel", key, shape, dtype, standard_gumbel)


@run_in_trace
def laplace(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the Laplace distribution of scale 1, with density exp(-|x|) / 2.

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> ws.random.laplace(ws.random.key(0), (3,)).shape
    (3,)
    """
    return _inverted("laplace", key, shape, dtype, lambda t: t.signed(-log(t.p * 2)))


@run_in_trace
def logistic(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the standard logistic distribution, P(x <= t) = 1 / (1 + exp(-t)).

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> ws.random.logistic(ws.random.key(0), (3,)).shape
    (3,)
    """
    return _inverted("logistic", key, shape, dtype, lambda t: t.signed(log1p(-t.p) - log(t.p)))


@run_in_trace
def cauchy(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the standard Cauchy distribution, with density 1 / (pi (1 + x**2)).

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> ws.random.cauchy(ws.random.key(0), (3,)).shape
    (3,)
    """
    return _inverted("cauchy", key, shape, dtype, lambda t: t.signed(1 / tan(t.p * math.pi)))
