"""Floating-point numbers as words: formats, bits, exact sums and products, and shorthands for all functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Axis, DType, Var
from wholestep.kernel.maths.coefficients import F32, F64, Table


class Format(NamedTuple):
    """The facts about a floating-point dtype.

    Adding `magic` rounds to an integer, which then stands in the low bits; `one` is the word of 1.0.
    """

    unsigned: DType
    width: int
    fraction: int
    bias: int

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.fraction

    @property
    def one(self) -> int:
        return self.bias << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        """The word of infinity, which is all of the exponent field."""
        return ((1 << (self.width - 1 - self.fraction)) - 1) << self.fraction

    @property
    def least(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {F32: Format(np.dtype(np.uint32), 32, 23, 127), F64: Format(np.dtype(np.uint64), 64, 52, 1023)}


def format_of(x: Var) -> Format:
    """The format of a value: float32 or float64."""
    return FORMATS[x.dtype]


def by(x: Var, f32: Any, f64: Any) -> Any:
    """`f32` or `f64`, by the dtype of a value."""
    return f32 if x.dtype == F32 else f64


def number(x: Var, value: Any) -> Var:
    """A number in the dtype of a value."""
    return builder().constant(value, x.dtype)


def fma(a: Any, b: Any, c: Any) -> Var:
    """a * b + c, rounded once."""
    return builder().op("fma", a, b, c)


def select(condition: Var, a: Any, b: Any) -> Var:
    """a where the condition holds, else b."""
    return builder().op("select", condition, a, b)


def equal(a: Any, b: Any) -> Var:
    """Test whether two numbers are the same."""
    return builder().op("eq", a, b)


def differ(a: Any, b: Any) -> Var:
    """Test whether two numbers are not the same."""
    return builder().op("ne", a, b)


def magnitude(x: Var) -> Var:
    """|x|."""
    return builder().op("abs", x)


def at_most(limit: Any, x: Var) -> Var:
    """x, or the limit where x is above it; NaN stays."""
    return builder().op("min", limit, x)


def at_least(limit: Any, x: Var) -> Var:
    """x, or the limit where x is below it; NaN stays."""
    return builder().op("max", limit, x)


def root(x: Var) -> Var:
    """The square root, rounded once."""
    return builder().op("sqrt", x)


def isfinite(x: Var) -> Var:
    """Test whether x is neither NaN nor infinite."""
    return builder().op("isfinite", x)


def isnan(x: Var) -> Var:
    """Test whether x is NaN."""
    return builder().op("isnan", x)


def isinf(x: Var) -> Var:
    """Test whether x is infinite, of either sign."""
    return equal(word(magnitude(x)), format_of(x).infinity)


def word(x: Var) -> Var:
    """The bits of a floating-point value."""
    return builder().bits(x, format_of(x).unsigned)


def from_word(bits: Var, like: Var) -> Var:
    """The floating-point value of a word."""
    return builder().bits(bits, like.dtype)


def sign_of(x: Var) -> Var:
    """The sign bit alone, as a word."""
    return word(x) & format_of(x).sign


def with_sign(x: Var, sign: Var) -> Var:
    """x, negated where the word `sign` has the sign bit."""
    return from_word(word(x) ^ sign, x)


def copysign(x: Var, y: Var) -> Var:
    """|x| with the sign of y."""
    return from_word((word(x) & (format_of(x).sign - 1)) | sign_of(y), x)


def polynomial(x: Var, table: Table) -> Var:
    """The polynomial of a table at x; a long one as independent sums of even and odd powers."""
    coefficients = table[x.dtype]
    if len(coefficients) < 8:
        return horner(x, coefficients)
    square = x * x
    return fma(x, horner(square, coefficients[1::2]), horner(square, coefficients[::2]))


def horner(x: Var, coefficients: tuple[float, ...]) -> Var:
    """A polynomial by Horner's rule, lowest coefficient first."""
    total = number(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def two_power(rounded: Var) -> Var:
    """2**n from n + magic, for an n whose power is a normal number."""
    f = format_of(rounded)
    return from_word((word(rounded) << f.fraction) + f.one, rounded)


def scaled(y: Var, n: Var) -> Var:
    """y * 2**n for an integer n, by two powers of 2, so that overflow and subnormal results are rounded once."""
    magic = format_of(y).magic
    rounded = fma(n, 0.5, magic)
    half = rounded - magic
    return y * two_power(rounded) * two_power((n - half) + magic)


def quick_sum(a: Any, b: Any) -> tuple[Var, Var]:
    """a + b and its rounding error, where |a| is the larger or a is zero (Dekker)."""
    s = a + b
    return s, b - (s - a)


def product_of(a: Var, b: Any) -> tuple[Var, Var]:
    """a * b and its rounding error."""
    p = a * b
    return p, fma(a, b, -p)


def rare(
    guard: Var, function: Callable[..., tuple[Var, ...]], xs: tuple[Var, ...], usual: tuple[Var, ...]
) -> list[Var]:
    """The values of `function` at xs where the guard holds, and the usual values elsewhere; vectors skip the function
    if the guard holds in no lane."""
    with builder().loop(Axis("rare", 1), ordered=True, guard=guard) as loop:
        # The operands come as carries, so that nothing of the function can be placed before the loop.
        given = [loop.carry(x) for x in xs]
        held = [loop.carry(u) for u in usual]
        found = function(*given)
        for x in given:
            loop.hand(x, x)
        return [loop.hand(h, f) for h, f in zip(held, found, strict=True)]


def nextafter(x: Var, y: Var) -> Var:
    """The number next to x on the way to y, both as they are stored, float16 and bfloat16 included."""
    b = builder()
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    top = 1 << (8 * x.dtype.itemsize - 1)
    wide = F64 if x.dtype == F64 else F32
    at, to, bits, other = b.convert(x, wide), b.convert(y, wide), b.bits(x, unsigned), b.bits(y, unsigned)
    outward = equal(at < to, at > 0)
    step = select(outward, bits + 1, bits - 1)
    least = (other & top) | 1
    moved = select(equal(bits & (top - 1), 0), least, step)
    there = select(equal(at, to), other, moved)
    return b.bits(select(isnan(at), bits, select(isnan(to), other, there)), x.dtype)
