"""Hurwitz's zeta function: nine terms of its series, and the Euler-Maclaurin formula for the rest, in float64."""

from __future__ import annotations

import importlib
import math
from functools import cache
from typing import Any

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Axis, Var
from wholestep.kernel.maths.coefficients import F64
from wholestep.kernel.maths.float_bits import differ, equal, isnan, number, rare, select
from wholestep.kernel.maths.powers import positive_power

TERMS = 9


@cache
def bernoulli_coefficients() -> tuple[float, ...]:
    """Bernoulli's numbers B(2 k), each divided by (2 k)!."""
    Fraction: Any = importlib.import_module("fractions").Fraction
    numbers = [Fraction(1)]
    for n in range(1, 21):
        numbers.append(-sum((math.comb(n + 1, k) * b for k, b in enumerate(numbers)), Fraction()) / (n + 1))
    return tuple([float(numbers[n]) / math.factorial(n) for n in range(2, 21, 2)])


def zeta(s: Var, q: Var) -> Var:
    """The sum of (q + k)**-s over k = 0, 1, ...; below s = 1, and for fractional s at negative q, NaN."""
    b = builder()
    exponent, start = b.convert(s, F64), b.convert(q, F64)
    whole = equal(b.op("floor", exponent), exponent)
    usual = right(exponent, select(start > 0, start, number(start, 1.0)))
    (found,) = rare((start < 0) & whole & (exponent > 1), left, (exponent, start), (usual,))
    infinity, unknown = number(start, math.inf), number(start, math.nan)
    found = select((start < 0) & ~whole, unknown, found)
    pole = (start <= 0) & equal(b.op("floor", start), start)
    found = select(equal(start, math.inf), number(start, 0.0), found)
    first = select(equal(start, 1.0), number(start, 1.0), select(start > 1, number(start, 0.0), infinity))
    found = select(equal(exponent, math.inf), first, found)
    found = select(isnan(exponent) | isnan(start), unknown, found)
    return b.convert(select(exponent < 1, unknown, select(pole | equal(exponent, 1.0), infinity, found)), s.dtype)


def right(s: Var, q: Var) -> Var:
    """The zeta function for q > 0 and s > 1."""
    b = builder()
    with b.loop(Axis("terms", TERMS), ordered=True) as loop:
        total, a = loop.carry(number(q, 0.0)), loop.carry(q)
        sums = loop.hand(total, total + positive_power(a, -s))
        w = loop.hand(a, a + 1)
    power = positive_power(w, -s)
    sums = sums + power * w / (s - 1) + 0.5 * power
    factor, rising = s, s
    power = power / w
    for c in bernoulli_coefficients():
        sums = sums + factor * power * c
        factor = factor * (rising + 1) * (rising + 2)
        rising, power = rising + 2, power / (w * w)
    return sums


def left(s: Var, q: Var) -> tuple[Var, ...]:
    """The zeta function for q < 0 and an integer s: the terms below zero are a difference of two sums of `right`."""
    b = builder()
    f = q - b.op("floor", q)
    half = s * 0.5
    odd = differ(b.op("floor", half), half)
    below = right(s, b.op("ceil", q) - q) - right(s, 1 - q)
    return (right(s, f) + select(odd, -below, below),)
