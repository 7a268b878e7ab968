"""Distributions by rejection: propose until accepted, each element with the words of its own turn, in one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import ParameterError
from wholestep.frontend.promotion import cast_to, full_of, lift, wrap
from wholestep.frontend.stated_rules import BatchedTangent
from wholestep.ir.build import build
from wholestep.ir.graph import NDArray, Value
from wholestep.ir.types import Shape
from wholestep.primitives.creation import like
from wholestep.primitives.functions import digamma, exp, gammaln, log, logaddexp, sqrt
from wholestep.primitives.incomplete import gammainc_order
from wholestep.primitives.logic import isfinite, select
from wholestep.primitives.marks import stop_gradient
from wholestep.primitives.movement import broadcast, reshape, slice_
from wholestep.primitives.random import WORD, random_bits
from wholestep.primitives.reduction import any_, max_, sum_
from wholestep.primitives.structure import custom_jvp, while_loop
from wholestep.random.continuous import standard_exponential, standard_normal
from wholestep.random.keys import (
    GAMMA,
    SPLIT,
    broadcast_parameters,
    float_of,
    key_of,
    normal_tail,
    random_words,
    require_known,
    run_in_trace,
    shape_of,
    tail_of,
    words_per_number,
)

_DOUBLE = np.dtype(np.float64)

TINY, LARGE = -40.0, 1e5
"""The logarithm of a variate, and the shape parameter, beyond which another formula has the derivative."""

Proposal = Callable[..., tuple[Value, Value]]
"""(turn, *fixed) -> (accepted, proposal), elementwise."""


def until_accepted(propose: Proposal, fixed: Sequence[Value], done: Value, out: Value) -> Value:
    """Repeat (turn, *fixed) -> (accepted, proposal) and keep each element's first accepted proposal.

    An element that is `done` from the start keeps `out`. An element depends on its own random words alone, so a row of
    a batch is equal to the row computed by itself.
    """

    def waiting(turn: Value, done: Value, out: Value) -> list[Value]:
        return [any_(~done, axes=tuple(range(done.ndim)))]

    def again(*values: Value) -> list[Value]:
        *given, turn, done, out = values
        accepted, proposal = propose(turn, *given)
        return [turn + 1, done | accepted, select(accepted & ~done, proposal, out)]

    start = [full_of(0, (), WORD), done, out]
    types = [v.type for v in start]
    predicate, _ = build(waiting, types, name="waiting")
    body, captured = build(again, [*[v.type for v in fixed], *types], name="again")
    assert not captured
    _, _, found = while_loop(*fixed, *start, predicate=predicate, body=body, constants=(0, len(fixed)))
    return found


def accepted_log_gamma(key: Value, a: Value) -> Value:
    """The logarithm of gamma variates of shape parameter a, exact for small a as well; NaN where a is not positive.

    Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. For a < 1: gamma(a + 1) U**(1 / a).
    """
    shape, dtype = a.shape, a.dtype
    valid = (a > 0) & isfinite(a)
    a = select(valid, a, like(a, 1))
    small = a < 1
    d = select(small, a + 1, a) - 1 / 3
    c = 1 / sqrt(d * 9)
    count = words_per_number(dtype)

    def propose(turn: Value, key: Value, d: Value, c: Value) -> tuple[Value, Value]:
        parts = random_words(key, shape, 2 * count, stream=GAMMA, data=turn)
        x = standard_normal(normal_tail(parts[:count], dtype))
        e = standard_exponential(normal_tail(parts[count:], dtype))
        t = x * c + 1
        positive = t > 0
        v = 3 * log(select(positive, t, like(t, 1)))
        return positive & (-e < x * x * 0.5 + d - d * exp(v) + d * v), v

    v = until_accepted(propose, [key, d, c], ~valid, like(a, np.nan))
    boost = standard_exponential(tail_of(key, shape, dtype)) / a
    return log(d) + v - select(small, boost, like(a, 0))


class FixedShare:
    """The derivative of z, the logarithm of a gamma variate x, in the shape parameter a, at a constant P(a, x).

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018.
    """

    stated = "log_gamma"
    """The name of the function that has it."""

    def batched(self, batching: Any, on: Sequence[bool]) -> Any:
        return BatchedTangent(self, batching, on)

    def tangent(self, xs: Sequence[Value], dxs: Sequence[Value]) -> list[Value]:
        (z, a), (dz, da) = xs, dxs
        return [dz + cast_to(log_gamma_slope(cast_to(z, _DOUBLE), cast_to(a, _DOUBLE)), z.dtype) * da]


def log_gamma_slope(z: Value, a: Value) -> Value:
    """dz / da at a constant P(a, exp(z)), in double precision.

    -(dP / da) / (x dP / dx). For tiny x, P is x**a / gamma(a + 1); for large a, Wilson and Hilferty's
    (x / a)**(1 / 3) = 1 - 1 / (9 a) + w / (3 sqrt(a)) with a normal number w is more exact than long sums are.
    """
    one = like(a, 1)
    tiny, large = z < TINY, a > LARGE
    log_x, order = select(tiny | large, like(z, 0), z), select(large, one, a)
    x = exp(log_x)
    middle = -gammainc_order(order, x) / exp(order * log_x - x - gammaln(order))
    root = exp(select(large, z - log(a), like(z, 0)) / 3)
    normal = (root - 1 + 1 / (9 * a)) * 3 * sqrt(a)
    upper = 1 / a + (1 / (3 * a) - normal / (2 * sqrt(a))) / (a * root)
    made: Value = select(large, upper, select(tiny, (digamma(order + 1) - z) / order, middle))
    return made


def log_gamma_sample(key: Value, a: Value) -> Value:
    """A logarithm of a gamma variate, with its derivative in a."""
    z = accepted_log_gamma(key, stop_gradient(a))
    graph, _ = build(lambda z, a: [z], [z.type, a.type], name="log_gamma")
    (out,) = custom_jvp(z, a, graph=graph, rule=FixedShare())
    return out


def _drawn(name: str, program: Callable[..., Value], key: Any, shape: Any, dtype: Any, *given: Any) -> Any:
    """Samples by a program of a key and positive parameters, at the precision of the work, then of the result."""
    wanted, k = float_of(name, dtype), key_of(name, key)
    _, values = broadcast_parameters(name, shape, dtypes.compute_dtype(wanted), *given)
    for v in values:
        require_known(name, "a parameter is not positive and finite", lambda x: (x > 0) & np.isfinite(x), v)
    return wrap(cast_to(program(k, *values), wanted))


def halves(key: Value) -> tuple[Value, Value]:
    """Two fresh keys, those of `split`."""
    both = random_bits(key, full_of(0, (), WORD), shape=(2, 2), stream=SPLIT)
    first, second = [reshape(slice_(both, start=(i, 0), stop=(i + 1, 2), step=(1, 1)), shape=(2,)) for i in range(2)]
    return first, second


@run_in_trace
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the gamma distribution of shape parameter a and scale 1; multiply by a scale for another.

    Shapes: key u32[2]; `a`, positive, broadcasts to `shape`, by default its own; floats of `dtype`, differentiable in
    a once: a number moves so that the share of the distribution below it stays.
    Raises: ParameterError for an a known not to be positive, DtypeError or ShapeError for a bad key, dtype or shape,
    and DerivativeError where a second derivative in a is asked for.
    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; Figurnov, Mohamed and Mnih,
    "Implicit reparameterization gradients", 2018.

    >>> import wholestep as ws
    >>> bool(ws.random.gamma(ws.random.key(0), 2.5) > 0)
    True
    """
    return _drawn("gamma", lambda key, a: exp(log_gamma_sample(key, a)), key, shape, dtype, a)


@run_in_trace
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw logarithms of numbers from the gamma distribution of shape parameter a, for numbers that may underflow.

    The results are the logarithms of the numbers of `gamma` for the same key: for an a of 0.001 most of these are
    below every float. Add the logarithm of a scale for another one.

    Shapes: key u32[2]; `a`, positive, broadcasts to `shape`, by default its own; floats of `dtype`, differentiable in
    a as `gamma` is.
    Raises: as `gamma` does.
    Source: that of `gamma`.

    >>> import wholestep as ws
    >>> key = ws.random.key(0)
    >>> round(float(ws.random.loggamma(key, 0.001))), float(ws.random.gamma(key, 0.001))
    (-225, 0.0)
    """
    return _drawn("loggamma", log_gamma_sample, key, shape, dtype, a)


@run_in_trace
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the chi-square distribution of df degrees of freedom.

    Shapes: key u32[2]; `df`, positive, broadcasts to `shape`, by default its own; floats of `dtype`, differentiable.
    Raises: as `gamma` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter IX.3.

    >>> import wholestep as ws
    >>> bool(ws.random.chisquare(ws.random.key(0), 3.0) > 0)
    True
    """
    return _drawn("chisquare", lambda key, df: exp(log_gamma_sample(key, df * 0.5)) * 2, key, shape, dtype, df)


@run_in_trace
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from the beta distribution with parameters a and b.

    x / (x + y) of two gamma variates, by their logarithms, so that small parameters do not give 0 / 0.

    Shapes: key u32[2]; a and b, positive, broadcast to `shape`, by default together; floats of `dtype`, differentiable.
    Raises: as `gamma` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter IX.4.

    >>> import wholestep as ws
    >>> 0 < float(ws.random.beta(ws.random.key(0), 2.0, 3.0)) < 1
    True
    """

    def ratio(key: Value, a: Value, b: Value) -> Value:
        first, second = halves(key)
        x, y = log_gamma_sample(first, a), log_gamma_sample(second, b)
        return exp(x - logaddexp(x, y))

    return _drawn("beta", ratio, key, shape, dtype, a, b)


@run_in_trace
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw points of the simplex from the Dirichlet distribution with concentrations alpha, along its last axis.

    Shapes: key u32[2]; alpha [..., n], positive, its other axes broadcasting to `shape`, by default their own; floats
    of `dtype` and shape [*shape, n], differentiable.
    Raises: as `gamma` does, and ParameterError for an alpha without axes.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter XI.4.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.isclose(ws.random.dirichlet(ws.random.key(0), [1.0, 2.0, 3.0]).sum(), 1.0))
    True
    """
    own = lift(alpha).value.shape
    if not own:
        raise ParameterError("dirichlet: alpha has no axis of concentrations")
    batch = own[:-1] if shape is None else shape_of("dirichlet", shape)

    def point(key: Value, alpha: Value) -> Value:
        x = log_gamma_sample(key, alpha)
        last, axes = (alpha.ndim - 1,), tuple(range(alpha.ndim - 1))
        whole = {"shape": alpha.shape, "axes": axes}
        x = exp(x - repeat_to_shape(max_(x, axes=last), **whole))
        return x / repeat_to_shape(sum_(x, axes=last), **whole)

    return _drawn("dirichlet", point, key, (*batch, own[-1]), dtype, alpha)


@run_in_trace
def t(key: Any, df: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw numbers from Student's t distribution of df degrees of freedom.

    Shapes: key u32[2]; `df`, positive, broadcasts to `shape`, by default its own; floats of `dtype`, differentiable.
    Raises: as `gamma` does.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter IX.5.

    >>> import wholestep as ws
    >>> ws.random.t(ws.random.key(0), 3.0, (2,)).shape
    (2,)
    """

    def ratio(key: Value, df: Value) -> Value:
        first, second = halves(key)
        z = standard_normal(tail_of(first, df.shape, df.dtype))
        return z * exp((log(df * 0.5) - log_gamma_sample(second, df * 0.5)) * 0.5)

    return _drawn("t", ratio, key, shape, dtype, df)


def repeat_to_shape(x: Value, shape: Shape, axes: tuple[int, ...]) -> Value:
    """x repeated along the axes of a shape that are not its own."""
    out: Value = broadcast(x, shape=shape, axes=axes)
    return out
