"""The interpreter's fma has one rounding: against exact rational numbers, and against this processor's instruction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.backends import native_kernels
from tests.kernel.parse import parse_kernel

from wholestep.kernel.ops import fma

Array = np.ndarray[Any, Any]
EDGES = [0.0, 1.0, math.inf, math.nan, 5e-324, 1.7976931348623157e308, 2.0**-1022, 2.0**-537, 2.0**-538, 0.5]
RANGES = [(-3, 3), (-540, -500), (-1090, 1024), (-600, 520), (480, 520)]
"""Exponents of the factors: near 1, products among the subnormals, anything, anything that fits, products too large."""


def numbers(rng: np.random.Generator, n: int, low: int, high: int) -> Array:
    """Floats between two powers of two: random bits, bits in the upper half alone, and those next to a power."""
    bits = rng.integers(2**52, 2**53, n)
    kind = rng.integers(0, 4, n)
    few = rng.integers(0, 8, n)
    bits = np.select([kind == 1, kind == 2, kind == 3], [bits >> 27 << 27, 2**52 + few, 2**53 - 1 - few], bits)
    with np.errstate(all="ignore"):
        return np.ldexp(bits * rng.choice([-1.0, 1.0], n), rng.integers(low, high, n) - 52)


def triples(rng: np.random.Generator, n: int) -> Iterator[tuple[Array, Array, Array]]:
    """Factors with summands that cancel the product or its leading bits, that break its ties, and any others."""
    for low, high in RANGES:
        a, b = numbers(rng, n, low, high), numbers(rng, n, low, high)
        with np.errstate(all="ignore"):
            p = a * b
            away = np.where(rng.integers(0, 2, n) == 0, -np.inf, np.inf)
            yield from (
                (a, b, c)
                for c in (
                    -p,
                    np.nextafter(-p, away),
                    -p * (1 + rng.integers(-4, 5, n) * 2.0**-50),
                    np.ldexp(p, rng.integers(-120, 120, n)),
                    np.ldexp(p, -53),
                    numbers(rng, n, -1090, 1024),
                    numbers(rng, n, -1090, -1000),
                    np.copysign(5e-324, away),
                    np.copysign(0.0, away),
                )
            )
    signed = np.array([s * x for x in EDGES for s in (1, -1)])
    yield tuple(x.ravel() for x in np.meshgrid(signed, signed, signed))  # type: ignore[misc]


def exactly(a: float, b: float, c: float) -> float:
    """a * b + c in rational numbers, rounded by Python's own division of integers."""
    if not all(map(math.isfinite, (a, b, c))):
        u, v = math.frexp(a)[0], math.frexp(b)[0]
        return float(np.float64(u) * np.float64(v) + np.float64(c))
    total = Fraction(a) * Fraction(b) + Fraction(c)
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    if total == 0:
        product = -0.0 if negative else 0.0
        return product + c if a == 0 or b == 0 or c == 0 else 0.0
    try:
        made = float(total)
    except OverflowError:
        made = math.inf
    return math.copysign(made, -1 if total < 0 else 1)


def assert_same(found: Array, expected: Array, *given: Array) -> None:
    same = (found.view(f"i{found.itemsize}") == expected.view(f"i{found.itemsize}")) | (
        np.isnan(found) & np.isnan(expected)
    )
    wrong = np.flatnonzero(~same)[:3]
    shown = [[float(x[k]).hex() for x in (*given, found, expected)] for k in wrong]
    assert not shown, f"a, b, c, found, expected: {shown}"


def test_one_rounding_by_exact_arithmetic() -> None:
    with np.errstate(all="ignore"):
        for a, b, c in triples(np.random.default_rng(0), 300):
            expected = np.array([exactly(*map(float, t)) for t in zip(a, b, c, strict=True)])
            assert_same(np.asarray(fma(a, b, c)), expected, a, b, c)


@pytest.mark.skipif(not hasattr(math, "fma"), reason="math.fma is of Python 3.13")
def test_one_rounding_by_python() -> None:
    with np.errstate(all="ignore"):
        for a, b, c in triples(np.random.default_rng(1), 300):
            for t in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
                try:
                    expected = math.fma(*t)  # type: ignore[attr-defined]
                except (OverflowError, ValueError):
                    continue
                assert_same(np.asarray(fma(*map(np.float64, t))).reshape(1), np.array([expected]))


KERNEL = """\
kernel multiply_add(a: {t}[{n}], b: {t}[{n}], c: {t}[{n}], mut y: {t}[{n}]):
    for i in {n} lanes 8:
        v0 = a[i]
        v1 = b[i]
        v2 = c[i]
        v3 = fma(v0, v1, v2)
        y[i] = v3
"""


@pytest.mark.parametrize("name", ["f64", "f32"])
def test_one_rounding_by_this_processor(name: str) -> None:
    """More than a million cases; in single precision the same numbers, rounded and scaled into range."""
    dtype = np.dtype("f8" if name == "f64" else "f4")
    with np.errstate(all="ignore"):
        parts = [list(x) for x in zip(*triples(np.random.default_rng(2), 24000), strict=True)]
        a, b, c = [np.concatenate(x) for x in parts]
        if name == "f32":
            a, b, c = [np.ldexp(np.frexp(x)[0], np.frexp(x)[1] >> 3).astype(dtype) for x in (a, b, c)]
        found = np.asarray(fma(a, b, c))
    y = np.zeros_like(a)
    native_kernels.run(parse_kernel(KERNEL.format(t=name, n=len(a))), a, b, c, y)
    assert found.dtype == dtype and len(a) > 1_000_000
    assert_same(found, y, a, b, c)
