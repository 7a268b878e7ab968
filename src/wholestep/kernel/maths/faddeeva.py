"""The error function of complex numbers, from w(z) = exp(-z**2) erfc(-i z), in float64.

w comes from trapezoidal and midpoint sums of its integral with the residues of the poles they meet: Al Azah and
Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules", 2021.
"""

from __future__ import annotations

import math

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import F64
from wholestep.kernel.maths.complex import Complex, choose, exp, quotient, times_i, times_minus_i
from wholestep.kernel.maths.float_bits import differ, isfinite, magnitude, number, select, sign_of

COUNT = 11
STEP = math.sqrt(math.pi / (COUNT + 1))
SERIES = 28


def squared(z: Complex) -> Complex:
    """z**2, its real part without cancellation."""
    return Complex((z.re - z.im) * (z.re + z.im), 2 * z.re * z.im)


def sums(z: Complex, square: Complex, half: float) -> Complex:
    """2 i h z / pi times the sum of exp(-t**2) / (z**2 - t**2) over t = (k + half) h."""
    total = Complex(number(z.re, 0.0), number(z.re, 0.0))
    for k in range(1 if half == 0 else 0, COUNT + 1):
        t = (k + half) * STEP
        re, weight = square.re - t * t, math.exp(-t * t)
        size = weight / (re * re + square.im * square.im)
        total = total + Complex(re * size, -square.im * size)
    return times_i(total * z) * (2 * STEP / math.pi)


def quadrant(z: Complex) -> Complex:
    """w(z) where both parts of z are not negative."""
    square = squared(z)
    place = z.re * (1 / STEP)
    within = place - builder().op("floor", place)
    between = (z.im < z.re) & (within >= 0.25) & (within <= 0.75)
    high = (z.im >= z.re) & (z.im >= math.pi / STEP)
    decay = exp(-square)
    wave = exp(Complex(z.im, -z.re) * (2 * math.pi / STEP))
    one = Complex(number(z.re, 1.0), number(z.re, 0.0))
    residue = quotient(decay * 2, choose(between, one - wave, one + wave))
    nothing = Complex(number(z.re, 0.0), number(z.re, 0.0))
    lost = ~isfinite(magnitude(wave.re) + magnitude(wave.im))
    residue = choose(high | lost, nothing, residue)
    centre = quotient(Complex(number(z.re, 0.0), number(z.re, STEP / math.pi)), z)
    trapezoid = sums(z, square, 0.0) + centre
    return choose(between, trapezoid, sums(z, square, 0.5)) + residue


def w(z: Complex) -> Complex:
    """exp(-z**2) erfc(-i z)."""
    a = Complex(magnitude(z.re), magnitude(z.im))
    found = quadrant(a)
    flipped = differ(sign_of(z.re), 0)
    lower = z.im < 0
    # w(-z) = 2 exp(-z**2) - w(z) and w(-conj(z)) = conj(w(z)).
    upper = Complex(found.re, select(differ(flipped, lower), -found.im, found.im))
    return choose(lower, exp(-squared(z)) * 2 - upper, upper)


def near(z: Complex) -> Complex:
    """erf(z) for |z| of at most about 1, by its power series."""
    square = squared(z)
    total = Complex(number(z.re, 0.0), number(z.re, 0.0))
    for n in reversed(range(SERIES)):
        c = (-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1))
        total = total * square + c
    return total * z


def wide(z: Complex) -> tuple[Complex, Var]:
    """z in float64, and whether it is small."""
    b = builder()
    at = Complex(b.convert(z.re, F64), b.convert(z.im, F64))
    return at, at.re * at.re + at.im * at.im < 1.0


def back(found: Complex, like: Complex) -> Complex:
    """A result in the dtype that was given."""
    b = builder()
    return Complex(b.convert(found.re, like.re.dtype), b.convert(found.im, like.re.dtype))


def erf_wide(z: Complex, small: Var) -> Complex:
    """erf(z)."""
    negative = z.re < 0
    a = choose(negative, -z, z)
    far = Complex(number(z.re, 1.0), number(z.re, 0.0)) - exp(-squared(a)) * w(times_i(a))
    return choose(small, near(z), choose(negative, -far, far))


def erf(z: Complex) -> Complex:
    """The error function."""
    at, small = wide(z)
    return back(erf_wide(at, small), z)


def erfc(z: Complex) -> Complex:
    """1 - erf(z)."""
    at, small = wide(z)
    negative = at.re < 0
    a = choose(negative, -at, at)
    far = exp(-squared(a)) * w(times_i(a))
    outer = choose(negative, Complex(2 - far.re, -far.im), far)
    one = Complex(number(at.re, 1.0), number(at.re, 0.0))
    return back(choose(small, one - near(at), outer), z)


def erfcx(z: Complex) -> Complex:
    """exp(z**2) erfc(z)."""
    at, _ = wide(z)
    return back(w(times_i(at)), z)


def erfi(z: Complex) -> Complex:
    """-i erf(i z)."""
    at, small = wide(z)
    return back(times_minus_i(erf_wide(times_i(at), small)), z)


def dawsn(z: Complex) -> Complex:
    """sqrt(pi) / 2 exp(-z**2) erfi(z)."""
    at, small = wide(z)
    half = math.sqrt(math.pi) / 2
    decay = exp(-squared(at))
    close = decay * times_minus_i(near(times_i(at)))
    return back(choose(small, close, times_i(decay - w(at))) * half, z)
