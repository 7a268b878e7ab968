"""The incomplete gamma and beta functions in graph words: series and continued fractions, for as long as one changes.

Press and others, "Numerical recipes", 6.2 and 6.4; where which of them is used is as in SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.export.rules.special import (
    STIRLING,
    log_beta,
    log_gamma,
    polynomial_in,
    taylor_at_two,
    where_else,
)
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import array_type
from wholestep.primitives.arithmetic import abs as absolute
from wholestep.primitives.creation import cast, like
from wholestep.primitives.family import zeros
from wholestep.primitives.functions import exp, expm1, log, log1p, ndtr, sqrt
from wholestep.primitives.logic import equal, isfinite, less, select
from wholestep.primitives.movement import broadcast
from wholestep.primitives.reduction import any_

INTEGER = np.dtype(np.int64)
MOST = 20_000
"""The terms after which a series or a fraction ends in any case."""
ENOUGH = 1e-17
"""The relative change of a sum below which it ends."""
CONVERGED = 2e-16
"""The distance of a factor from 1 at which a continued fraction ends."""


def state_where_done(
    fixed: Sequence[Value],
    start: Sequence[Value],
    step: Callable[..., Sequence[Value]],
    goes_on: Callable[..., Value],
    most: int = MOST,
) -> list[Value]:
    """The state after step(n, *fixed, *state) for n = 1, 2, ...; an element changes while `goes_on` holds for it."""
    count = zeros(array_type((), INTEGER)) + 1
    held = len(fixed)

    def predicate(n: Value, *values: Value) -> Sequence[Value]:
        unfinished = goes_on(*values[held:])
        wanted = any_(unfinished, axes=tuple(range(unfinished.ndim)))
        return (wanted & less(n, like(n, most)),)

    def body(n: Value, *values: Value) -> Sequence[Value]:
        k = broadcast(cast(n, dtype=values[0].dtype), shape=values[0].shape, axes=())
        going, after = goes_on(*values[held:]), step(k, *values)
        return n + 1, *values[:held], *[select(going, w, v) for v, w in zip(values[held:], after, strict=True)]

    types = [v.type for v in (count, *fixed, *start)]
    graphs = [build(f, types, name=name)[0] for f, name in ((predicate, "going"), (body, "step"))]
    found: Any = OPS["while_loop"](count, *fixed, *start, predicate=graphs[0], body=graphs[1], constants=(0, 0))
    return list(found[1 + held :])


def state_of_counted_steps(
    fixed: Sequence[Value], start: Sequence[Value], step: Callable[..., Sequence[Value]], most: int = MOST
) -> list[Value]:
    """The state after steps that repeat while its last value, the remaining work, is above 0 in an element.

    Elements whose last value is still above 0 after `most` steps are NaN, since they have not converged.
    """

    def left(*state: Value) -> Value:
        return state[-1] > 0

    found = state_where_done(fixed, start, step, left, most)
    unknown = left(*found)
    return [where_else(unknown, like(v, math.nan), v) for v in found]


def log_gamma_above_one(a: Value) -> Value:
    """The logarithm of gamma(1 + a), which keeps the digits of a small a."""
    small = absolute(a) < 0.25
    near = where_else(small, a, 0.0)
    return where_else(small, polynomial_in(near, taylor_at_two()) * near - log1p(near), log_gamma(1 + a))


def gamma_weight(a: Value, x: Value) -> Value:
    """x**a exp(-x) / gamma(a); for a large a beside Stirling's series, without the difference of large numbers."""
    large = a >= 8
    b = where_else(large, a, 8.0)
    ratio = where_else(large, x, 8.0) / b
    logarithm = where_else(ratio < 0.5, log(ratio), log1p(where_else(ratio < 0.5, like(x, 0.0), ratio - 1)))
    rest = polynomial_in(1 / (b * b), STIRLING) / b
    beside = exp(-b * (ratio - 1 - logarithm) - rest) * sqrt(b / (2 * math.pi))
    return where_else(large, beside, exp(a * log(x) - x - log_gamma(a)))


def lower_series(a: Value, x: Value) -> Value:
    """P by its power series."""

    def step(n: Value, a: Value, x: Value, term: Value, total: Value) -> Sequence[Value]:
        term = term * (x / (a + n))
        return term, total + term

    _, total = state_where_done((a, x), (1 / a, 1 / a), step, lambda term, total: term > total * ENOUGH)
    return gamma_weight(a, x) * total


def upper_series(a: Value, x: Value) -> Value:
    """1 - P for small arguments by its power series."""

    def step(n: Value, a: Value, x: Value, factor: Value, total: Value) -> Sequence[Value]:
        factor = factor * (-x / n)
        return factor, total + factor / (a + n)

    start = like(x, 1.0), like(x, 0.0)
    _, total = state_where_done((a, x), start, step, lambda factor, total: absolute(factor) > ENOUGH * ENOUGH)
    power = a * log(x)
    return -expm1(power - log_gamma_above_one(a)) - exp(power - log_gamma(a)) * total


def upper_fraction(a: Value, x: Value) -> Value:
    """1 - P by its continued fraction."""

    def step(n: Value, a: Value, x: Value, c: Value, d: Value, h: Value, ratio: Value) -> Sequence[Value]:
        up, down = -n * (n - a), x + 1 - a + 2 * n
        c = down + up / c
        d = 1 / (up * d + down)
        return c, d, h * (c * d), c * d

    first = 1 / (x + 1 - a)
    start = like(x, 1e300), first, first, like(x, 0.0)
    found = state_where_done((a, x), start, step, lambda c, d, h, ratio: absolute(ratio - 1) > CONVERGED)
    return gamma_weight(a, x) * found[2]


def incomplete_gamma(upper: bool) -> Callable[[Value, Value], Value]:
    """P, or 1 - P, of an order above 0 and a number from 0 on."""

    def rule(a: Value, x: Value) -> Value:
        inside = (a > 0) & (x > 0) & isfinite(a) & isfinite(x)
        order, at = where_else(inside, a, 1.0), where_else(inside, x, 1.0)
        small = where_else(at <= 0.5, -0.4 / log(where_else(at <= 0.5, at, 0.5)), at * 1.1)
        fraction = (at > 1.1) & (order <= at)
        series = ~fraction & (at <= 1.1) & (order <= small)
        if not upper:
            series = series & (at > order) & (at > 1)
        others = ~fraction & ~series
        p = lower_series(where_else(others, order, 1.0), where_else(others, at, 0.5))
        q = upper_fraction(where_else(fraction, order, 1.0), where_else(fraction, at, 3.0))
        r = upper_series(where_else(series, order, 1.0), where_else(series, at, 0.5))
        above = where_else(fraction, q, where_else(series, r, 1 - p))
        found = above if upper else where_else(others, p, 1 - above)
        zero, one = (1.0, 0.0) if upper else (0.0, 1.0)
        end = where_else((a > 0) & equal(x, like(x, 0.0)), like(x, zero), math.nan)
        end = where_else((a > 0) & isfinite(a) & equal(x, like(x, math.inf)), like(x, one), end)
        end = where_else(equal(a, like(a, 0.0)) & (x > 0), like(x, one), end)
        return where_else(inside, found, end)

    return rule


def beta_fraction(a: Value, b: Value, x: Value) -> Value:
    """The continued fraction of the incomplete beta function."""

    def step(m: Value, a: Value, b: Value, x: Value, c: Value, d: Value, h: Value, ratio: Value) -> Sequence[Value]:
        for up in (
            m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m)),
        ):
            d = 1 / (1 + up * d)
            c = 1 + up / c
            ratio = c * d
            h = h * ratio
        return c, d, h, ratio

    first = 1 / (1 - (a + b) * x / (a + 1))
    start = like(x, 1.0), first, first, like(x, 0.0)
    found = state_where_done((a, b, x), start, step, lambda c, d, h, ratio: absolute(ratio - 1) > CONVERGED)
    return found[2]


def part_of_beta(a: Value, b: Value, x: Value, rest: Value) -> Value:
    """The incomplete beta function at x = 1 - rest, by its complement where the fraction converges more slowly.

    Where the other parameter is small the complement is nearly 1, and its difference from 1 would cancel.
    """
    inside = (a > 0) & (b > 0) & (x > 0) & (rest > 0) & isfinite(a) & isfinite(b)
    a, b, low, high = (where_else(inside, v, number) for v, number in ((a, 1.0), (b, 1.0), (x, 0.5), (rest, 0.5)))
    turned = (low > (a + 1) / (a + b + 2)) & ((b > 0.1) | (low > 0.9999))
    order, other = where_else(turned, b, a), where_else(turned, a, b)
    at, beyond = where_else(turned, high, low), where_else(turned, low, high)
    weight = exp(order * log(at) + other * where_else(at < 0.5, log1p(-at), log(beyond)) - log_beta(order, other))
    found = weight * beta_fraction(order, other, at) / order
    known = (a > 0) & (b > 0)
    end = where_else(known & equal(x, like(x, 0.0)), like(x, 0.0), math.nan)
    end = where_else(known & equal(rest, like(x, 0.0)), like(x, 1.0), end)
    return where_else(inside, where_else(turned, 1 - found, found), end)


def incomplete_beta(upper: bool) -> Callable[[Value, Value, Value], Value]:
    """The incomplete beta function, or 1 less it."""
    return (lambda a, b, x: part_of_beta(b, a, 1 - x, x)) if upper else lambda a, b, x: part_of_beta(a, b, x, 1 - x)


def student_distribution(freedom: Value, t: Value) -> Value:
    """The distribution of Student's t; with infinitely many degrees of freedom the normal one."""
    square = t * t
    total = freedom + square
    known = isfinite(total)
    safe = where_else(known, total, 1.0)
    x, rest = (where_else(known, v, 0.5) / safe for v in (freedom, square))
    tail = part_of_beta(freedom / 2, like(t, 0.5), x, rest) / 2
    found = where_else(t < 0, tail, 1 - tail)
    found = where_else(absolute(t) < math.inf, found, where_else(t > 0, like(t, 1.0), 0.0))
    found = where_else(equal(freedom, like(t, math.inf)), ndtr(t), found)
    return where_else((freedom > 0) & equal(t, t), found, math.nan)


INCOMPLETE_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "gammainc": incomplete_gamma(False),
    "gammaincc": incomplete_gamma(True),
    "betainc": incomplete_beta(False),
    "betaincc": incomplete_beta(True),
    "stdtr": student_distribution,
}
"""Distributions of the gamma, beta and Student families."""
