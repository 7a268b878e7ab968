"""Continuous distributions with parameters by inversion: each number is a differentiable function of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, cast_to, lift
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.creation import like
from wholestep.primitives.functions import exp, log, sqrt
from wholestep.primitives.linalg import cholesky
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast
from wholestep.primitives.reduction import sum_
from wholestep.random.continuous import standard_exponential, standard_normal
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
    valid_or_nan,
    words_per_number,
)


def is_positive(x: NDArray) -> Any:
    """Test which numbers are positive and finite."""
    return (x > 0) & np.isfinite(x)


def _positive(name: str, key: Any, shape: Any, dtype: Any, quantile: Callable[..., Value], *given: Any) -> Any:
    """A distribution of positive parameters: its quantile function at fresh uniform numbers."""
    wanted, k = float_of(name, dtype), key_of(name, key)
    sizes, values = broadcast_parameters(name, shape, dtypes.compute_dtype(wanted), *given)
    values = [v for x in values for v in valid_or_nan(name, "a parameter is not positive and finite", is_positive, x)]
    return drawn_numbers(cast_to(quantile(tail_of(k, sizes, wanted), *values), wanted))


@run_in_trace
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers whose logarithm is normal of mean 0 and standard deviation sigma; multiply by exp(mean) for another.

    Shapes: key u32[2]; `sigma`, positive, broadcasts to `shape`, by default its own, and is differentiable; floats of
    `dtype`.
    Raises: ParameterError for a sigma known not to be positive and finite, DtypeError for a dtype that is not floating,
    ShapeError for parameters that do not fit.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> bool(ws.random.lognormal(ws.random.key(0), 0.5) > 0)
    True
    """
    return _positive("lognormal", key, shape, dtype, lambda t, sigma: exp(sigma * standard_normal(t)), sigma)


@run_in_trace
def rayleigh(key: Any, scale: Any = 1.0, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the Rayleigh distribution, P(x > t) = exp(-t**2 / (2 scale**2)).

    Shapes: key u32[2]; `scale`, positive, broadcasts to `shape`, by default its own, and is differentiable; floats of
    `dtype`.
    Raises: as `lognormal` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> bool(ws.random.rayleigh(ws.random.key(0), 2.0) > 0)
    True
    """

    def quantile(t: Tail, scale: Value) -> Value:
        return scale * sqrt(standard_exponential(t) * 2)

    return _positive("rayleigh", key, shape, dtype, quantile, scale)


@run_in_trace
def weibull_min(
    key: Any, scale: Any = 1.0, concentration: Any = 1.0, shape: Any = None, dtype: Any = dtypes.DRAWN
) -> NDArray:
    """Draw numbers from the Weibull distribution, P(x > t) = exp(-(t / scale)**concentration).

    Shapes: key u32[2]; the parameters, positive, broadcast to `shape`, by default to each other, and are
    differentiable; floats of `dtype`.
    Raises: as `lognormal` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> ws.random.weibull_min(ws.random.key(0), 2.0, 1.5, (3,)).shape
    (3,)
    """

    def quantile(t: Tail, scale: Value, concentration: Value) -> Value:
        return scale * exp(log(standard_exponential(t)) / concentration)

    return _positive("weibull_min", key, shape, dtype, quantile, scale, concentration)


@run_in_trace
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers of at least 1 from the Pareto distribution, P(x > t) = t**-b.

    Shapes: key u32[2]; `b`, positive, broadcasts to `shape`, by default its own, and is differentiable; floats of
    `dtype`.
    Raises: as `lognormal` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> bool(ws.random.pareto(ws.random.key(0), 3.0) >= 1)
    True
    """
    return _positive("pareto", key, shape, dtype, lambda t, b: exp(standard_exponential(t) / b), b)


@run_in_trace
def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from [left, right] whose density rises evenly up to the mode and falls evenly from there.

    Shapes: key u32[2]; the parameters broadcast to `shape`, by default to each other, and are differentiable; floats of
    `dtype`.
    Raises: ParameterError where left <= mode <= right and left < right is known not to hold, DtypeError for a dtype
    that is not floating, ShapeError for parameters that do not fit.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter II.2.

    >>> import wholestep as ws
    >>> 0 <= float(ws.random.triangular(ws.random.key(0), 0.0, 1.0, 4.0)) <= 4
    True
    """
    wanted, k = float_of("triangular", dtype), key_of("triangular", key)
    sizes, (low, peak, high) = broadcast_parameters(
        "triangular", shape, dtypes.compute_dtype(wanted), left, mode, right
    )
    low, peak, high = valid_or_nan(
        "triangular",
        "left <= mode <= right with left below right does not hold",
        lambda a, b, c: (a <= b) & (b <= c) & (a < c),
        low,
        peak,
        high,
    )
    t = tail_of(k, sizes, wanted)
    below, above = t.pick(1 - t.p, t.p), t.pick(t.p, 1 - t.p)
    rising = below * (high - low) < peak - low
    one = like(low, 1)
    # Each root is of a positive number where the other one is taken, so that no derivative of it is infinite.
    rise = sqrt(select(rising, below * (high - low) * (peak - low), one))
    fall = sqrt(select(rising, one, above * (high - low) * (high - peak)))
    return drawn_numbers(cast_to(select(rising, low + rise, high - fall), wanted))


@run_in_trace
def maxwell(key: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw lengths of vectors of three standard normal numbers: the Maxwell distribution of scale 1.

    Shapes: key u32[2]; floats of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not floating, and DtypeError or ShapeError for a bad key.
    Source: its definition.

    >>> import wholestep as ws
    >>> bool(ws.random.maxwell(ws.random.key(0)) > 0)
    True
    """
    wanted, sizes, k = float_of("maxwell", dtype), shape_of("maxwell", shape), key_of("maxwell", key)
    computed = dtypes.compute_dtype(wanted)
    count = words_per_number(computed)
    words = random_words(k, sizes, 3 * count)
    x, y, z = [standard_normal(normal_tail(words[i * count : (i + 1) * count], computed)) for i in range(3)]
    return drawn_numbers(cast_to(sqrt(x * x + y * y + z * z), wanted))


@run_in_trace
def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw vectors from the normal distribution of a mean and a covariance matrix.

    Shapes: key u32[2]; mean [..., n] and cov [..., n, n], positive definite, whose other axes broadcast to `shape`, by
    default to each other; both are differentiable; floats of `dtype` and shape [*shape, n].
    Raises: ShapeError for parameters that do not fit, DtypeError for a dtype that is not floating, and
    numpy.linalg.LinAlgError for a matrix that is not positive definite.
    Source: the mean and the Cholesky factor times standard normal numbers.

    >>> import numpy as np, wholestep as ws
    >>> ws.random.multivariate_normal(ws.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    name = "multivariate_normal"
    wanted, k = float_of(name, dtype), key_of(name, key)
    computed = dtypes.compute_dtype(wanted)
    centre, matrix = [lift(x).value for x in (mean, cov)]
    for v in (centre, matrix):
        if dtypes.is_complex(v.dtype):
            raise DtypeError(f"{name}: a parameter is {v.type}, not real")
    if not centre.ndim or matrix.ndim < 2 or not (matrix.shape[-1] == matrix.shape[-2] == centre.shape[-1]):
        raise ShapeError(
            f"{name}: a mean [n] and a covariance [n, n] do not have shapes {centre.shape} and {matrix.shape}"
        )
    n, common = centre.shape[-1], broadcast_shapes(name, [centre.shape[:-1], matrix.shape[:-2]])
    batch = common if shape is None else shape_of(name, shape)
    if broadcast_shapes(name, [common, batch]) != batch:
        raise ShapeError(f"{name}: parameters of shape {common} do not broadcast to shape {batch}")
    factor = broadcast_to(cholesky(cast_to(matrix, computed)), (*batch, n, n))
    z = standard_normal(tail_of(k, (*batch, n), computed))
    rows = broadcast(z, shape=(*batch, n, n), axes=(*range(len(batch)), len(batch) + 1))
    moved = broadcast_to(cast_to(centre, computed), (*batch, n)) + sum_(factor * rows, axes=(len(batch) + 1,))
    return drawn_numbers(cast_to(moved, wanted))
