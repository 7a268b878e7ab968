"""Correctly rounded arithmetic from operations that a compiler may treat as operations on real numbers.

Nothing is assumed of `fma`, which may also round its product, of divisions and roots, which may be some ulps off, and
of subnormal numbers, which may be flushed to zero. The result of `exact` is rounded, and opaque to the compiler.
"""

from __future__ import annotations

from collections.abc import Callable

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.float_bits import fma, from_word, isfinite, isinf, magnitude, number, root, select, word

HIGH_HALF = 0xFFFFF000
"""The bits of the upper half of a float32: a product of halves is exact, or one digit too long for a last term."""
TINY = 2.0**-100
"""The magnitude below which a rounding error, or the lower half of a number, may be subnormal."""
SCALE = 60
"""The even power of two that operands of divisions and roots are scaled by."""
SMALL, LARGE = 2.0**-40, 2.0**40
"""The magnitudes below and above which operands are scaled."""


def kept(x: Var) -> Var:
    """x, rounded."""
    return builder().op("exact", x)


def kept_fma(a: Var, b: Var, c: Var) -> Var:
    """a * b + c rounded once, in float32; of numbers that are tiny or beyond the range the product is rounded too."""
    p = kept(a * b)
    s = kept(p + c)
    ah, bh = from_word(word(a) & HIGH_HALF, a), from_word(word(b) & HIGH_HALF, b)
    al, bl = kept(a - ah), kept(b - bh)
    e = kept(kept(kept(kept(ah * bh) - p) + kept(ah * bl)) + kept(al * bh))
    under = kept(e + kept(al * bl))
    back = kept(s - p)
    rest = kept(kept(p - kept(s - back)) + kept(c - back))
    usual = isfinite(s) & isfinite(p)
    for x in (p, a, b):
        usual = usual & (TINY < magnitude(x))
    # A product of finite numbers beyond the range is nothing beside an infinite summand.
    s = select(isfinite(a) & isfinite(b) & isinf(c), c, s)
    return select(usual, kept(s + kept(rest + under)), s)


def kept_quotient(a: Var, b: Var) -> Var:
    """a / b in float32, rounded from an approximate quotient and its remainder."""
    small, size = magnitude(a) < SMALL, magnitude(b)
    up, down = 2.0**SCALE, 2.0**-SCALE
    above = select(size < SMALL, number(b, up), select(LARGE < size, number(b, down), number(b, 1.0)))
    a, b = kept(select(small, a * up, a)), kept(b * above)
    q = kept(a / b)
    found = kept(q + kept(fma(-q, b, a) / b))
    usual = isfinite(found) & (TINY < magnitude(a))
    return kept(select(usual, found, q) * select(small, above * down, above))


def kept_root(x: Var) -> Var:
    """The square root of a float32, rounded from an approximate root and its remainder."""
    small = x < SMALL
    x = kept(select(small, x * 2.0**SCALE, x))
    s = kept(root(x))
    found = kept(s + kept(fma(-s, s, x) / kept(s + s)))
    found = select(isfinite(found), found, s)
    return select(small, kept(found * 2.0 ** (-SCALE // 2)), found)


ROUNDED_ONCE: dict[str, tuple[Callable[..., Var], int]] = {
    "fma": (kept_fma, 3),
    "div": (kept_quotient, 2),
    "sqrt": (kept_root, 1),
}
"""The operations of float32 that a compiler may round otherwise: scalar code and the number of operands of each.

Inside, `fma` is the first of them; divisions and roots are the compiler's.
"""
