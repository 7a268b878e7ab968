"""Hypergeometric functions of real numbers in graph words: power series, steps of Taylor series, transformations.

Abramowitz and Stegun, "Handbook of mathematical functions", chapters 9, 13 and 15. Polynomials, which other solutions
would drown, are summed, come from the recurrence of Laguerre's, or from 1 instead of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from wholestep.export.rules.bessel_orders import first_kind_of_order
from wholestep.export.rules.incomplete import ENOUGH, state_of_counted_steps, state_where_done
from wholestep.export.rules.modified_bessel import both_kinds
from wholestep.export.rules.special import (
    gamma_sign,
    is_integral,
    is_odd,
    is_pole,
    log_gamma,
    sine_of_turns,
    where_else,
)
from wholestep.export.rules.taylor_steps import (
    Equation,
    Solution,
    carried_on,
    lowered,
    raised,
    regular_solution,
    series_at_zero,
)
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, maximum, minimum
from wholestep.primitives.creation import like
from wholestep.primitives.functions import exp, log, sqrt
from wholestep.primitives.logic import equal, isfinite, not_equal

FAR = 60.0
"""The argument of a Bessel function from which it is asked, and no series."""
NEAR_ONE = 0.99
"""The end of power series in z of some thousand terms."""


def gamma_quotient(above: Sequence[Value], below: Sequence[Value], exponent: Value) -> Value:
    """exp(exponent) times gamma(above) over gamma(below), 0 at a pole of the latter."""
    sign, nothing = like(exponent, 1.0), not_equal(exponent, exponent)
    for x in (*above, *below):
        sign = sign * gamma_sign(where_else(is_pole(x), like(x, 1.0), x))
    for x in above:
        exponent = exponent + log_gamma(x)
    for x in below:
        nothing = nothing | is_pole(x)
        exponent = exponent - log_gamma(where_else(is_pole(x), like(x, 1.0), x))
    return where_else(nothing, like(exponent, 0.0), sign * exp(exponent))


def bessel_limit(v: Value, z: Value) -> Value:
    """0F1 far below 0: 9.1.69."""
    y = sqrt(-z)
    return gamma_quotient([v], [], (1 - v) * log(y)) * first_kind_of_order(v - 1, 2 * y)


def modified_limit(v: Value, z: Value) -> Value:
    """0F1 of parameters below 1 and numbers above 0: 9.6.47 and 9.6.2, both parts apart, as one may overflow."""
    y, order = sqrt(z), 1 - v
    i, k = both_kinds(order, 2 * y)
    first, second = (gamma_quotient([v], [], order * log(y) + f.exponent + log(f.number)) for f in (i, k))
    return first + second * sine_of_turns(order) * (2 / math.pi)


def confluent_limit(v: Value, z: Value) -> Value:
    """0F1."""
    inside = ~is_pole(v) & isfinite(v) & isfinite(z) & not_equal(z, like(z, 0.0))
    v_safe, at = where_else(inside, v, 1.0), where_else(inside, z, 1.0)
    far = -4 * at > (FAR + 2 * absolute(v_safe)) * (FAR + 2 * absolute(v_safe))
    beyond = bessel_limit(where_else(far, v_safe, 1.0), where_else(far, at, -1.0))
    e = Equation(0, where_else(far, like(v, 1.0), v_safe), like(z, 0.0), like(z, -1.0))
    near = where_else(far, like(z, 1.0), at)
    above, up = near > 0, raised(e, near)
    grows = above & (up.added > 0)
    order, size = where_else(grows, e.first, 0.5), where_else(grows, near, 1.0)
    series = series_at_zero(up.equation, where_else(above & ~grows, near, 0.0)).value
    steps = lowered(up, near, regular_solution(up, where_else(above, like(z, 0.0), near))).value
    found = where_else(grows, modified_limit(order, size), where_else(above, series, steps))
    found = where_else(far, beyond, found)
    known = ~is_pole(v) & (equal(z, like(z, 0.0)) | (equal(v, like(v, math.inf)) & isfinite(z)))
    return where_else(inside, found, where_else(known, like(z, 1.0), math.nan))


def laguerre(n: Value, b: Value, x: Value) -> Solution:
    """1F1 of -n, for x above 0 and b from 1 on, by its recurrence, which is stable there, and its derivative."""

    def step(k: Value, b: Value, x: Value, before: Value, now: Value, left: Value) -> Sequence[Value]:
        return now, ((2 * k + b - x) * now - k * before) / (b + k), left - 1

    one = like(x, 1.0)
    start = one, 1 - x / b, n - 1
    found = state_of_counted_steps((b, x), start, step)
    some = n > 0
    value = where_else(some, found[1], 1.0)
    return Solution(value, where_else(some, n * (found[1] - found[0]) / x, 0.0))


def ended_series(e: Equation, z: Value) -> Value:
    """The power series at 0 of a solution that ends, up to its end."""

    def step(n: Value, first: Value, slope: Value, last: Value, z: Value, term: Value, total: Value) -> Sequence[Value]:
        k = n - 1
        up = Equation(e.bend, first, slope, last).factor(k)
        ends = equal(up, like(up, 0.0))
        term = where_else(ends, like(up, 0.0), term * (-up / (where_else(ends, like(up, 1.0), first + k) * n) * z))
        return term, total + term

    one = like(z, 1.0)
    found = state_where_done((*e[1:], z), (one, one), step, lambda term, total: absolute(term) > 0)
    return found[1]


def confluent_far_below(a: Value, b: Value, y: Value) -> Value:
    """1F1 at a large -y: 13.5.1, without the part that exp(-y) makes vanish."""

    def step(n: Value, a: Value, b: Value, y: Value, term: Value, total: Value) -> Sequence[Value]:
        term = term * ((a + n - 1) * (a - b + n) / (n * y))
        return term, total + term

    one = like(y, 1.0)
    found = state_where_done(
        (a, b, y),
        (one, one),
        step,
        lambda term, total: (absolute(term) > ENOUGH * absolute(total)) & (absolute(term) < 2),
    )
    return gamma_quotient([b], [b - a], -a * log(y)) * found[1]


def confluent_inside(a: Value, b: Value, x: Value) -> Value:
    """1F1 of numbers other than 0, with b no pole."""
    turned = (x < 0) & ~is_pole(a) & (is_pole(b - a) | ((b < 1) & (x > -700)))
    a, z = where_else(turned, b - a, a), where_else(turned, -x, x)
    ends, above = is_pole(a), z > 0
    far = -z > 50 + 2 * (absolute(a) + 1) * (absolute(a - b) + 1)
    beyond = confluent_far_below(*[where_else(far, v, number) for v, number in ((a, 1.0), (b, 1.0), (-z, 100.0))])
    up = raised(Equation(0, where_else(far, like(b, 1.0), b), like(z, -1.0), -a), z)
    recurs = ends & above & ~up.gentle
    sums = laguerre(where_else(recurs, -a, 0.0), up.equation.first, where_else(above, z, 1.0))
    steps = regular_solution(up, where_else(recurs | far, like(z, 0.0), z))
    whole = Solution(*[where_else(recurs, v, w) for v, w in zip(sums, steps, strict=True)])
    found = where_else(far, beyond, lowered(up, z, whole).value)
    return where_else(turned, exp(where_else(turned, x, 0.0)) * found, found)


def confluent(a: Value, b: Value, x: Value) -> Value:
    """1F1; infinite where b is a pole, unless the series ends before it."""
    finite = isfinite(a) & isfinite(b) & isfinite(x)
    pole = is_pole(b)
    inside = finite & ~pole & not_equal(x, like(x, 0.0))
    found = confluent_inside(*[where_else(inside, v, 1.0) for v in (a, b, x)])
    short = finite & pole & is_pole(a) & (a >= b) & (a < 0)
    order, at = where_else(short, a, -1.0), where_else(short, x, 1.0)
    summed = ended_series(Equation(0, where_else(short, b, -1.0), like(x, -1.0), -order), at)
    at_end = where_else(x > 0, like(x, math.inf), where_else(equal(x, x), like(x, 0.0), x))
    at_end = where_else((a > 0) & (b > 0) & isfinite(a) & isfinite(b) & ~isfinite(x), at_end, math.nan)
    found = where_else(inside, found, where_else(finite, like(x, 1.0), at_end))
    infinite = finite & pole & ~short
    return where_else(short, summed, where_else(infinite, like(x, math.inf), found))


def value_at_one(c: Value, other: Value, n: Value) -> Value:
    """(c - other)_n / (c)_n, the value at 1 of a polynomial of degree n."""

    def step(k: Value, c: Value, other: Value, total: Value, left: Value) -> Sequence[Value]:
        return total * ((c - other + k - 1) / (c + k - 1)), left - 1

    return state_where_done((c, other), (like(c, 1.0), n), step, lambda total, left: left > 0)[0]


def gauss_near(a: Value, b: Value, c: Value, z: Value, rest: Value) -> Value:
    """2F1 for z = 1 - rest from 0 to 1; none is 0. 15.3.3, and for polynomials 15.4.1 about 1."""
    near = z > 0.5
    s = c - a - b
    smaller = absolute(c - a) + absolute(c - b) < absolute(a) + absolute(b)
    euler = (near & (s > 0) & (is_pole(c - a) | is_pole(c - b))) | ((c < 1) & smaller & ~(is_pole(a) | is_pole(b)))
    factor = where_else(euler, exp(s * log(rest)), 1.0)
    a, b, s = where_else(euler, c - a, a), where_else(euler, c - b, b), where_else(euler, -s, s)
    mirrored = near & (s < 0) & (is_pole(a) | is_pole(b))
    first = is_pole(a) & (~is_pole(b) | (a >= b))
    n, other = where_else(mirrored, where_else(first, -a, -b), 0.0), where_else(first, b, a)
    ends = value_at_one(where_else(mirrored, c, 1.0), where_else(mirrored, other, 0.0), n)
    e = Equation(-1, where_else(mirrored, 1 - s, c), -(a + b + 1), -(a * b))
    whole = near & (c < 1) & (z < NEAR_ONE) & raised(e, z).gentle
    middle = where_else(mirrored, rest, where_else(whole, z, minimum(z, like(z, 0.5))))
    up = raised(e, middle)
    w = lowered(up, middle, regular_solution(up, middle))
    onward = near & ~mirrored & ~whole
    half = like(z, 0.5)
    about_one = Equation(-1, where_else(onward, 1 - s, 1.0), e.slope, e.last)
    last = carried_on(about_one, half, where_else(onward, rest, half), Solution(w.value, -w.slope))
    return factor * where_else(mirrored, ends * w.value, where_else(onward, last.value, w.value))


def gauss_inside(a: Value, b: Value, c: Value, z: Value) -> Value:
    """2F1 for z below 1 and not 0, with c no pole; below 0 by 15.3.4."""
    low = z < 0
    rest = where_else(low, 1 / (1 - z), 1 - z)
    at = where_else(low, -z * rest, z)
    first = absolute(a) + absolute(c - b) <= absolute(b) + absolute(c - a)
    kept, other = where_else(first, a, b), where_else(first, b, a)
    factor = where_else(low, exp(kept * log(rest)), 1.0)
    return factor * gauss_near(kept, where_else(low, c - other, other), c, at, rest)


def gauss_at_one(a: Value, b: Value, c: Value, degree: Value) -> Value:
    """2F1 at 1, with c no pole: 15.1.20, and of a polynomial of a finite degree also where that does not hold."""
    ends = isfinite(degree)
    p, q, r = (where_else(ends, like(v, number), v) for v, number in ((a, 0.25), (b, 0.25), (c, 1.0)))
    limit = gamma_quotient([r, maximum(r - p - q, like(r, 1e-300))], [r - p, r - q], like(r, 0.0))
    limit = where_else(r - p - q > 0, limit, math.inf)
    other = where_else(equal(degree, -a), b, a)
    value = value_at_one(where_else(ends, c, 1.0), where_else(ends, other, 0.0), where_else(ends, degree, 0.0))
    return where_else(ends, value, limit)


def gauss_that_ends(a: Value, b: Value, c: Value, z: Value, degree: Value) -> tuple[Value, Value]:
    """2F1 by its series where that is a polynomial in z beyond 1, or ends before c + n is 0, and where that is.

    Where both are at the same time SciPy has numbers inside the unit circle only, and for a = c those of 15.1.8.
    """
    pole = is_pole(c)
    both = pole & equal(degree, -c)
    circle = (absolute(z) < 1) | equal(z, like(z, -1.0))
    here = isfinite(degree) & ((~pole & (z > 1)) | (pole & (degree < -c)) | (both & circle))
    p, q, r = (where_else(here, v, number) for v, number in ((a, -1.0), (b, 1.0), (c, 1.0)))
    found = ended_series(Equation(-1, r, -(p + q + 1), -(p * q)), where_else(here, z, 0.5))
    power = here & both & ~equal(b, c)
    return where_else(power, exp(-b * log(1 - where_else(power, z, 0.0))), found), here


def gauss(a: Value, b: Value, c: Value, z: Value) -> Value:
    """2F1; infinite where c is a pole or z beyond 1, unless the series ends, or by 15.3.3 one that does."""
    finite = isfinite(a) & isfinite(b) & isfinite(c) & isfinite(z)
    s = c - a - b
    turned = finite & (z > 1) & is_integral(s) & (s < 0) & (is_pole(c - a) | is_pole(c - b))
    turned = turned & ~(is_pole(a) | is_pole(b) | is_pole(c))
    a, b = where_else(turned, c - a, a), where_else(turned, c - b, b)
    size = exp(where_else(turned, s, 0.0) * log(where_else(turned, z - 1, 1.0)))
    factor = where_else(turned & is_odd(s), -size, size)
    degree = minimum(where_else(is_pole(a), -a, math.inf), where_else(is_pole(b), -b, math.inf))
    pole = is_pole(c)
    inside, at_one = finite & ~pole & (z < 1) & not_equal(z, like(z, 0.0)), finite & ~pole & equal(z, like(z, 1.0))
    found = gauss_inside(*[where_else(inside, v, number) for v, number in ((a, 1.0), (b, 1.0), (c, 1.0), (z, 0.5))])
    edge = gauss_at_one(
        *[where_else(at_one, v, number) for v, number in ((a, 0.25), (b, 0.25), (c, 1.0), (degree, math.inf))]
    )
    summed, ends = gauss_that_ends(a, b, c, z, where_else(finite, degree, math.inf))
    found = where_else(inside, found, where_else(at_one, edge, where_else(finite, like(z, math.inf), math.nan)))
    found = where_else(ends, factor * summed, found)
    return where_else(finite & equal(z, like(z, 0.0)), like(z, 1.0), found)


HYPERGEOMETRIC_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "hyp0f1": confluent_limit,
    "hyp1f1": confluent,
    "hyp2f1": gauss,
}
"""Hypergeometric functions."""
