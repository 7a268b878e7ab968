"""Functions of scipy.special in graph words, on the whole real line: by series, recurrences and reflections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.ir.graph import OPS, Value
from wholestep.primitives.arithmetic import abs as absolute, fmod, maximum, minimum
from wholestep.primitives.creation import like
from wholestep.primitives.functions import erf, erfc, exp, expm1, log, log1p, sin, sqrt, tan
from wholestep.primitives.logic import equal, floor, isfinite, isnan, not_equal, rint, select

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Coefficients of 1/z, 1/z**3 and so on in the logarithm of the gamma function."""
HARMONIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""Coefficients of 1/z**2, 1/z**4 and so on in log(z) - 1 / (2 z) - digamma(z)."""
SHIFT = 8
"""The distance that arguments are moved up before these series are summed."""
NEAR = 30.0
"""Bessel functions are power series up to here, and asymptotic ones beyond."""


def real_function(f: Callable[..., Value]) -> Rule:
    """A rule that does not hold for complex numbers."""

    def rule(*xs: Value) -> Value | None:
        return None if is_complex_value(xs[0]) else f(*xs)

    return rule


def where_else(condition: Value, x: Value, y: Value | float) -> Value:
    """x where the condition holds, else y, which may be a number."""
    found: Value = select(condition, x, y if isinstance(y, Value) else like(x, y))
    return found


def polynomial_in(x: Value, coefficients: tuple[float, ...]) -> Value:
    """A polynomial by Horner's rule."""
    found = like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        found = found * x + c
    return found


def is_integral(x: Value) -> Value:
    """True for integers."""
    found: Value = equal(x, floor(x))
    return found


def is_odd(v: Value) -> Value:
    """True for odd integers."""
    return is_integral(v) & ~equal(v * 0.5, floor(v * 0.5))


def is_pole(x: Value) -> Value:
    """True for 0, -1, -2 and so on."""
    return is_integral(x) & (x <= 0)


def half_turn_sine(x: Value) -> Value:
    """sin(pi x), the nearest integer taken off before; its sign is that of x - rint(x)."""
    found: Value = sin((x - rint(x)) * math.pi)
    return found


def sine_of_turns(v: Value) -> Value:
    """sin(pi v), and 0 for integers."""
    return where_else(is_odd(rint(v)), -half_turn_sine(v), half_turn_sine(v))


def shifted_up(x: Value) -> tuple[Value, Value]:
    """A number of 1/2 or more, moved up where it is small, and True where it was."""
    small = x < SHIFT
    return where_else(small, x + SHIFT, x), small


def stirling(x: Value) -> Value:
    """The logarithm of the gamma function from 1/2 on."""
    z, small = shifted_up(x)
    finite = where_else(isfinite(z), z, 1.0)
    rest = polynomial_in(1 / (finite * finite), STIRLING) / finite
    large = (finite - 0.5) * (log(finite) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + rest
    base = where_else(small, x, 1.0)
    product = base
    for k in range(1, SHIFT):
        product = product * (base + k)
    return where_else(isfinite(z), where_else(small, large - log(product), large), z)


@cache
def taylor_at_two() -> tuple[float, ...]:
    """Coefficients of z, z**2 and so on in the logarithm of gamma(2 + z)."""
    from scipy.special import zetac

    return 1 - np.euler_gamma, *[float((-1) ** k * zetac(k) / k) for k in range(2, 22)]


def near_its_zeros(x: Value, usual: Value) -> Value:
    """The logarithm of the gamma function within 1/4 of its zeros 1 and 2, as its Taylor series at 2; else `usual`.

    Abramowitz and Stegun, "Handbook of mathematical functions", 6.1.33.
    """
    first, second = absolute(x - 1) < 0.25, absolute(x - 2) < 0.25
    z = where_else(first, x - 1, where_else(second, x - 2, 0.0))
    series = polynomial_in(z, taylor_at_two()) * z
    return where_else(first, series - log1p(z), where_else(second, series, usual))


def log_gamma(x: Value) -> Value:
    """log |gamma(x)|; infinite at the poles."""
    low = x < 0.5
    upper = where_else(low, 1 - x, x)
    right = near_its_zeros(upper, stirling(upper))
    wave = absolute(half_turn_sine(x))
    pole = equal(wave, like(x, 0.0))
    mirrored = math.log(math.pi) - log(where_else(pole, like(x, 1.0), wave)) - right
    found = where_else(low, where_else(pole, like(x, math.inf), mirrored), right)
    return where_else(equal(x, like(x, -math.inf)), x, found)


def below_zero(x: Value) -> Value:
    """True for negative numbers and for -0.0."""
    found: Value = OPS["signbit"](x)
    return found


def gamma_sign(x: Value) -> Value:
    """The sign of the gamma function; NaN at its poles but 0, and at minus infinity."""
    odd = ~equal(floor(x) * 0.5, floor(floor(x) * 0.5))
    side = where_else(odd, like(x, -1.0), 1.0)
    pole = is_integral(x) & ~equal(x, like(x, 0.0))
    found = where_else(pole, like(x, math.nan), side)
    found = where_else(equal(x, like(x, 0.0)), where_else(below_zero(x), like(x, -1.0), 1.0), found)
    return where_else(isnan(x), x, where_else(x > 0, like(x, 1.0), found))


def gamma_function(x: Value) -> Value:
    """Gamma by its logarithm."""
    return gamma_sign(x) * exp(log_gamma(x))


def reciprocal_gamma(x: Value) -> Value:
    """1 / gamma, 0 at the poles."""
    pole = is_pole(x)
    return where_else(pole, like(x, 0.0), gamma_sign(where_else(pole, like(x, 1.0), x)) * exp(-log_gamma(x)))


def log_beta(x: Value, y: Value) -> Value:
    """log |beta|: where one argument is large, by a difference of two of Stirling's series."""
    little, large = minimum(x, y), maximum(x, y)
    far = (little > 0) & (large >= SHIFT) & isfinite(large)
    a, b = where_else(far, little, 1.0), where_else(far, large, SHIFT)
    total = a + b
    rest = polynomial_in(1 / (b * b), STIRLING) / b - polynomial_in(1 / (total * total), STIRLING) / total
    apart = a + rest - (b - 0.5) * log1p(a / b) - a * log(total)
    return where_else(far, log_gamma(a) + apart, log_gamma(x) + log_gamma(y) - log_gamma(x + y))


def beta_function(x: Value, y: Value) -> Value:
    """beta by its logarithm."""
    return gamma_sign(x) * gamma_sign(y) * gamma_sign(x + y) * exp(log_beta(x, y))


def psi(x: Value) -> Value:
    """The derivative of log gamma."""
    low = x < 0.5
    right = where_else(low, 1 - x, x)
    z, small = shifted_up(right)
    found = log(z) - 0.5 / z - polynomial_in(1 / (z * z), HARMONIC) / (z * z)
    base = where_else(small, right, 1.0)
    for k in range(SHIFT):
        found = where_else(small, found - 1 / (base + k), found)
    nearest = x - rint(x)
    pole = equal(nearest, like(x, 0.0))
    safe = where_else(pole, like(x, 0.25), nearest)
    mirrored = where_else(pole, like(x, math.nan), found - math.pi / tan(safe * math.pi))
    at_zero = where_else(below_zero(x), like(x, math.inf), -math.inf)
    return where_else(low, where_else(equal(x, like(x, 0.0)), at_zero, mirrored), found)


def log_odds(x: Value) -> Value:
    """log(x / (1 - x)), near 1/2 as log1p of the odds less 1."""
    rest = 1 - x
    inside = (x > 0.25) & (x < 0.75)
    safe = where_else(inside, rest, 1.0)
    near = log1p(where_else(inside, (x - 0.5) * 2, like(x, 0.0)) / safe)
    return where_else(inside, near, log(x / rest))


def relative_exponential(x: Value) -> Value:
    """(exp(x) - 1) / x, 1 at 0."""
    nothing = equal(x, like(x, 0.0))
    safe = where_else(nothing, like(x, 1.0), x)
    quotient = expm1(safe) / safe
    return where_else(nothing, like(x, 1.0), where_else(equal(x, like(x, math.inf)), x, quotient))


def cosine_less_one(x: Value) -> Value:
    """cos(x) - 1 without cancellation."""
    half = sin(x / 2)
    return half * half * -2


def degrees(period: float, f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A function of degrees, of which whole periods are taken off without rounding; 0 where x has no such digits."""

    def rule(x: Value) -> Value:
        known = absolute(x) < 1e14
        found = f(fmod(where_else(known, x, 0.0), like(x, period)))
        return where_else(isnan(x), x, where_else(known, found, 0.0))

    return rule


def sine_of_degrees(x: Value) -> Value:
    """sin, of the distance to the nearest multiple of 180."""
    turns = rint(x / 180)
    rest = sin((x - turns * 180) * (math.pi / 180))
    even = equal(turns * 0.5, floor(turns * 0.5))
    return where_else(even, rest, -rest)


def cosine_of_degrees(x: Value) -> Value:
    """cos, as the sine of 90 degrees less the size."""
    return sine_of_degrees(90 - absolute(x))


def tangent_of_degrees(x: Value) -> Value:
    """tan of less than 180 degrees; infinity at its poles."""
    turned, angle = first_quadrant(x)
    steep = angle > 45
    return signed_slope(x, turned, steep, where_else(steep, 90 - angle, angle))


def cotangent_of_degrees(x: Value) -> Value:
    """cot of less than 180 degrees; infinity at its poles."""
    turned, angle = first_quadrant(x)
    steep = angle < 45
    return signed_slope(x, turned, steep, where_else(steep, angle, 90 - angle))


def first_quadrant(x: Value) -> tuple[Value, Value]:
    """A mark where the size of x, less than 180 degrees, is above 90, and the angle to the nearer end."""
    size = absolute(x)
    turned = size > 90
    return turned, where_else(turned, 180 - size, size)


def signed_slope(x: Value, turned: Value, steep: Value, angle: Value) -> Value:
    """tan of an angle up to 45 degrees, or its reciprocal, which is infinite for 0, with the sign for x."""
    pole = steep & equal(angle, like(x, 0.0))
    flat = tan(where_else(pole, like(x, 45.0), angle) * (math.pi / 180))
    found = where_else(steep, 1 / where_else(steep, flat, like(x, 1.0)), flat)
    return where_else(pole, like(x, math.inf), where_else(not_equal(turned, x < 0), -found, found))


def scaled_bessel(order: int) -> Callable[[Value], Value]:
    """exp(-|x|) times the modified Bessel function of order 0 or 1, odd if that is."""

    def rule(x: Value) -> Value:
        size = absolute(x)
        near = minimum(size, like(x, NEAR))
        square = near * near / 4
        term = exp(-near) * (near / 2 if order else like(x, 1.0))
        total = term
        for k in range(1, 64):
            term = term * square * (1 / (k * (k + order)))
            total = total + term
        far = where_else(size > NEAR, size, NEAR)
        step = like(x, 1.0)
        tail = step
        for k in range(1, 20):
            step = step * (((2 * k - 1) ** 2 - 4 * order) / (8 * k)) / far
            tail = tail + step
        found = where_else(size > NEAR, tail / sqrt(far * (2 * math.pi)), total)
        found = where_else(isnan(x), x, found)
        return where_else(x < 0, -found, found) if order else found

    return rule


def plain_bessel(order: int) -> Callable[[Value], Value]:
    """The modified Bessel function itself; the factor in two halves, the first of which does not overflow."""

    def rule(x: Value) -> Value:
        half = exp(absolute(x) / 2)
        return scaled_bessel(order)(x) * half * half

    return rule


def inverse_tail(q: Value) -> Value:
    """The x whose erfc(x) is q, for q from 0 to 1, by Winitzki's formula and three steps of Halley's."""
    safe = where_else((q > 0) & (q < 1), q, 0.5)
    b = log(safe) + log(2 - safe)
    a = 2 / (math.pi * 0.147) + b / 2
    x = sqrt(sqrt(a * a - b / 0.147) - a)
    for _ in range(3):
        u = (erfc(x) - safe) / (exp(-x * x) * (-2 / math.sqrt(math.pi)))
        u = where_else(isfinite(u), u, 0.0)
        x = x - u / (1 + x * u)
    x = where_else(equal(q, like(q, 0.0)), like(q, math.inf), x)
    return where_else(equal(q, like(q, 1.0)), like(q, 0.0), where_else((q < 0) | isnan(q), like(q, math.nan), x))


def near_zero(size: Value, x: Value) -> Value:
    """x, the inverse of erf, after steps of Newton's on erf itself where that is small, which keep small numbers."""
    near = where_else(size < 0.5, size, 0.0)
    found = where_else(size < 0.5, where_else(size < 1e-3, near * (math.sqrt(math.pi) / 2), x), 0.0)
    for _ in range(2):
        found = found - (erf(found) - near) * exp(found * found) * (math.sqrt(math.pi) / 2)
    return where_else(size < 0.5, found, x)


def inverse_erfc(q: Value) -> Value:
    """The inverse of erfc; its value at q above 1 is the negative of that at 2 - q."""
    above = q > 1
    found = near_zero(absolute(1 - q), inverse_tail(where_else(above, 2 - q, q)))
    return where_else(above, -found, found)


def inverse_erf(y: Value) -> Value:
    """The inverse of erf, by that of erfc."""
    size = absolute(y)
    found = near_zero(size, inverse_tail(1 - size))
    return where_else(y < 0, -found, found)


def normal_quantile(p: Value) -> Value:
    """The inverse of the normal distribution."""
    return inverse_erfc(p * 2) * -math.sqrt(2)


def elliptic(second: bool) -> Callable[[Value], Value]:
    """Complete elliptic integrals by the arithmetic-geometric mean; the second kind by the sum of its differences."""

    def rule(m: Value) -> Value:
        usual = m < 1
        a, b = like(m, 1.0), sqrt(1 - where_else(usual, m, 0.0))
        total, weight = where_else(usual, m, 0.0) * 0.5, 0.5
        for _ in range(8):
            a, b, c = (a + b) / 2, sqrt(a * b), (a - b) / 2
            weight *= 2
            total = total + c * c * weight
        first = (math.pi / 2) / a
        found = first * (1 - total) if second else first
        at_one = like(m, 1.0 if second else math.inf)
        found = where_else(usual, found, where_else(equal(m, like(m, 1.0)), at_one, math.nan))
        at_end = like(m, math.inf if second else 0.0)
        return where_else(equal(m, like(m, -math.inf)), at_end, found)

    return rule


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "gammaln": log_gamma,
    "gammasgn": gamma_sign,
    "gamma": gamma_function,
    "rgamma": reciprocal_gamma,
    "betaln": log_beta,
    "beta": beta_function,
    "digamma": psi,
    "logit": log_odds,
    "exprel": relative_exponential,
    "cosm1": cosine_less_one,
    "sindg": degrees(360.0, sine_of_degrees),
    "cosdg": degrees(360.0, cosine_of_degrees),
    "tandg": degrees(180.0, tangent_of_degrees),
    "cotdg": degrees(180.0, cotangent_of_degrees),
    "i0": plain_bessel(0),
    "i1": plain_bessel(1),
    "i0e": scaled_bessel(0),
    "i1e": scaled_bessel(1),
    "erfcinv": inverse_erfc,
    "erfinv": inverse_erf,
    "ndtri": normal_quantile,
    "ellipk": elliptic(False),
    "ellipe": elliptic(True),
}
SPECIAL_RULES: Mapping[str, Rule] = {name: real_function(f) for name, f in FUNCTIONS.items()}
"""Rules of special functions, for targets that have no library for them."""
