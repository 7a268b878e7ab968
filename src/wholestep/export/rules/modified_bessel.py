"""Modified Bessel functions of any real order in graph words: sums over equal steps of an integral, Debye's expansions.

With w**2 = v**2 + x**2, 2 exp(w - v arcsinh(v / x)) K is the integral of exp(-E) over all s, about the saddle point,
E(s) = w (cosh(s) - 1) + v (sinh(s) - s), of which no part is negative: Watson, "A treatise on the theory of Bessel
functions" (1922), 6.22. I follows by its quotient of two orders, a continued fraction, and the Wronskian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from wholestep.export.rules.debye import debye_terms
from wholestep.export.rules.incomplete import CONVERGED, ENOUGH, state_where_done
from wholestep.export.rules.special import is_integral, is_odd, polynomial_in, sine_of_turns, where_else
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute
from wholestep.primitives.creation import like
from wholestep.primitives.functions import arcsinh, exp, hypot, log, sqrt
from wholestep.primitives.logic import equal, isfinite, isnan

LARGE = 60.0
"""The w from which Debye's expansions have all digits."""
REST = tuple([1 / math.factorial(k + 2) for k in range(17)])
"""Coefficients of (exp(s) - 1 - s) / s**2."""


class WithExponent(NamedTuple):
    """A function exp(exponent) times a number that neither overflows nor vanishes."""

    exponent: Value
    number: Value


def written_out(x: WithExponent) -> Value:
    """The number itself, by the exponential in halves: it may be finite where the exponential is not."""
    half = exp(x.exponent / 2)
    return half * x.number * half


def exponential_rest(s: Value) -> Value:
    """exp(s) - 1 - s for s from -1 to 1."""
    return polynomial_in(s, REST) * s * s


def far_from_the_saddle(s: Value, v: Value, d: Value) -> tuple[Value, Value]:
    """E at s and at -s, for s from 1 on; exp(s) in halves, which do not overflow."""
    far = where_else(s > 1, s, 1.0)
    half = exp(far / 2)
    back = 1 / half
    ahead = ((d / 2 + v) * half) * half + ((d / 2) * back) * back - d - v * (1 + far)
    behind = ((d / 2) * half) * half + ((d / 2 + v) * back) * back - d - v * (1 - far)
    return ahead, behind


def second_kind_of(v: Value, x: Value) -> WithExponent:
    """K of orders from 0 on and finite numbers above 0, for w below `LARGE`; with d = w - v.

    E(s) = d (cosh(s) - 1) + v (exp(s) - 1 - s).
    """
    w = hypot(v, x)
    d = x * (x / (w + v))
    h = 0.5 / sqrt(w + 9)

    def step(n: Value, v: Value, d: Value, h: Value, term: Value, total: Value) -> Sequence[Value]:
        s = n * h
        near = where_else(s < 1, s, 0.0)
        right, left = exponential_rest(near), exponential_rest(-near)
        both = d * ((right + left) / 2)
        ahead, behind = far_from_the_saddle(s, v, d)
        term = exp(-where_else(s < 1, both + v * right, ahead)) + exp(-where_else(s < 1, both + v * left, behind))
        return term, total + term

    start = like(x, 2.0), like(x, 1.0)
    _, total = state_where_done((v, d, h), start, step, lambda term, total: term > total * ENOUGH)
    return WithExponent(saddle_exponent(v, x, w), total * h / 2)


def saddle_exponent(v: Value, x: Value, w: Value) -> Value:
    """v arcsinh(v / x) - w."""
    return v * saddle(v, x, w) - w


def saddle(v: Value, x: Value, w: Value) -> Value:
    """arcsinh(v / x), also where the quotient overflows."""
    steep = v > x
    ratio = where_else(steep, like(x, 1.0), v) / where_else(steep, like(x, 1.0), x)
    return where_else(steep, log(where_else(steep, v + w, 1.0)) - log(x), arcsinh(ratio))


def modified_quotient(v: Value, x: Value) -> Value:
    """I of the order v + 1 over that of v, divided by x, by its continued fraction; of x below `LARGE`."""

    def step(n: Value, v: Value, square: Value, c: Value, d: Value, h: Value, ratio: Value) -> Sequence[Value]:
        down = 2 * (v + 1 + n)
        c = down + square / c
        d = 1 / (square * d + down)
        return c, d, h * (c * d), c * d

    first = 0.5 / (v + 1)
    start = like(x, 1e300), first, first, like(x, 0.0)
    found = state_where_done((v, x * x), start, step, lambda *state: absolute(state[3] - 1) > CONVERGED)
    return found[2]


def both_kinds(v: Value, x: Value) -> tuple[WithExponent, WithExponent]:
    """I and K of orders from 0 on and finite numbers above 0; the exponent of I is less that of K."""
    w = hypot(v, x)
    large = w > LARGE
    order, at = where_else(large, like(x, 1.0), v), where_else(large, like(x, 1.0), x)
    k, after = second_kind_of(order, at), second_kind_of(order + 1, at)
    i = 1 / (
        after.number * exp(after.exponent - k.exponent + log(at)) + at * at * modified_quotient(order, at) * k.number
    )
    far = where_else(large, w, LARGE)
    share = where_else(large, v, 0.0) / far
    terms = debye_terms(far, share * share)
    even, odd = like(x, 0.0), like(x, 0.0)
    for low, high in zip(reversed(terms[::2]), reversed(terms[1::2]), strict=True):
        even, odd = even + low, odd + high
    root = sqrt(far)
    exponent = saddle_exponent(v, x, w)
    first = where_else(large, (even + odd) / root * (1 / math.sqrt(2 * math.pi)), i)
    second = where_else(large, (even - odd) / root * math.sqrt(math.pi / 2), k.number)
    return WithExponent(-exponent, first), WithExponent(exponent, second)


def less_size(v: Value, x: Value) -> Value:
    """w - x for w**2 = v**2 + x**2."""
    return v * (v / (hypot(v, x) + x))


def modified_second_kind(scaled: bool) -> Callable[[Value, Value], Value]:
    """K, or exp(x) K: infinite at 0, NaN below."""

    def rule(v: Value, x: Value) -> Value:
        order = absolute(v)
        inside = (x > 0) & isfinite(x) & isfinite(v)
        size, at = where_else(inside, order, 1.0), where_else(inside, x, 1.0)
        _, k = both_kinds(size, at)
        exponent = size * saddle(size, at, hypot(size, at)) - less_size(size, at) if scaled else k.exponent
        found = where_else(inside, written_out(WithExponent(exponent, k.number)), math.nan)
        found = where_else(equal(x, like(x, 0.0)) & ~isnan(v), like(x, math.inf), found)
        return found if scaled else where_else(equal(x, like(x, math.inf)) & isfinite(v), like(x, 0.0), found)

    return rule


def modified_first_kind(scaled: bool) -> Callable[[Value, Value], Value]:
    """I, or exp(-|x|) I: below 0 only of integers; of negative orders with a share of K."""

    def rule(v: Value, x: Value) -> Value:
        size = absolute(x)
        inside = (size > 0) & isfinite(x) & isfinite(v) & ((x > 0) | is_integral(v))
        order, at = where_else(inside, absolute(v), 1.0), where_else(inside, size, 1.0)
        i, k = both_kinds(order, at)
        rise = less_size(order, at) - order * saddle(order, at, hypot(order, at)) if scaled else i.exponent
        share = where_else((v < 0) & inside, sine_of_turns(order), 0.0) * (2 / math.pi)
        fall = written_out(WithExponent(k.exponent - at if scaled else k.exponent, k.number))
        other = where_else(equal(share, like(x, 0.0)), like(x, 0.0), share * fall)
        found = written_out(WithExponent(rise, i.number)) + other
        found = where_else(inside, where_else((x < 0) & is_odd(v), -found, found), math.nan)
        found = where_else(equal(absolute(v), like(v, math.inf)) & isfinite(x), like(x, 0.0), found)
        pole = (v < 0) & ~is_integral(v)
        at_zero = where_else(pole, like(x, math.nan if scaled else math.inf), like(x, 0.0))
        at_zero = where_else(equal(v, like(v, 0.0)), like(x, 1.0), where_else(isnan(v), v, at_zero))
        return where_else(equal(x, like(x, 0.0)), at_zero, found)

    return rule


MODIFIED_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "iv": modified_first_kind(False),
    "ive": modified_first_kind(True),
    "kv": modified_second_kind(False),
    "kve": modified_second_kind(True),
}
"""Modified Bessel functions whose order is an array."""
