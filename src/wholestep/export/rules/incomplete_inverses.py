"""Inverses of the incomplete gamma and beta functions in graph words: by halving an interval of logarithms or logits.

The end of the distribution that is less than 1/2 is compared, so that quantiles near either end keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from wholestep.export.rules.incomplete import incomplete_gamma, part_of_beta
from wholestep.export.rules.matrices import for_each_place
from wholestep.export.rules.special import normal_quantile, where_else
from wholestep.ir.graph import Value
from wholestep.primitives.creation import like
from wholestep.primitives.functions import exp, expit, sqrt
from wholestep.primitives.logic import equal, isfinite, select

FARTHEST = 745.0
"""The logarithm beyond which exp is 0 or infinity."""
LEAST = 2.3e-308
"""The number below which numbers are 0: there the halving ends where exp does, and not at the quantile."""
HALVINGS = 62
"""The halvings after which an interval of logarithms is as wide as a rounding."""


def found_by_halving(is_below: Callable[..., Value], fixed: Sequence[Value]) -> Value:
    """The number between `FARTHEST` below and above 0 up to which is_below(u, *fixed) holds."""

    def step(*values: Value) -> Sequence[Value]:
        *given, low, high, _ = values
        middle = (low + high) / 2
        below = is_below(middle, *given)
        return [select(below, middle, low), select(below, high, middle)]

    ends = like(fixed[0], -FARTHEST), like(fixed[0], FARTHEST)
    low, high = for_each_place(step, fixed, ends, HALVINGS, False)
    found: Value = (low + high) / 2
    return found


def inverse_gamma(upper: bool) -> Callable[[Value, Value], Value]:
    """The x whose P, or 1 - P, is a number."""

    def is_below(u: Value, a: Value, p: Value, q: Value) -> Value:
        x = exp(u)
        found: Value = select(p < q, incomplete_gamma(False)(a, x) < p, incomplete_gamma(True)(a, x) > q)
        return found

    def rule(a: Value, y: Value) -> Value:
        inside = (a > 0) & isfinite(a) & (y > 0) & (y < 1)
        a, given = where_else(inside, a, 1.0), where_else(inside, y, 0.5)
        p, q = (1 - given, given) if upper else (given, 1 - given)
        found = exp(found_by_halving(is_below, (a, p, q)))
        zero, one = (math.inf, 0.0) if upper else (0.0, math.inf)
        end = where_else(
            equal(y, like(y, 0.0)), like(y, zero), where_else(equal(y, like(y, 1.0)), like(y, one), math.nan)
        )
        return where_else(inside, where_else(found > LEAST, found, 0.0), end)

    return rule


def logit_of_beta(a: Value, b: Value, p: Value, q: Value) -> Value:
    """The logit of the x whose incomplete beta function is p = 1 - q."""

    def is_below(u: Value, a: Value, b: Value, p: Value, q: Value) -> Value:
        x, rest = expit(u), expit(-u)
        found: Value = select(p < q, part_of_beta(a, b, x, rest) < p, part_of_beta(b, a, rest, x) > q)
        return found

    return found_by_halving(is_below, (a, b, p, q))


def inverse_beta(upper: bool) -> Callable[[Value, Value, Value], Value]:
    """The x whose incomplete beta function, or 1 less it, is a number."""

    def rule(a: Value, b: Value, y: Value) -> Value:
        inside = (a > 0) & (b > 0) & isfinite(a) & isfinite(b) & (y > 0) & (y < 1)
        a, b, given = (where_else(inside, v, number) for v, number in ((a, 1.0), (b, 1.0), (y, 0.5)))
        p, q = (1 - given, given) if upper else (given, 1 - given)
        found = expit(logit_of_beta(a, b, p, q))
        zero, one = (1.0, 0.0) if upper else (0.0, 1.0)
        end = where_else(
            equal(y, like(y, 0.0)), like(y, zero), where_else(equal(y, like(y, 1.0)), like(y, one), math.nan)
        )
        return where_else(inside, where_else(found > LEAST, found, 0.0), end)

    return rule


def student_quantile(freedom: Value, p: Value) -> Value:
    """The inverse of the distribution of Student's t: t**2 over the degrees of freedom is (1 - x) / x."""
    inside = (freedom > 0) & isfinite(freedom) & (p > 0) & (p < 1)
    n, given = where_else(inside, freedom, 1.0), where_else(inside, p, 0.25)
    low = given < 0.5
    tail = where_else(low, given, 1 - given) * 2
    u = logit_of_beta(n / 2, like(n, 0.5), tail, where_else(low, 1 - 2 * given, 2 * given - 1))
    size = sqrt(n) * exp(u * -0.5)
    found = where_else(low, -size, where_else(equal(given, like(p, 0.5)), like(p, 0.0), size))
    end = where_else(
        equal(p, like(p, 0.0)), like(p, -math.inf), where_else(equal(p, like(p, 1.0)), like(p, math.inf), math.nan)
    )
    end = where_else(equal(freedom, like(p, math.inf)), normal_quantile(p), where_else(freedom > 0, end, math.nan))
    return where_else(inside, found, end)


INVERSES: Mapping[str, Callable[..., Value]] = {
    "gammaincinv": inverse_gamma(False),
    "gammainccinv": inverse_gamma(True),
    "betaincinv": inverse_beta(False),
    "betainccinv": inverse_beta(True),
    "stdtrit": student_quantile,
}
"""Quantiles of the gamma, beta and Student families."""
