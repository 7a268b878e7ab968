"""Integrals of exponentials and logarithms in graph words, inverses, and quotients of the gamma function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from wholestep.export.rules.special import (
    beta_function,
    gamma_sign,
    is_integral,
    is_pole,
    log_beta,
    log_gamma,
    normal_quantile,
    where_else,
)
from wholestep.ir.graph import OPS, Value
from wholestep.primitives.arithmetic import abs as absolute, make_complex, minimum, real
from wholestep.primitives.creation import like
from wholestep.primitives.functions import exp, expm1, log, log1p, log_ndtr, ndtr, sqrt
from wholestep.primitives.logic import equal, floor, isfinite, isnan

SMALL, LARGE = 2.0, 40.0
"""Exponential integrals are power series up to the one, for positive arguments up to the other."""
NODES = 48
"""The points of Gauss's rule."""


def on_complex(name: str, limit: float) -> Callable[[Value], Value]:
    """An odd function that kernels compute of complex numbers, with its limit."""

    def rule(x: Value) -> Value:
        known = absolute(x) < math.inf
        found = real(OPS[name](make_complex(where_else(known, x, 0.0), like(x, 0.0))))
        end = where_else(x > 0, like(x, limit), -limit)
        return where_else(known, found, where_else(isnan(x), x, end))

    return rule


def power_sum(x: Value, terms: int) -> Value:
    """x + x**2 / (2 2!) + x**3 / (3 3!) and so on."""
    term, total = x, x
    for k in range(2, terms):
        term = term * x * (1 / k)
        total = total + term * (1 / k)
    return total


def exponential_integral(x: Value) -> Value:
    """E1: a power series near 0, beyond a continued fraction; Abramowitz and Stegun, 5.1.11 and 5.1.22."""
    near = where_else((x > 0) & (x < SMALL), x, 1.0)
    series = -log(near) - np.euler_gamma - power_sum(-near, 30)
    far = where_else(x > SMALL, x, SMALL)
    fraction = like(x, 0.0)
    for k in range(70, 0, -1):
        fraction = (k * k) / (far + (2 * k + 1) - fraction)
    found = where_else(x < SMALL, series, exp(-far) / (far + 1 - fraction))
    found = where_else(equal(x, like(x, 0.0)), like(x, math.inf), found)
    return where_else((x < 0) | isnan(x), like(x, math.nan), found)


def principal_exponential_integral(x: Value) -> Value:
    """Ei: below 0 that of the other sign, above a power series, and from `LARGE` on an asymptotic one."""
    near = where_else((x > 0) & (x < LARGE), x, 1.0)
    series = log(near) + np.euler_gamma + power_sum(near, 150)
    far = where_else(x > LARGE, x, LARGE)
    term = total = like(x, 1.0)
    for k in range(1, 40):
        term = term * k / far
        total = total + term
    beyond = exp(far) * (total / far)
    beyond = where_else(equal(x, like(x, math.inf)), x, beyond)
    found = where_else(x < LARGE, series, beyond)
    found = where_else(equal(x, like(x, 0.0)), like(x, -math.inf), found)
    return where_else(isnan(x), x, where_else(x < 0, -exponential_integral(-x), found))


def dilogarithm(x: Value) -> Value:
    """The integral of log(t) / (1 - t) from 1 to x: a power series near 1, elsewhere by reflections to there."""
    large = x > 1.5
    y = where_else(large, 1 / where_else(large, x, 1.0), x)
    low = y < 0.5
    inside = where_else(y > 0, y, 0.5)
    w = where_else(low, inside, 1 - inside)
    total, power = w, w
    for k in range(2, 56):
        power = power * w
        total = total + power * (1 / (k * k))
    mirrored = math.pi**2 / 6 - log(inside) * log1p(-where_else(low, inside, 0.0)) - total
    found = where_else(low, mirrored, total)
    found = where_else(equal(y, like(x, 0.0)), like(x, math.pi**2 / 6), found)
    logarithm = log(where_else(large, x, 1.0))
    found = where_else(large, logarithm * logarithm * -0.5 - found, found)
    return where_else((x >= 0) & isfinite(x), found, math.nan)  # SciPy has no limit at infinity


def quantile_of_logarithm(y: Value) -> Value:
    """The x whose log_ndtr is y: by the quantile, or far below by steps of Newton's on log_ndtr."""
    far = y < -2
    low = where_else(far & isfinite(y), y, -2.0)
    x = -sqrt(-2 * low - log(-2 * low * math.pi) * where_else(low < -5, like(y, 1.0), 0.0))
    for _ in range(6):
        at = log_ndtr(x)
        x = x - (at - low) * exp(at + x * x / 2) * math.sqrt(2 * math.pi)
    near = where_else(far, like(y, -1.0), y)
    upper = near > -0.5
    middle = normal_quantile(where_else(upper, -expm1(near), exp(near)))
    x = where_else(equal(y, like(y, -math.inf)), y, x)
    return where_else(far, x, where_else(upper, -middle, middle))


def below_the_diagonal(h: Value, a: Value) -> Value:
    """Owen's T for h from 0 on and a from 0 to 1, by Gauss's rule as far as the integrand is not 0."""
    end = minimum(a, 9 / where_else(h > 9, h, 9.0))
    total = like(h, 0.0)
    for point, weight in zip(*np.polynomial.legendre.leggauss(NODES), strict=True):
        x = end * (0.5 * point + 0.5)
        square = x * x
        total = total + exp(h * h * square * -0.5) / (square + 1) * (weight / 2)
    return total * end * exp(h * h * -0.5) * (0.5 / math.pi)


def owens_integral(h: Value, a: Value) -> Value:
    """Owen's T, beyond a = 1 by that of a h and 1 / a; Owen, "Tables for computing bivariate normal probabilities"."""
    first, second = absolute(h), absolute(a)
    known = isfinite(first) & isfinite(second)
    first, second = where_else(known, first, 1.0), where_else(known, second, 1.0)
    beyond = second > 1
    product = where_else(beyond, first * second, first)
    inside = below_the_diagonal(product, where_else(beyond, 1 / where_else(beyond, second, 1.0), second))
    tail, other = ndtr(-first), ndtr(-product)
    found = where_else(beyond, (tail + other) / 2 - tail * other - inside, inside)
    limit = where_else(equal(absolute(h), like(h, math.inf)), like(h, 0.0), ndtr(-absolute(h)) / 2)
    found = where_else(known, found, where_else(isnan(h) | isnan(a), like(h, math.nan), limit))
    return where_else(a < 0, -found, found)


def logarithm_of_gamma(x: Value) -> Value:
    """The principal branch, which real numbers below 0 do not have."""
    return where_else(x < 0, like(x, math.nan), log_gamma(x))


def rising_factorial(a: Value, m: Value) -> Value:
    """gamma(a + m) / gamma(a); the logarithms are not subtracted where both are large."""
    far = (a >= 8) & (m > 0)
    b, n = where_else(far, a, 8.0), where_else(far, m, 1.0)
    apart = where_else(far, log_gamma(n) - log_beta(n, b), log_gamma(a + m) - log_gamma(a))
    top, bottom = is_pole(a + m), is_pole(a)
    found = (
        gamma_sign(where_else(top, like(a, 1.0), a + m)) * gamma_sign(where_else(bottom, like(a, 1.0), a)) * exp(apart)
    )
    return where_else(equal(m, like(m, 0.0)), like(a, 1.0), where_else(top & ~bottom, like(a, math.inf), found))


def binomial_coefficient(n: Value, k: Value) -> Value:
    """The binomial coefficient: a product for few, else by the beta function."""
    whole = is_integral(n) & (n > 0) & (k > floor(n / 2))
    few = where_else(whole, n - k, k)
    short = is_integral(k) & (few >= 0) & (few < 20) & ((absolute(n) > 1e-8) | equal(n, like(n, 0.0)))
    few = where_else(short, few, 0.0)
    product = like(n, 1.0)
    for i in range(1, 20):
        factor = (n - few + i) / i
        product = where_else(few >= i, product * factor, product)
    negative = is_integral(n) & (n < 0)
    usual = 1 / (n + 1) / beta_function(1 + n - k, 1 + k)
    large = (n >= 1e10 * k) & (k > 0)
    usual = where_else(large, exp(-log_beta(1 + n - k, 1 + k) - log(where_else(large, n, 1.0) + 1)), usual)
    return where_else(negative, like(n, math.nan), where_else(short, product, usual))


INTEGRALS: Mapping[str, Callable[..., Value]] = {
    "erfi": on_complex("erfi", math.inf),
    "dawsn": on_complex("dawsn", 0.0),
    "exp1": exponential_integral,
    "expi": principal_exponential_integral,
    "spence": dilogarithm,
    "ndtri_exp": quantile_of_logarithm,
    "loggamma": logarithm_of_gamma,
    "owens_t": owens_integral,
    "poch": rising_factorial,
    "binom": binomial_coefficient,
}
"""Functions that are integrals, inverses or quotients."""
