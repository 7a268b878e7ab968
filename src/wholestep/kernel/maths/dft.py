"""Discrete Fourier transforms of a few complex numbers, written out.

n = r m numbers: r m-th of them at a time, by r-th roots of unity (Cooley and Tukey, 1965); a prime number of them by
sums and differences of the numbers that share a cosine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep.kernel.maths.complex import Complex
from wholestep.kernel.maths.float_bits import fma, number


def times_root(z: Complex, turn: int, n: int, inverse: bool) -> Complex:
    """z times e^(-2 pi i turn / n), or the conjugate of that where `inverse`."""
    quarters, rest = divmod(4 * (turn % n), n)
    for _ in range((-quarters if inverse else quarters) % 4):
        z = Complex(z.im, -z.re)
    if not rest:
        return z
    angle = 0.5 * math.pi * rest / n
    c, s = math.cos(angle), (1 if inverse else -1) * math.sin(angle)
    if 2 * rest == n:
        re, im = (z.re - z.im, z.im + z.re) if inverse else (z.re + z.im, z.im - z.re)
        return Complex(re * c, im * c)
    return Complex(fma(z.re, number(z.re, c), z.im * -s), fma(z.im, number(z.im, c), z.re * s))


def finite_product(z: Complex, w: Complex) -> Complex:
    """The product of finite numbers."""
    return Complex(fma(z.re, w.re, -(z.im * w.im)), fma(z.re, w.im, z.im * w.re))


def radix_of(n: int) -> int:
    """4 if it divides n, else the least prime factor."""
    return 4 if n % 4 == 0 and n > 4 else next(p for p in range(2, n + 1) if n % p == 0)


def small_dft(x: Sequence[Complex], inverse: bool) -> list[Complex]:
    """The transform, not normalised."""
    n = len(x)
    if n == 1:
        return list(x)
    r = radix_of(n)
    if r == n:
        return [x[0] + x[1], x[0] - x[1]] if n == 2 else prime_dft(x, inverse)
    m = n // r
    columns = [small_dft(x[i::m], inverse) for i in range(m)]
    rows = [small_dft([times_root(columns[i][k], i * k, n, inverse) for i in range(m)], inverse) for k in range(r)]
    return [rows[k][q] for q in range(m) for k in range(r)]


def weighted_sum(start: Complex | None, weights: Sequence[float], terms: Sequence[Complex]) -> Complex:
    """The sum of the products, and of the first number if there is one."""
    for w, x in zip(weights, terms, strict=True):
        weight = number(x.re, w)
        start = x * w if start is None else Complex(fma(x.re, weight, start.re), fma(x.im, weight, start.im))
    assert start is not None
    return start


def prime_dft(x: Sequence[Complex], inverse: bool) -> list[Complex]:
    """The transform of an odd number of elements.

    X[k], X[n-k] = x[0] + sum_j cos(2 pi j k / n) (x[j] + x[n-j]) -+ i sin(2 pi j k / n) (x[j] - x[n-j])
    """
    n, half = len(x), range(1, len(x) // 2 + 1)
    sums, differences = [x[j] + x[n - j] for j in half], [x[j] - x[n - j] for j in half]
    total = x[0]
    for pair in sums:
        total = total + pair
    found = [total] * n
    for k in half:
        angles = [2 * math.pi * (j * k % n) / n for j in half]
        cosines, sines = [math.cos(a) for a in angles], [(-1 if inverse else 1) * math.sin(a) for a in angles]
        even, odd = weighted_sum(x[0], cosines, sums), weighted_sum(None, sines, differences)
        found[k] = Complex(even.re + odd.im, even.im - odd.re)
        found[n - k] = Complex(even.re - odd.im, even.im + odd.re)
    return found
