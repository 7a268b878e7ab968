"""Exponential, trigonometric and Fresnel integrals and Faddeeva's function, by series and fractions of primitives.

Source: DLMF, dlmf.nist.gov, sections 6.2 to 6.10, 7.5 to 7.12 and 8.19.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.frontend.promotion import cast_to
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.primitives import arithmetic as ar, functions as fn, logic as lo, special as sf
from wholestep.primitives.creation import constant
from wholestep.primitives.family import ones, zeros

_DOUBLE = np.dtype(np.float64)

LEVELS = 80
"""The levels of the fraction of E_n(x) that leave an error below rounding from x = 1 on."""
TERMS = 22
"""The terms of the series of E_n(x) that do so below."""
NEAR = 1.2
"""The number below which Fresnel's integrals are summed by their power series, without a loss of digits."""
FOLD = 4.0
"""The number from which on the fraction of the sine and cosine integral takes the place of their series."""
HALF = 2.0
"""The number from which on Ei and E1 give their hyperbolic kin without a loss of digits."""
CONSTANT = 1e16
"""The argument from which on both Fresnel integrals are one half, to rounding."""


def wofz(z: Value) -> Value:
    """Faddeeva's w(z) = exp(-z**2) erfc(-iz), which is erfcx(-iz)."""
    made: Value = fn.erfcx(ar.make_complex(ar.imag(z), -ar.real(z)))
    return made


def fresnel(x: Value) -> tuple[Value, Value]:
    """The integrals from 0 to x of sin(pi t**2 / 2) and cos(pi t**2 / 2)."""
    if x.dtype.kind == "c":
        return complex_fresnel(x)
    wide, one = cast_to(x, _DOUBLE), ones(cast_to(x, _DOUBLE).type)
    size = ar.abs(wide)
    near, far = size < NEAR, size > CONSTANT
    sines, cosines = fresnel_series(lo.select(near, wide, zeros(wide.type)))
    middle = lo.select(near | far, one * NEAR, size)
    side = middle * (math.sqrt(math.pi) / 2)
    scaled = fn.erfcx(ar.make_complex(side, -side))
    angle = middle * middle * (math.pi / 2)
    c, s, a, b = fn.cos(angle), fn.sin(angle), ar.real(scaled), ar.imag(scaled)
    p, q = c * a - s * b, c * b + s * a
    made = []
    for series, rest in ((sines, 1 - p - q), (cosines, 1 - p + q)):
        whole = ar.copysign(lo.select(far, one, rest) * 0.5, wide)
        made.append(cast_to(lo.select(lo.isnan(wide), wide, lo.select(near, series, whole)), x.dtype))
    return made[0], made[1]


def complex_fresnel(z: Value) -> tuple[Value, Value]:
    """The Fresnel integrals of a complex number: a series near 0, error functions elsewhere (DLMF 7.5.8)."""
    wide = cast_to(z, np.dtype(np.complex128))
    near = fn.hypot(ar.real(wide), ar.imag(wide)) < NEAR
    sines, cosines = fresnel_series(lo.select(near, wide, zeros(wide.type)))
    scaled = wide * (math.sqrt(math.pi) / 2)
    plus, minus = (fn.erf(scaled * (1 - s * 1j)) * ((1 + s * 1j) / 4) for s in (1, -1))
    made = (lo.select(near, sines, (minus - plus) * 1j), lo.select(near, cosines, plus + minus))
    return cast_to(made[0], z.dtype), cast_to(made[1], z.dtype)


def fresnel_series(x: Value) -> tuple[Value, Value]:
    """Both integrals by their power series."""
    angle = x * x * (math.pi / 2)
    square = -(angle * angle)
    sines, cosines = zeros(x.type), zeros(x.type)
    for k in reversed(range(13)):
        sines = sines * square + 1 / (math.factorial(2 * k + 1) * (4 * k + 3))
        cosines = cosines * square + 1 / (math.factorial(2 * k) * (4 * k + 1))
    return x * angle * sines, x * cosines


def expn(n: Value, x: Value) -> Value:
    """The exponential integral E_n(x) of a whole order n."""
    order, wide = cast_to(n, _DOUBLE), cast_to(x, _DOUBLE)
    order = lo.trunc(order)
    one = ones(wide.type)
    outside, low, first = (order < 0) | (wide < 0), wide <= 1, order < 1
    count = lo.select(outside | first, one, order)
    usual = ~outside & ~lo.isnan(wide)
    fraction = exponential_fraction(count, lo.select(usual & ~low, wide, one * 2))
    series = exponential_series(count, lo.select(usual & low & (wide > 0), wide, one))
    above = lo.select(usual & (wide > 0), wide, one)
    found = lo.select(first, fn.exp(-above) / above, lo.select(low, series, fraction))
    last = lo.select(order <= 1, one * math.inf, 1 / lo.select(order <= 1, one, order - 1))
    found = lo.select(wide.equals(0), last, found)
    return cast_to(lo.select(outside, one * math.nan, lo.select(lo.isnan(wide), wide, found)), x.dtype)


def exponential_fraction(n: Value, x: Value) -> Value:
    """E_n(x) by the continued fraction of DLMF 8.19.17, contracted, from its last level to the first."""

    def level(n: Value, x: Value, below: Value, k: Value) -> list[Value]:
        each: Value = OPS["broadcast"](k, shape=x.shape, axes=())
        return [x + n + 2 * (each - 1) - each * (n + each - 1) / below]

    steps = constant(value=np.arange(LEVELS, 0, -1.0))
    graph, _ = build(level, [n.type, x.type, x.type, OPS["sum"](steps, axes=(0,)).type], name="level")
    last = x + n + 2.0 * LEVELS
    found: Any = OPS["scan"](n, x, last, steps, graph=graph, sizes=(2, 1), length=LEVELS, reverse=False)
    made: Value = fn.exp(-x) / found[0]
    return made


def exponential_series(n: Value, x: Value) -> Value:
    """E_n(x) by the series of DLMF 8.19.8."""
    total, one = zeros(x.type), ones(x.type)
    power = one
    for k in range(TERMS):
        gap = n - (k + 1)
        singular = gap.equals(0)
        total = total + lo.select(singular, zeros(x.type), power / lo.select(singular, one, gap))
        power = power * x * (-1 / (k + 1))
    odd = 2 * (n * 0.5 - lo.floor(n * 0.5))
    size = fn.exp((n - 1) * fn.log(x) - fn.gammaln(n))
    made: Value = (2 * odd - 1) * size * (fn.digamma(n) - fn.log(x)) + total
    return made


def refuse_complex(name: str, x: Value) -> None:
    """Raise UnsupportedError for complex arguments."""
    if x.dtype.kind == "c":
        raise UnsupportedError(f"{name}: not covered for complex arrays such as {x.type}")


def integral_series(x: Value, start: int, sign: float) -> Value:
    """The sum of sign**k x**j / (j j!) over j = start + 2 k."""
    square, total = sign * (x * x), zeros(x.type)
    for k in reversed(range(TERMS)):
        j = start + 2 * k
        total = total * square + 1 / (math.factorial(j) * j)
    return total * (x if start == 1 else x * x)


def imaginary_fraction(x: Value) -> Value:
    """E1(i x), by the fraction of DLMF 6.9.1, contracted, from its last level to the first."""

    def level(z: Value, below: Value, k: Value) -> list[Value]:
        each: Value = OPS["broadcast"](k, shape=z.shape, axes=())
        return [z + (2 * each - 1) - each * each / below]

    z = ar.make_complex(zeros(x.type), x)
    steps = constant(value=np.arange(LEVELS, 0, -1.0) + 0j)
    graph, _ = build(level, [z.type, z.type, OPS["sum"](steps, axes=(0,)).type], name="level")
    found: Any = OPS["scan"](z, z + (2.0 * LEVELS + 1), steps, graph=graph, sizes=(1, 1), length=LEVELS, reverse=False)
    made: Value = fn.exp(-z) / found[0]
    return made


def shichi(x: Value) -> tuple[Value, Value]:
    """The hyperbolic sine and cosine integral, by their series, and from HALF on by Ei and E1 (DLMF 6.2.17)."""
    refuse_complex("shichi", x)
    wide, one = cast_to(x, _DOUBLE), ones(cast_to(x, _DOUBLE).type)
    size = ar.abs(wide)
    nothing, near = wide.equals(0), size < HALF
    sine = integral_series(lo.select(near, wide, zeros(wide.type)), 1, 1.0)  # with its sign, so that it bends at 0 too
    small = lo.select(near & ~nothing, size, one)
    cosine = np.euler_gamma + fn.log(small) + integral_series(small, 2, 1.0)
    large = lo.select(near | lo.isnan(wide), one * HALF, size)
    up, down = sf.expi(large), sf.exp1(large)
    sine = lo.select(near, sine, ar.copysign((up + down) * 0.5, wide))
    cosine = lo.select(nothing, one * -math.inf, lo.select(near, cosine, (up - down) * 0.5))
    made = [cast_to(lo.select(lo.isnan(wide), wide, y), x.dtype) for y in (sine, cosine)]
    return made[0], made[1]


def sici(x: Value) -> tuple[Value, Value]:
    """The sine and the cosine integral: by DLMF 6.6 up to FOLD, and beyond by the fraction of E1(i x), DLMF 6.9."""
    refuse_complex("sici", x)
    wide, one = cast_to(x, _DOUBLE), ones(cast_to(x, _DOUBLE).type)
    size = ar.abs(wide)
    near, endless = size < FOLD, size.equals(math.inf)
    nearby = integral_series(lo.select(near, wide, zeros(wide.type)), 1, -1.0)
    small = lo.select(near & ~wide.equals(0), size, one)
    cosine = np.euler_gamma + fn.log(small) - integral_series(small, 2, -1.0)
    large = lo.select(near | endless | lo.isnan(wide), one * FOLD, size)
    f = imaginary_fraction(large)
    faraway = lo.select(endless, zeros(one.type), ar.imag(f)) + math.pi / 2
    sine = lo.select(near, nearby, ar.copysign(faraway, wide))
    cosine = lo.select(near, cosine, lo.select(endless, zeros(one.type), -ar.real(f)))
    nothing, below = wide.equals(0), wide < 0
    cosine = lo.select(nothing, one * -math.inf, lo.select(below & endless, one * math.nan, cosine))
    unknown = lo.isnan(wide)
    return cast_to(lo.select(unknown, wide, sine), x.dtype), cast_to(lo.select(unknown, wide, cosine), x.dtype)


INTEGRALS: Any = {"expn": expn, "fresnel": fresnel, "shichi": shichi, "sici": sici, "wofz": wofz}
"""ufunc name -> values of the loop's dtypes and one shape -> a value, or several."""
