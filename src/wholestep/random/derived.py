"""Distributions made of others: counts of categories, ratios of gammas, points of balls, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.control import scan
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, cast_to, lift, wrap
from wholestep.ir.graph import NDArray
from wholestep.primitives.spectral import qr
from wholestep.random.continuous import exponential, normal, uniform
from wholestep.random.counts import LARGEST, binomial, counted, integer_dtype
from wholestep.random.discrete import rademacher
from wholestep.random.keys import (
    broadcast_parameters,
    drawn_numbers,
    float_of,
    key_of,
    require_known,
    run_in_trace,
    shape_of,
    split,
    valid_or_nan,
)
from wholestep.random.parametric import is_positive, maxwell
from wholestep.random.rejection import loggamma

SUM = 1e-5
"""The largest difference of the sum of probabilities from 1: the rounding error of adding up many float32 numbers."""


@run_in_trace
def multinomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> NDArray:
    """Draw how many of n trials fall into each category, which are as likely as the last axis of p says.

    Counts in small and unsigned dtypes, and parameters that a compiled program finds to be bad, are as in `poisson`.

    Shapes: key u32[2]; n [...] and p [..., k], whose other axes broadcast to `shape`, by default to each other;
    integers of `dtype` and shape [*shape, k], no derivative.
    Raises: ParameterError for an n known to be negative, above 2**62 or no integer, and for p known to hold negative
    numbers or not to sum to 1; DtypeError for a dtype that is not integer, ShapeError for a shape that does not fit.
    Source: binomial numbers of the remaining trials, one category after the other; Devroye, "Non-uniform random variate
    generation", 1986, chapter XI.1.

    >>> import wholestep as ws
    >>> int(ws.random.multinomial(ws.random.key(0), 12, [0.2, 0.3, 0.5]).sum())
    12
    """
    name = "multinomial"
    wanted = integer_dtype(name, dtype)
    key_of(name, key)
    given = lift(p).value
    if not given.ndim or not given.shape[-1]:
        raise ShapeError(f"{name}: p is {given.type}, without an axis of categories")
    k, own = given.shape[-1], given.shape[:-1]
    batch = broadcast_shapes(name, [own, lift(n).value.shape]) if shape is None else shape_of(name, shape)
    _, (trials,) = broadcast_parameters(name, batch, np.dtype(np.float64), n)
    chances = cast_to(broadcast_to(given, (*batch, k)), np.dtype(np.float64))
    require_known(
        name, "n is not an integer from 0 to 2**62", lambda x: (x >= 0) & (x <= LARGEST) & (x == np.floor(x)), trials
    )
    require_known(name, "p is negative somewhere, or does not sum to 1", are_chances, chances)
    rows: Any = wrap(chances)
    total, each = wrap(trials), np.moveaxis(rows, -1, 0)
    usable = (total >= 0) & (total <= LARGEST) & (total == np.floor(total)) & are_chances(rows)
    behind = np.flip(np.cumsum(np.flip(each, 0), axis=0), 0)
    # Where no probability remains, no trials do: the last category of a positive probability has taken them all.
    part = np.where(behind > 0, each / np.where(behind > 0, behind, 1), 1.0)
    part = np.where(usable, np.clip(part, 0.0, 1.0), 0.0)

    def fall(left: Any, row: Any) -> tuple[Any, Any]:
        found = binomial(row[0], left, row[1])
        return left - found, found

    start: Any = np.where(usable, total, 0).astype(np.int64)
    found = np.moveaxis(scan(fall, start, (split(key, k), part))[1], 0, -1)
    fits = np.broadcast_to(usable[..., None], found.shape)
    return drawn_numbers(counted(lift(found).value, lift(fits).value, wanted))


def are_chances(p: Any) -> Any:
    """Test which rows are probabilities that sum to 1."""
    return np.all(p >= 0, axis=-1) & (abs(np.sum(p, axis=-1) - 1) <= SUM)


@run_in_trace
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers whose density is proportional to exp(-|x|**p): Laplace's for p = 1, a normal one for p = 2.

    Shapes: key u32[2]; `p`, positive, broadcasts to `shape`; floats of `dtype` and `shape`, differentiable.
    Raises: as `gamma` does.
    Source: Nardon and Pianca, "Simulation techniques for generalized Gaussian densities", 2009.

    >>> import wholestep as ws
    >>> ws.random.generalized_normal(ws.random.key(0), 3.0, (4,)).shape
    (4,)
    """
    wanted, wide = float_of("generalized_normal", dtype), dtypes.compute_dtype(float_of("generalized_normal", dtype))
    sizes, (power,) = broadcast_parameters("generalized_normal", shape, wide, p)
    require_known("generalized_normal", "p is not positive and finite", is_positive, power)
    first, second = split(key, 2)
    exponent = 1 / wrap(power)
    # The gamma number itself is too small for a number where p is large; its root is not.
    size = np.exp(loggamma(first, exponent, sizes, wide) * exponent)
    return (rademacher(second, sizes, wide) * size).astype(wanted)


@run_in_trace
def ball(key: Any, d: int, p: float = 2.0, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw points of d coordinates evenly from the ball of radius 1 in the p-norm.

    Shapes: key u32[2]; floats of `dtype` and shape [*shape, d].
    Raises: ParameterError for a d that is no positive integer and a p that is not positive, DtypeError for a dtype that
    is not floating, and DtypeError or ShapeError for a bad key.
    Source: Barthe et al., "A probabilistic approach to the geometry of the l_p^n-ball", 2005.

    >>> import numpy as np, wholestep as ws
    >>> points = ws.random.ball(ws.random.key(0), 3, shape=(100,))
    >>> bool((np.linalg.norm(points, axis=1) <= 1).all())
    True
    """
    if not is_integer(d) or d < 1 or not p > 0:
        raise ParameterError(f"ball: d is {d!r} and p {p!r}; a positive integer and a positive number are needed")
    wanted, sizes = float_of("ball", dtype), shape_of("ball", shape)
    wide = dtypes.compute_dtype(wanted)
    first, second = split(key, 2)
    if p == np.inf:
        return uniform(first, (*sizes, d), wide, -1.0, 1.0).astype(wanted)
    g = generalized_normal(first, p, (*sizes, d), wide)
    total = np.sum(abs(g) ** p, axis=-1) + exponential(second, sizes, wide)
    return (g / total[..., None] ** (1 / p)).astype(wanted)


@run_in_trace
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw orthogonal matrices, or unitary ones for a complex dtype, evenly: from the Haar measure.

    Shapes: key u32[2]; floating or complex numbers of `dtype` and shape [*shape, n, n].
    Raises: ParameterError for an n that is no positive integer, DtypeError for another dtype, and DtypeError or
    ShapeError for a bad key.
    Source: Mezzadri, "How to generate random matrices from the classical compact groups", 2007.

    >>> import numpy as np, wholestep as ws
    >>> q = ws.random.orthogonal(ws.random.key(0), 3, dtype=np.float64)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    if not is_integer(n) or n < 1:
        raise ParameterError(f"orthogonal: n is {n!r}; it must be a positive integer")
    wanted, sizes = dtypes.check(dtype), shape_of("orthogonal", shape)
    z = normal(key, (*sizes, n, n), wanted if dtypes.is_complex(wanted) else dtypes.compute_dtype(wanted))
    q, r = [wrap(v) for v in qr(lift(z).value, mode="reduced")]
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return (q * (diagonal / abs(diagonal))[..., None, :]).astype(wanted)


@run_in_trace
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the F distribution: a ratio of mean squares of dfnum and dfden degrees of freedom.

    Shapes: key u32[2]; the parameters, positive, broadcast to `shape`, by default to each other; floats of `dtype`,
    differentiable.
    Raises: as `gamma` does.
    Source: its definition.

    >>> import wholestep as ws
    >>> bool(ws.random.f(ws.random.key(0), 3.0, 5.0) > 0)
    True
    """
    wanted = float_of("f", dtype)
    wide = dtypes.compute_dtype(wanted)
    sizes, degrees = broadcast_parameters("f", shape, wide, dfnum, dfden)
    for v in degrees:
        require_known("f", "a parameter is not positive and finite", is_positive, v)
    keyed = zip(split(key, 2), degrees, strict=True)
    # By logarithms: of few degrees of freedom both squares may be too small for a number.
    logs = [loggamma(own, wrap(v) * 0.5, sizes, wide) - np.log(wrap(v)) for own, v in keyed]
    return np.exp(logs[0] - logs[1]).astype(wanted)


@run_in_trace
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the Wald (inverse Gaussian) distribution of this mean and scale 1.

    Shapes: key u32[2]; `mean`, positive, broadcasts to `shape`, by default its own; floats of `dtype`.
    Raises: as `lognormal` does.
    Source: Michael, Schucany and Haas, "Generating random variates using transformations with multiple roots", 1976.

    >>> import wholestep as ws
    >>> bool(ws.random.wald(ws.random.key(0), 2.0) > 0)
    True
    """
    wanted = float_of("wald", dtype)
    wide = dtypes.compute_dtype(wanted)
    sizes, (value,) = broadcast_parameters("wald", shape, wide, mean)
    require_known("wald", "mean is not positive and finite", is_positive, value)
    first, second = split(key, 2)
    mu = wrap(value)
    y = mu * normal(first, sizes, wide) ** 2
    # The smaller root, without the difference of large numbers.
    small = 2 * mu / (2 + y + np.sqrt(y * (y + 4)))
    return np.where(uniform(second, sizes, wide) <= mu / (mu + small), small, mu * (mu / small)).astype(wanted)


@run_in_trace
def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw loc + scale * x, where x has either sign and |x| the Maxwell distribution.

    Shapes: key u32[2]; `loc` and `scale` broadcast to `shape`, by default to each other, and are differentiable; floats
    of `dtype`.
    Raises: as `maxwell` does, ParameterError for a scale known not to be positive and finite, and ShapeError for
    parameters that do not fit.
    Source: its definition.

    >>> import wholestep as ws
    >>> ws.random.double_sided_maxwell(ws.random.key(0), 0.0, 2.0, (3,)).shape
    (3,)
    """
    name = "double_sided_maxwell"
    wanted = float_of(name, dtype)
    wide = dtypes.compute_dtype(wanted)
    sizes, (centre, width) = broadcast_parameters(name, shape, wide, loc, scale)
    (width,) = valid_or_nan(name, "scale is not positive and finite", is_positive, width)
    first, second = split(key, 2)
    return (wrap(centre) + wrap(width) * rademacher(second, sizes, wide) * maxwell(first, sizes, wide)).astype(wanted)
