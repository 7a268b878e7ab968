"""Bessel functions of any real order in graph words: from an order where both are known, up by their recurrence.

Temme, "On the numerical evaluation of the ordinary Bessel function of the second kind" (1976): near 0 his series, then
both continued fractions; for large numbers Debye's expansions. Above the argument J comes from Y, its quotient of two
orders, and the Wronskian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from wholestep.export.rules.debye import debye_terms
from wholestep.export.rules.incomplete import CONVERGED, state_of_counted_steps, state_where_done
from wholestep.export.rules.special import is_integral, is_odd, polynomial_in, sine_of_turns, where_else
from wholestep.ir.graph import Value
from wholestep.lower.legalize.matrix_functions import modulus
from wholestep.primitives.arithmetic import abs as absolute, imag, make_complex, maximum, real
from wholestep.primitives.creation import like
from wholestep.primitives.functions import arccosh, arctan2, cbrt, cos, cosh, exp, hypot, log, sin, sinh, sqrt
from wholestep.primitives.logic import equal, floor, isfinite

NEAR, FAR = 2.0, 45.0
"""Series end at the one, and continued fractions at the other."""
TINY = 1e-150
"""The number up to which quotients are at their limit."""
TERMS = 16
"""The terms of Temme's series."""
CLEAR = 12.0
"""The distance of an order from the argument, beside its cubic root, at which Debye's expansions have all digits."""
DEEP = 800.0
"""The logarithm beyond which J is 0, and Y infinite."""
LARGEST = 1e9
"""The order beyond which SciPy has no numbers, unless x is larger or smaller by far."""
MOST_ORDERS = 200_000
"""An upper bound of the orders between that of an expansion and one at which J is 0."""


class Pair(NamedTuple):
    """J and Y of an order, and of the next one times x."""

    j: Value
    y: Value
    j_next: Value
    y_next: Value


@cache
def reciprocal_gamma_series() -> tuple[float, ...]:
    """The coefficients of 1 / gamma(1 + z): Abramowitz and Stegun, 6.1.33, exponentiated."""
    from scipy.special import zeta

    slopes = [float(np.euler_gamma), *[float((-1) ** (k + 1) * zeta(k)) for k in range(2, 26)]]
    found = [1.0]
    for k in range(1, 26):
        found.append(sum([slopes[i] * found[k - 1 - i] for i in range(k)]) / k)
    return tuple(found)


def temme_series(v: Value, x: Value) -> tuple[Value, Value]:
    """Y of an order of up to 1/2, and that of the next one times x, for x up to `NEAR`."""
    coefficients = reciprocal_gamma_series()
    mean = polynomial_in(v * v, coefficients[::2])
    slope = -polynomial_in(v * v, coefficients[1::2])
    logarithm = -log(x / 2)
    sigma = v * logarithm
    nothing = equal(v, like(v, 0.0))
    safe = where_else(nothing, like(v, 0.5), v)
    flat = absolute(sigma) < 1e-4
    steep = where_else(flat, like(v, 1.0), sigma)
    share = where_else(flat, 1 + sigma * sigma / 6, sinh(steep) / steep)
    angle = where_else(nothing, like(v, 1.0), safe * math.pi / sin(safe * math.pi))
    f = (2 / math.pi) * angle * (cosh(sigma) * slope + share * logarithm * mean)
    p = exp(sigma) / (mean - v * slope) * (1 / math.pi)
    q = exp(-sigma) / (mean + v * slope) * (1 / math.pi)
    half = sin(safe * (math.pi / 2))
    weight = where_else(nothing, like(v, 0.0), half * half * 2 / safe)
    factor, square = like(x, 1.0), x * x / -4
    total, other = f + weight * q, p
    for k in range(1, TERMS):
        f = (k * f + p + q) / (k * k - v * v)
        p, q, factor = p / (k - v), q / (k + v), factor * square / k
        g = f + weight * q
        total, other = total + factor * g, other + factor * (p - k * g)
    return -total, -2 * other


class OrderQuotient(NamedTuple):
    """J of the next order over J and x, and the sign of J."""

    ratio: Value
    sign: Value


def order_quotient(v: Value, x: Value) -> OrderQuotient:
    """The quotient of two orders by its continued fraction, which takes about x terms; near 0 the limit."""
    x = maximum(x, like(x, TINY))

    def step(n: Value, v: Value, x: Value, *state: Value) -> Sequence[Value]:
        c, d, h, sign, _ = state
        down = 2 * (v + 1 + n) / x
        bottom, c = down - d, down - 1 / c
        bottom = where_else(equal(bottom, like(x, 0.0)), like(x, 1e-300), bottom)
        c = where_else(equal(c, like(x, 0.0)), like(x, 1e-300), c)
        d = 1 / bottom
        return c, d, h * (c * d), where_else(d < 0, -sign, sign), c * d

    first = x / (2 * (v + 1))
    start = like(x, 1e300), first, first, like(x, 1.0), like(x, 0.0)
    found = state_where_done((v, x), start, step, lambda c, d, h, s, ratio: absolute(ratio - 1) > CONVERGED)
    return OrderQuotient(found[2] / x, found[3])


def logarithmic_slope(v: Value, x: Value) -> tuple[Value, Value]:
    """p and q, where p + i q is the quotient of the derivative of J + i Y and itself, by its continued fraction."""

    def step(n: Value, v: Value, x: Value, c: Value, d: Value, h: Value, ratio: Value) -> Sequence[Value]:
        up = make_complex((n + 0.5) * (n + 0.5) - v * v, like(n, 0.0))
        down = make_complex(2 * x, 2 * (n + 1))
        d = 1 / (down + up * d)
        c = down + up / c
        return c, d, h * (c * d), c * d

    one = make_complex(like(x, 1.0), like(x, 0.0))
    first = one / make_complex(2 * x, like(x, 2.0))
    start = one * 1e300, first, first, one * 0
    found = state_where_done((v, x), start, step, lambda c, d, h, ratio: modulus(ratio - 1) > 2 * CONVERGED)[2]
    share = (0.25 - v * v) / x
    return -0.5 / x - imag(found) * share, 1 + real(found) * share


def by_fractions(v: Value, x: Value) -> Pair:
    """J and Y of an order of up to 1/2, for x from `NEAR` on."""
    p, q = logarithmic_slope(v, x)
    found = order_quotient(v, x)
    gamma = (p - (v / x - found.ratio * x)) / q
    size = found.sign * sqrt((2 / math.pi) / (x * q)) / hypot(gamma, like(x, 1.0))
    j, y = size, size * gamma
    return Pair(j, y, v * j - x * (p * j - q * y), v * y - x * (q * j + p * y))


def by_expansions(v: Value, x: Value) -> tuple[Value, Value]:
    """J and Y of orders that are clearly below large arguments."""
    s = sqrt((x - v) * (x + v))
    share = v / s
    terms = debye_terms(s, -(share * share))
    even, odd = like(x, 0.0), like(x, 0.0)
    for k in reversed(range(len(terms) // 2)):
        even = even + terms[2 * k] * (-1) ** k
        odd = odd + terms[2 * k + 1] * (-1) ** k
    root = sqrt((2 / math.pi) / s)
    # cos and sin of s - v arctan2(s, v) - pi / 4, x apart from the rest, which is small where x is large.
    rest = v * (v / (x + s)) + v * arctan2(s, v) + math.pi / 4
    c = cos(x) * cos(rest) + sin(x) * sin(rest)
    d = sin(x) * cos(rest) - cos(x) * sin(rest)
    return root * (c * even + d * odd), root * (d * even - c * odd)


def known_pair(v: Value, x: Value) -> Pair:
    """Both functions at the order where the recurrence starts: up to 1/2, or below x."""
    near, far = x < NEAR, x > FAR
    small, large = where_else(near, x, 1.0), where_else(far, x, FAR)
    order = where_else(far, like(v, 0.0), v)
    y, y_next = temme_series(where_else(near, v, 0.0), small)
    ratio = order_quotient(where_else(near, v, 0.0), small).ratio
    square = small * small
    j = (2 / math.pi) / (ratio * square * y - y_next)
    middle = by_fractions(where_else(near, like(v, 0.0), order), where_else(near | far, like(x, NEAR), x))
    start = where_else(far, v, 0.0)
    first, second = by_expansions(start, large), by_expansions(start + 1, large)
    beyond = Pair(*first, *[large * z for z in second])
    series = Pair(j, y, ratio * square * j, y_next)
    chosen = [where_else(near, a, where_else(far, c, b)) for a, b, c in zip(series, middle, beyond, strict=True)]
    return Pair(*chosen)


def raised_pair(pair: Pair, v: Value, x: Value, count: Value) -> Pair:
    """J and Y of an order that is larger by a count."""

    def step(n: Value, v: Value, x: Value, *state: Value) -> Sequence[Value]:
        *now, left = state
        j, y, j_next, y_next = now
        above, factor = y_next / x, 2 * (v + n)
        y_after = where_else(above > -math.inf, factor * above - x * y, -math.inf)
        return j_next / x, above, factor * (j_next / x) - x * j, y_after, left - 1

    start = (*pair, count)
    found = state_of_counted_steps((v, x), start, step, MOST_ORDERS)
    return Pair(*found[:4])


def depth_below_order(v: Value, x: Value) -> Value:
    """The logarithm of how small J is beside its size at its own order; 0 where v < x."""
    above = v > x
    order, at = where_else(above, v, 2.0), where_else(above, x, 1.0)
    ratio = order / at
    steep = ratio > 1e100
    angle = where_else(steep, log(order) - log(at), arccosh(where_else(steep, like(v, 2.0), ratio)))
    return where_else(above, order * angle - sqrt((order - at) * (order + at)), 0.0)


def oscillating_pair(v: Value, x: Value) -> tuple[Value, Value]:
    """J and Y of orders from 0 on and finite numbers above 0."""
    deep = depth_below_order(v, x) > DEEP
    order = where_else(deep, like(v, 0.0), v)
    whole, far = floor(order + 0.5), x > FAR
    large = where_else(far, x, FAR)
    highest = maximum(large - CLEAR * cbrt(large), like(x, 0.0))
    count = where_else(far, maximum(floor(order - highest) + 1, like(x, 0.0)), whole)
    count = where_else(count > floor(order), where_else(far, floor(order), whole), count)
    at = order - count
    pair = raised_pair(known_pair(at, x), at, x, count)
    above = order > x
    top, below = where_else(above, order, 1.0), where_else(above, x, 0.5)
    ratio = order_quotient(top, below).ratio * (below * below)
    j = where_else(above, (2 / math.pi) / (ratio * pair.y - pair.y_next), pair.j)
    j = where_else(above & ~(pair.y_next > -math.inf), like(x, 0.0), j)
    return where_else(deep, like(x, 0.0), j), where_else(deep, like(x, -math.inf), pair.y)


def share_of(share: Value, found: Value) -> Value:
    """The product share * found, which is 0 where `share` is 0, even if `found` is infinite or NaN."""
    return where_else(equal(share, like(share, 0.0)), like(share, 0.0), share * found)


def of_either_sign(v: Value, x: Value) -> tuple[Value, Value]:
    """J and Y of any orders and finite numbers above 0; Abramowitz and Stegun, 9.1.2."""
    j, y = oscillating_pair(absolute(v), x)
    low = v < 0
    s = where_else(low, sine_of_turns(absolute(v)), 0.0)
    c = where_else(low, sine_of_turns(absolute(v) + 0.5), 1.0)
    return share_of(c, j) - share_of(s, y), share_of(s, j) + share_of(c, y)


def within_reach(v: Value, x: Value) -> Value:
    """True for orders that are small, or clearly below x."""
    return (absolute(v) < LARGEST) | (isfinite(v) & (absolute(v) < x / 2))


def first_kind_of_order(v: Value, x: Value) -> Value:
    """J; below 0 only of integers."""
    size = absolute(x)
    inside = (size > 0) & isfinite(x) & within_reach(v, size) & ((x > 0) | is_integral(v))
    found, _ = of_either_sign(where_else(inside, v, 1.0), where_else(inside, size, 1.0))
    found = where_else(inside, where_else((x < 0) & is_odd(v), -found, found), math.nan)
    found = where_else((absolute(v) >= LARGEST) & (size < absolute(v) / 2) & isfinite(x), like(x, 0.0), found)
    pole = where_else(sine_of_turns(absolute(v)) > 0, like(x, math.inf), -math.inf)
    at_zero = where_else((v < 0) & ~is_integral(v), pole, where_else(equal(v, v), like(x, 0.0), v))
    at_zero = where_else(equal(v, like(v, 0.0)), like(x, 1.0), at_zero)
    return where_else(equal(x, like(x, 0.0)), at_zero, found)


def second_kind_of_order(v: Value, x: Value) -> Value:
    """Y: minus infinity at 0, NaN below."""
    inside = (x > 0) & isfinite(x) & within_reach(v, x)
    _, found = of_either_sign(where_else(inside, v, 1.0), where_else(inside, x, 1.0))
    found = where_else(inside, found, math.nan)
    mirrored = (v < 0) & (sine_of_turns(absolute(v) + 0.5) < 0)
    at_zero = where_else(mirrored, like(x, math.inf), where_else(equal(v, v), like(x, -math.inf), v))
    return where_else(equal(x, like(x, 0.0)), at_zero, found)


ORDER_FUNCTIONS: Mapping[str, Callable[..., Value]] = {"jv": first_kind_of_order, "yv": second_kind_of_order}
"""Bessel functions whose order is an array."""
