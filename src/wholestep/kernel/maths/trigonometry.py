"""Sine, cosine and tangent: the angle less a whole number of quarter turns, and a polynomial.

Small angles lose n quarter turns in three steps (Cody and Waite). From `LARGE` on, where that would lose digits, the
angle is multiplied by as many binary digits of 1 / (2 pi) as its exponent asks for (Payne and Hanek).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import COS, F32, F64, SIN
from wholestep.kernel.maths.float_bits import (
    FORMATS,
    fma,
    format_of,
    isfinite,
    magnitude,
    number,
    polynomial,
    product_of,
    quick_sum,
    rare,
    select,
    sign_of,
    with_sign,
    word,
)
from wholestep.kernel.ops import two_sum

LARGE = {F32: 40000.0, F64: 2.0**20}
QUARTER = {
    F32: (1.57079601, 3.13916473e-7, 5.39030253e-15),
    F64: (1.5707963267341256, 6.077100506506192e-11, 3.5215598651832e-27),
}
"""A quarter turn in three parts, the first so short that its products with n are exact."""
U32, I32 = np.dtype(np.uint32), np.dtype(np.int32)
U64, I64 = np.dtype(np.uint64), np.dtype(np.int64)
LIMB, MASK = 32, (1 << 32) - 1
TURN = int(
    "28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF1586DC91B8E909374B801924BBA827464873F87"
    "7AC72C4A69CFBA208D7D4BAED1213A671C09AD17DF904E64758E60D4CE7D272117E2EF7E4A0EC7FE25FFF7816603FBCBC462"
    "D6829B47DB4D9FB3C9F2C26DD3D18FD9A797FA8B5D49EEB1FAF97C5ECF41CE7DE294A4BA9AFED7EC47E357421580CC11",
    16,
)
"""The first 1184 binary digits of 1 / (2 pi)."""
AHEAD = 48
"""The number of zeros before these digits, so that every start position is positive."""
LIMBS = tuple(((TURN << 32) >> (1184 + AHEAD - LIMB * i)) & MASK for i in range(38))


TURN_IN_PARTS = (6.2831854820251465, -1.7484556000744883e-07)
"""2 pi as the sum of two float32 numbers."""
CLASSES, SPAN = 5, 25
"""The exponents of a float32 in ranges of 25, above the first of which it is a whole multiple of a power of two."""
PIECES = [
    [(((TURN << SPAN * c) >> (1184 - 27 * (i + 1))) & (2**27 - 1)) * 2.0 ** (2 - 27 * (i + 1)) for i in range(4)]
    for c in range(CLASSES)
]
"""That power of two in quarter turns, less a multiple of 4, in pieces whose products with a float32 are exact."""


def quarters(a: Var) -> tuple[Var, Var]:
    """a less n quarter turns, and a word that ends in the bits of n; a is not negative."""
    first, second, third = QUARTER[a.dtype]
    n, bits = turns(a)
    rest = fma(n, -third, fma(n, -second, fma(n, -first, a)))
    found, _, word_of_n = rare(a > LARGE[a.dtype], distant(a), (a,), (rest, rest, bits))
    return found, word_of_n


def quarters_in_parts(a: Var) -> tuple[Var, Var, Var]:
    """The reduced angle, its rounding error, and a word that ends in the bits of n; a is not negative."""
    first, second, third = QUARTER[a.dtype]
    n, bits = turns(a)
    product, more = product_of(n, second)
    high, low = two_sum(fma(n, -first, a), -product)
    high, low = quick_sum(high, fma(n, -third, low - more))
    found, left, word_of_n = rare(a > LARGE[a.dtype], distant(a), (a,), (high, low, bits))
    return found, left, word_of_n


def turns(a: Var) -> tuple[Var, Var]:
    """The number of quarter turns nearest to an angle below `LARGE`, and a word that ends in their bits."""
    rounded = fma(a, 2 / math.pi, format_of(a).magic)
    return rounded - format_of(a).magic, word(rounded)


def distant(a: Var) -> Callable[[Var], tuple[Var, Var, Var]]:
    """The function that reduces larger angles: to the reduced angle, its rounding error, and the word of n."""
    return far if a.dtype == F64 else far32 if builder().doubles else far32_by_words


def far32(a: Var) -> tuple[Var, Var, Var]:
    """An angle in float32, NaN for an infinite one."""
    b, y = builder(), builder().convert(a, F64)
    size = y
    pieces = [number(y, p) for p in PIECES[0]]
    for c in range(1, CLASSES):
        beyond = size >= 2.0 ** (24 + SPAN * c)
        y = select(beyond, size * 2.0 ** (-SPAN * c), y)
        pieces = [select(beyond, p, q) for p, q in zip(PIECES[c], pieces, strict=True)]
    first, second, *last = [y * p for p in pieces]
    n, m = b.op("rint", first), b.op("rint", second)
    left, right = first - n, second - m
    carry = b.op("rint", left + right + last[0])
    rest = ((left - carry) + right) + (last[0] + last[1])
    angle = rest * (math.pi / 2)
    rounded = b.convert(angle, F32)
    left = b.convert(angle - b.convert(rounded, F64), F32)
    return rounded, left, b.convert(word((n + m) + (carry + FORMATS[F64].magic)), U32)


def far32_by_words(a: Var) -> tuple[Var, Var, Var]:
    """An angle in float32, in whole numbers of 32 bits: 64 binary digits of its turns; NaN for an infinite one."""
    b, bits = builder(), word(a)
    m = (bits & ((1 << 23) - 1)) | (1 << 23)
    place = bits >> 23
    # a = m 2**e; whole turns are left out by starting e digits into 1 / (2 pi).
    place = place - (127 + 23 - AHEAD)
    limbs = chosen_limbs(place >> 5, [b.constant(limb, U32) for limb in LIMBS[:11]], (4, 2, 1), 3)
    left = place & 31
    window = [(high << left) | (low >> (32 - left)) for high, low in pairwise(limbs)]
    under = b.op("mulhi", m, window[2])
    low = m * window[1] + under
    carry = b.convert(low < under, U32)
    high = m * window[0] + b.op("mulhi", m, window[1]) + carry
    n = (high + (1 << 29)) >> 30
    signed = b.bits(high - (n << 30), I32)
    halves = [signed >> 16, *[b.bits(x, I32) for x in (high & 0xFFFF, low >> 16, low & 0xFFFF)]]
    total, rest = b.convert(halves[0], F32) * 2.0**-16, number(a, 0.0)
    for i, half in enumerate(halves[1:], 2):
        total, more = quick_sum(total, b.convert(half, F32) * 2.0 ** (-16 * i))
        rest = rest + more
    angle, left_out = product_of(total + (a - a), TURN_IN_PARTS[0])
    angle, left_out = quick_sum(angle, left_out + fma(total, TURN_IN_PARTS[1], rest * TURN_IN_PARTS[0]))
    return angle, left_out, n


def far(a: Var) -> tuple[Var, Var, Var]:
    """An angle in float64, in whole numbers; NaN for an infinite one."""
    b = builder()
    bits = word(a)
    # a = m 2**e; whole turns are left out by starting e digits into 1 / (2 pi).
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    place = (bits >> 52) - (1023 + 52 - AHEAD)
    window = digits(place, 6)
    limbs = times([m >> LIMB, m & MASK], window)
    high = (limbs[0] << LIMB) | limbs[1]
    n = (high + (1 << 61)) >> 62
    signed = b.bits(high - (n << 62), I64)
    total, rest = b.convert(signed >> LIMB, F64) * 2.0**LIMB, number(a, 0.0)
    for i, limb in enumerate([signed & MASK, *[b.bits(x, I64) for x in limbs[2:5]]]):
        total, more = quick_sum(total, b.convert(limb, F64) * 2.0 ** (-LIMB * i))
        rest = rest + more
    scale = 2 * math.pi * 2.0**-64
    angle, left = product_of(total + (a - a), scale)
    angle, left = quick_sum(angle, left + fma(total, 2.4492935982947064e-16 * 2.0**-64, rest * scale))
    return angle, left, n


def digits(place: Var, count: int) -> list[Var]:
    """`count` limbs of 1 / (2 pi) with the zeros ahead of it, from a binary place on: its bits choose them."""
    b = builder()
    limbs: list[Var] = [b.constant(limb, U64) for limb in LIMBS]
    limbs = chosen_limbs(place >> 5, limbs, (16, 8, 4, 2, 1), count)
    left = place & 31
    pairs = [(limbs[i] << LIMB) | limbs[i + 1] for i in range(count)]
    return [((pair << left) >> LIMB) & MASK for pair in pairs]


def chosen_limbs(index: Var, limbs: list[Var], bits: tuple[int, ...], count: int) -> list[Var]:
    """The `count` limbs from an index on; only these bits of the index are used, and more limbs may follow."""
    for bit in bits:
        there = builder().op("ne", index & bit, 0)
        limbs = [select(there, limbs[i + bit], limbs[i]) for i in range(min(len(limbs) - bit, count + bit))]
    return limbs


def times(few: list[Var], many: list[Var]) -> list[Var]:
    """The product of two numbers in limbs, highest first, without the limbs above the length of the second."""
    n = len(many)
    sums: list[Var] = [builder().constant(0, U64)] * (n + 1)
    for i, x in enumerate(reversed(few)):
        for j, y in enumerate(reversed(many)):
            place = n - 1 - i - j
            if place >= 0:
                p = x * y
                sums[place + 1] = sums[place + 1] + (p & MASK)
                sums[place] = sums[place] + (p >> LIMB) if place else sums[place]
    return carried(sums[1:])


def carried(sums: list[Var]) -> list[Var]:
    """Limbs with their carries added to the next higher limb."""
    carry, out = builder().constant(0, U64), []
    for s in reversed(sums):
        total = s + carry
        out.append(total & MASK)
        carry = total >> LIMB
    return out[::-1]


def waves(r: Var) -> tuple[Var, Var]:
    """The sine and the cosine of an angle of at most an eighth of a turn."""
    s = r * r
    return fma(r * s, polynomial(s, SIN), r), fma(s * s, polynomial(s, COS), fma(s, -0.5, 1.0))


def odd(n: Var) -> Var:
    """Test whether an odd number of quarter turns was taken off."""
    return builder().op("ne", n & 1, 0)


def half_turn(n: Var, like: Var) -> Var:
    """The sign bit where the number of half turns is odd."""
    f = format_of(like)
    return (n << (f.width - 2)) & f.sign


def sin(x: Var) -> Var:
    """The sine of an angle in radians."""
    return sin_cos(x)[0]


def cos(x: Var) -> Var:
    """The cosine of an angle in radians."""
    return sin_cos(x)[1]


def sin_cos(x: Var) -> tuple[Var, Var]:
    """The sine and the cosine of an angle in radians; an unused one of them is not computed."""
    r, n = quarters(magnitude(x))
    s, c = waves(r)
    turned = odd(n)
    sine = with_sign(select(turned, c, s), half_turn(n, x) ^ sign_of(x))
    return sine, with_sign(select(turned, s, c), half_turn(n + 1, x))


def tan(x: Var) -> Var:
    """The tangent of an angle in radians."""
    r, left, n = quarters_in_parts(magnitude(x))
    square = r * r
    sine = quick_sum(r, fma(r * square, polynomial(square, SIN), left))
    cosine = quick_sum(number(r, 1.0), fma(square * square, polynomial(square, COS), square * -0.5))
    turned = odd(n)
    (up, down), (up_rest, down_rest) = [
        (select(turned, c, s), select(turned, s, c)) for s, c in zip(sine, cosine, strict=True)
    ]
    sign = (n << (format_of(x).width - 1)) ^ sign_of(x)
    return with_sign(quotient_of(up, up_rest, down, down_rest), sign)


def quotient_of(up: Var, up_rest: Var, down: Var, down_rest: Var) -> Var:
    """(up + up_rest) / (down + down_rest), rounded little more than once."""
    q = up / down
    missing = fma(-q, down, up) + fma(-q, down_rest, up_rest)
    return select(isfinite(missing), q + missing / down, q)
