"""Bessel functions of the orders 0 and 1 in graph words: power series near 0, Hankel's integrals beyond.

Watson, "A treatise on the theory of Bessel functions" (1922), 7.2: with w = s**2 / (2 x) the integrals are those of
exp(-s**2) s**(2 n) (1 + i w)**(n - 1/2), and of 1 + w for the modified functions. Sums over equal steps of s are exact
to rounding, since the integrands are analytic beside the real line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from wholestep.export.rules.special import where_else
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute
from wholestep.primitives.creation import like
from wholestep.primitives.functions import cos, exp, log, sin, sqrt
from wholestep.primitives.logic import equal, isfinite, isnan

NEAR, TERMS = 5.0, 30
"""The end of power series, and their terms."""
STEP, STEPS = 0.25, 26
"""The step of the integrals, and their number: exp(-s**2) is below 1e-18 beyond."""


def power_series(near: Value, order: int, sign: int) -> tuple[Value, Value]:
    """The power series of J or, with sign 1, of I, and that of Y or K, which has harmonic numbers in it."""
    square = near * near * (sign / 4)
    term = near / 2 if order else like(near, 1.0)
    harmonic = 1.0 if order else 0.0
    total, other = term, term * harmonic
    for k in range(1, TERMS):
        term = term * square * (1 / (k * (k + order)))
        harmonic += 1 / k + (1 / (k + 1) if order else 1 / k)
        total = total + term
        other = other + term * harmonic
    return total, other / 2


def hankel(far: Value, order: int) -> tuple[Value, Value]:
    """P and Q: J is the root of 2 / (pi x) times P cos(c) - Q sin(c), and Y that times P sin(c) + Q cos(c)."""
    p, q = like(far, 0.0), like(far, 0.0)
    for weight, s in integral_points(order):
        w = s * s / (2 * far)
        size = sqrt(w * w + 1)
        re = sqrt((size + 1) / 2)
        im = w / (2 * re)
        p = p + (re if order else re / size) * weight
        q = q + (im if order else -(im / size)) * weight
    return p, q


def modified_hankel(far: Value, order: int) -> Value:
    """exp(x) K, over the root of pi / (2 x)."""
    found = like(far, 0.0)
    for weight, s in integral_points(order):
        root = sqrt(s * s / (2 * far) + 1)
        found = found + (root if order else 1 / root) * weight
    return found


def integral_points(order: int) -> list[tuple[float, float]]:
    """The weights and points of the integral from 0 on, over gamma(order + 1/2)."""
    scale = 2 * STEP / math.gamma(order + 0.5)
    points = [(scale * (0.5 if k == 0 else 1) * math.exp(-((k * STEP) ** 2)), k * STEP) for k in range(STEPS)]
    return [(weight * s ** (2 * order), s) for weight, s in points if s or not order]


def oscillating(x: Value, order: int) -> tuple[Value, Value]:
    """J and Y of numbers from `NEAR` on."""
    far = where_else(isfinite(x) & (x > NEAR), x, NEAR)
    p, q = hankel(far, order)
    root, c, s = 1 / sqrt(far * math.pi), cos(far), sin(far)
    # cos and sin of x - pi / 4, or of x - 3 pi / 4, times the root of 2.
    turned = (s - c, -(s + c)) if order else (c + s, s - c)
    first, second = root * (p * turned[0] - q * turned[1]), root * (p * turned[1] + q * turned[0])
    finite = isfinite(x)  # SciPy has no limits there
    return where_else(finite, first, math.nan), where_else(finite, second, math.nan)


def first_kind(order: int) -> Callable[[Value], Value]:
    """J of order 0 or 1, odd if that is."""

    def rule(x: Value) -> Value:
        size = absolute(x)
        near, _ = power_series(where_else(size < NEAR, size, 0.0), order, -1)
        found = where_else(size < NEAR, near, oscillating(size, order)[0])
        found = where_else(isnan(x), x, found)
        return where_else(x < 0, -found, found) if order else found

    return rule


def second_kind(order: int) -> Callable[[Value], Value]:
    """Y of order 0 or 1: minus infinity at 0, NaN below."""

    def rule(x: Value) -> Value:
        near = where_else((x > 0) & (x < NEAR), x, 1.0)
        first, other = power_series(near, order, -1)
        found = ((log(near / 2) + np.euler_gamma) * first - other) * (2 / math.pi)
        found = found - 2 / (near * math.pi) if order else found
        found = where_else(x < NEAR, found, oscillating(x, order)[1])
        return outside(x, found, -math.inf)

    return rule


def scaled_modified(order: int) -> Callable[[Value], Value]:
    """exp(x) K of order 0 or 1: infinity at 0, NaN below."""

    def rule(x: Value) -> Value:
        near = where_else((x > 0) & (x < 2), x, 1.0)
        first, other = power_series(near, order, 1)
        found = (log(near / 2) + np.euler_gamma) * first - other
        found = (1 / near + found if order else -found) * exp(near)
        far = where_else(x > 2, x, 2.0)
        beyond = modified_hankel(far, order) * sqrt(math.pi / 2 / far)
        return outside(x, where_else(x < 2, found, beyond), math.inf)

    return rule


def outside(x: Value, found: Value, at_zero: float) -> Value:
    """A function of positive numbers, with its limit at 0."""
    found = where_else(equal(x, like(x, 0.0)), like(x, at_zero), found)
    return where_else((x < 0) | isnan(x), like(x, math.nan), found)


def modified(order: int) -> Callable[[Value], Value]:
    """K itself."""
    return lambda x: scaled_modified(order)(x) * where_else(x > 0, exp(-x), 1.0)


BESSEL_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "j0": first_kind(0),
    "j1": first_kind(1),
    "y0": second_kind(0),
    "y1": second_kind(1),
    "k0e": scaled_modified(0),
    "k1e": scaled_modified(1),
    "k0": modified(0),
    "k1": modified(1),
}
"""Bessel functions whose order is a number of the program."""
