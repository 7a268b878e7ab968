"""Counts: Poisson and binomial numbers, by inversion where they are few and by rejection where they are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError
from wholestep.frontend.promotion import cast_to, checked
from wholestep.ir.build import build
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.arithmetic import minimum
from wholestep.primitives.creation import like
from wholestep.primitives.functions import exp, gammaln, log, log1p, sqrt
from wholestep.primitives.logic import floor, select
from wholestep.primitives.reduction import any_
from wholestep.primitives.structure import while_loop
from wholestep.random.continuous import standard_exponential
from wholestep.random.keys import (
    BINOMIAL,
    POISSON,
    broadcast_parameters,
    drawn_numbers,
    key_of,
    normal_tail,
    random_words,
    require_known,
    run_in_trace,
    tail_of,
    unit_fraction,
)
from wholestep.random.rejection import until_accepted

_DOUBLE = np.dtype(np.float64)

FEW = 10
"""The mean below which counts are drawn by inversion."""
MOST_TERMS = 110
"""More terms than these of a distribution of mean below `FEW` add nothing to its sum in float64."""
LARGEST = 2.0**62
"""The largest mean, number of trials and count."""


def integer_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """An integer dtype; raises DtypeError for another."""
    wanted = checked(dtype)
    if not dtypes.is_integer(wanted):
        raise DtypeError(f"{name}: dtype {wanted} is not an integer")
    return wanted


def counted(found: Value, usable: Value, dtype: np.dtype[Any]) -> Value:
    """Counts in an integer dtype: its largest number for those above it, -1 for parameters that are not usable."""
    most = minimum(found, like(found, min(np.iinfo(dtype).max, int(LARGEST))))
    return cast_to(select(usable, most, like(found, -1)), dtype)


@run_in_trace
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = np.int64) -> NDArray:
    """Draw counts from the Poisson distribution of mean lam, of any integer dtype; worked out in float64.

    A count above the largest number of the dtype is that number. In a compiled program the result is -1 for a lam that
    is refused otherwise, as an unsigned number its largest one.

    Shapes: key u32[2]; `lam` broadcasts to `shape`, by default its own; integers of `dtype`, no derivative.
    Raises: ParameterError for a lam known to be negative or above 2**62, DtypeError for a dtype that is not integer,
    ShapeError for a shape that does not fit.
    Source: inversion below 10; above, PTRS of Hörmann, "The transformed rejection method for generating Poisson random
    variables", 1993.

    >>> import wholestep as ws
    >>> int(ws.random.poisson(ws.random.key(0), 0.0))
    0
    """
    wanted, k = integer_dtype("poisson", dtype), key_of("poisson", key)
    _, (v,) = broadcast_parameters("poisson", shape, _DOUBLE, lam)
    require_known("poisson", "lam is negative or above 2**62", lambda x: (x >= 0) & (x <= LARGEST), v)
    usable = (v >= 0) & (v <= LARGEST)
    low = minimum(select(usable, v, like(v, 0)), like(v, FEW))
    high = select(usable & (v >= FEW), v, like(v, FEW))
    few = inverted(k, exp(-low), lambda count, lam: lam / count, low)
    found = select(v < FEW, few, many_poisson(k, high, ~(v >= FEW)))
    return drawn_numbers(counted(found, usable, wanted))


@run_in_trace
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> NDArray:
    """Draw the number of successes of n trials that succeed with probability p each; worked out in float64.

    Counts in small and unsigned dtypes, and parameters that a compiled program finds to be bad, are as in `poisson`.

    Shapes: key u32[2]; `n` and `p` broadcast to `shape`, by default to each other; integers of `dtype`, no derivative.
    Raises: ParameterError for an n known to be negative, above 2**62 or no integer, or a p outside [0, 1]; DtypeError
    for a dtype that is not integer, ShapeError for a shape that does not fit.
    Source: inversion where n min(p, 1 - p) is below 10; else BTRS of Hörmann, "The generation of binomial random
    variates", 1993.

    >>> import wholestep as ws
    >>> int(ws.random.binomial(ws.random.key(0), 12, 1.0))
    12
    """
    wanted, k = integer_dtype("binomial", dtype), key_of("binomial", key)
    _, (trials, chance) = broadcast_parameters("binomial", shape, _DOUBLE, n, p)
    require_known(
        "binomial",
        "n is not an integer from 0 to 2**62",
        lambda x: (x >= 0) & (x <= LARGEST) & (x == np.floor(x)),
        trials,
    )
    require_known("binomial", "p is outside [0, 1]", lambda x: (x >= 0) & (x <= 1), chance)
    usable = (trials >= 0) & (trials <= LARGEST) & floor(trials).equals(trials) & (chance >= 0) & (chance <= 1)
    trials = select(usable, trials, like(trials, 0))
    chance = select(usable, chance, like(chance, 0))
    turned = chance > 0.5
    rare = select(turned, 1 - chance, chance)
    many = trials * rare >= FEW
    # Each way gets parameters that it can do with where the other one is taken.
    few_rare = select(many, like(rare, 0), rare)
    odds = few_rare / (1 - few_rare)
    few = inverted(
        k, exp(trials * log1p(-few_rare)), lambda count, n, odds: (n - count + 1) / count * odds, trials, odds
    )
    half = like(rare, 0.5)
    successes = select(
        many,
        many_binomial(k, select(many, trials, like(rare, 2 * FEW)), select(many, rare, half), ~many),
        minimum(few, trials),
    )
    found = select(turned, trials - successes, successes)
    return drawn_numbers(counted(found, usable, wanted))


@run_in_trace
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> NDArray:
    """Draw the number of trials up to the first success, 1 or more, each of which succeeds with probability p.

    Counts above 2**62 are 2**62. Small dtypes and bad parameters are as in `poisson`.

    Shapes: key u32[2]; `p` broadcasts to `shape`, by default its own; integers of `dtype`, no derivative.
    Raises: ParameterError for a p known to lie outside (0, 1], DtypeError for a dtype that is not integer, ShapeError
    for a shape that does not fit.
    Source: Devroye, "Non-uniform random variate generation", 1986, chapter X.2.

    >>> import wholestep as ws
    >>> int(ws.random.geometric(ws.random.key(0), 1.0))
    1
    """
    wanted, k = integer_dtype("geometric", dtype), key_of("geometric", key)
    sizes, (chance,) = broadcast_parameters("geometric", shape, _DOUBLE, p)
    require_known("geometric", "p is outside (0, 1]", lambda x: (x > 0) & (x <= 1), chance)
    usable = (chance > 0) & (chance <= 1)
    chance = select(usable, chance, like(chance, 1))
    failures = floor(standard_exponential(tail_of(k, sizes, _DOUBLE)) / -log1p(-chance))
    return drawn_numbers(counted(failures + 1, usable, wanted))


def inverted(key: Value, first: Value, ratio: Callable[..., Value], *fixed: Value) -> Value:
    """The least count whose distribution function exceeds a uniform number.

    The distribution begins with the probability `first` of 0, and `ratio(count, *fixed)` is the probability of a count
    over that of the one before it. Its mean is below `FEW`.
    """
    u = unit_fraction(random_words(key, first.shape, 2), _DOUBLE)
    start = (u, *fixed, like(u, 0), first, first)
    types = [v.type for v in start]

    def waiting(u: Value, count: Value, total: Value) -> Value:
        on: Value = (u >= total) & (count < MOST_TERMS)
        return on

    def going(u: Value, *values: Value) -> list[Value]:
        *_, count, _, total = values
        return [any_(waiting(u, count, total), axes=tuple(range(u.ndim)))]

    def step(u: Value, *values: Value) -> list[Value]:
        *held, count, term, total = values
        on = waiting(u, count, total)
        after = select(on, term * ratio(count + 1, *held), term)
        return [u, *held, select(on, count + 1, count), after, select(on, total + after, total)]

    predicate, _ = build(going, types, name="going")
    body, _ = build(step, types, name="step")
    return while_loop(*start, predicate=predicate, body=body, constants=(0, 0))[1 + len(fixed)]


def many_poisson(key: Value, lam: Value, done: Value) -> Value:
    """PTRS for lam of 10 and more."""
    b = sqrt(lam) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    scale = 1.1328 / (b - 3.4) + 1.1239
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def log_density(count: Value, lam: Value) -> Value:
        found: Value = count * log(lam) - lam - gammaln(count + 1)
        return found

    def impossible(count: Value, us: Value, v: Value, lam: Value) -> Value:
        found: Value = (count < 0) | ((us < 0.013) & (v > us))
        return found

    return transformed(key, POISSON, done, [a, b, lam + 0.43, scale, squeeze], log_density, impossible, lam)


def many_binomial(key: Value, n: Value, p: Value, done: Value) -> Value:
    """BTRS for p up to 1/2 and n p of 10 and more."""
    deviation = sqrt(n * p * (1 - p))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 - 0.0873 + p * 0.01
    scale = (5.1 / b + 2.83) * deviation
    squeeze = 0.92 - 4.2 / b
    log_odds = log(p) - log1p(-p)
    mode = floor((n + 1) * p)

    def log_weight(count: Value, n: Value) -> Value:
        found: Value = -gammaln(count + 1) - gammaln(n - count + 1)
        return found

    def log_density(count: Value, n: Value, log_odds: Value, mode: Value) -> Value:
        found: Value = log_weight(count, n) - log_weight(mode, n) + (count - mode) * log_odds
        return found

    def impossible(count: Value, us: Value, v: Value, n: Value, *_: Value) -> Value:
        found: Value = (count < 0) | (count > n)
        return found

    constants = [a, b, n * p + 0.5, scale, squeeze]
    return transformed(key, BINOMIAL, done, constants, log_density, impossible, n, log_odds, mode)


def transformed(
    key: Value,
    stream: int,
    done: Value,
    constants: Sequence[Value],
    log_density: Callable[..., Value],
    impossible: Callable[..., Value],
    *fixed: Value,
) -> Value:
    """A ratio of uniforms with a squeeze: its constants, the log of the density of a count, and counts that are none.

    `log_density(count, *fixed)` is taken over that of the mode where `scale` is; `impossible(count, us, v, *fixed)`
    says where a proposal is refused at once.
    """
    shape = done.shape

    def propose(turn: Value, key: Value, *values: Value) -> tuple[Value, Value]:
        a, b, centre, scale, squeeze, *held = values
        parts = random_words(key, shape, 4, stream=stream, data=turn)
        side, e = normal_tail(parts[:2], _DOUBLE), standard_exponential(normal_tail(parts[2:], _DOUBLE))
        us, u = side.p, side.pick(0.5 - side.p, side.p - 0.5)
        count = floor((a * 2 / us + b) * u + centre)
        v = exp(-e)
        outside = impossible(count, us, v, *held)
        safe = select(outside, like(count, 0), count)
        below = log(scale) - e - log(a / (us * us) + b) <= log_density(safe, *held)
        return ((us >= 0.07) & (v <= squeeze) & ~outside) | (~outside & below), count

    return until_accepted(propose, [key, *constants, *fixed], done, like(constants[0], 0))
