"""The scalar operations of the kernel language: the operands, result dtype and NumPy meaning of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep.kernel.lang import DType


class Op(NamedTuple):
    """A scalar operation: number of operands, kinds of dtype it takes ("b", "i", "f", "w"), and its meaning in NumPy.

    "w" is a word, uint32 alone. `gives` is "b" for a truth value; otherwise the result has the dtype of the last
    operand.
    """

    arity: int
    takes: str
    meaning: Callable[..., Any]
    gives: str = ""


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b in float64 and its rounding error, for numbers that are neither huge nor tiny (Dekker).

    Veltkamp's halves have 26 bits each, the sign of the lower one included, so that each partial product is exact.
    """

    def halves(x: Any) -> tuple[Any, Any]:
        wide = x * 134217729.0
        high = wide - (wide - x)
        return high, x - high

    (ah, al), (bh, bl), p = halves(a), halves(b), a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b and its rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def odd(a: Any, b: Any) -> Any:
    """a + b in float64, rounded to an odd last bit where it is inexact, so that a second rounding is correct."""
    s, rest = two_sum(a, b)
    bits = s.view(np.int64)
    inexact = (rest != 0) & (bits & 1 == 0) & np.isfinite(s)
    return np.where(inexact, bits + np.where((rest > 0) == (s > 0), 1, -1), bits).view(np.float64)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
    algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008)."""
    if np.asarray(a).dtype == np.float32:
        exact = np.multiply(a, b, dtype=np.float64)
        plain = exact + c
        return np.where(np.isfinite(plain), odd(exact, np.float64(c)), plain).astype(np.float32)
    a, b, c = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in (a, b, c)])
    # Powers of two bring the factors between 1/2 and 1, and the summand with them.
    (u, i), (v, j) = np.frexp(a), np.frexp(b)
    shift = i.astype(np.int64) + j
    scaled = np.ldexp(c, np.clip(-shift, -2200, 2200))
    special = (u == 0) | (v == 0) | ~np.isfinite(u * v) | ~np.isfinite(c)
    alone = ~np.isfinite(scaled) | (shift < -1077)
    u1, v1, c1 = [np.where(special | alone, 0.5, x) for x in (u, v, scaled)]
    found = _scaled_fma(u1, v1, c1, np.where(alone, 0, shift))
    # The product is nothing beside the summand `alone`; beside 0 it has the sign that it had before it underflowed.
    found = np.where(alone, c, found)
    return np.where(special, u * v + c, np.where(c == 0, a * b, found))


def _scaled_fma(u: Any, v: Any, c: Any, shift: Any) -> Any:
    """(u * v + c) * 2**shift with one rounding, for factors between 1/2 and 1 and a shift from -1077 on."""
    # The product is a multiple of 2**-106: only the sign of a summand far below that matters.
    c = np.where(np.abs(c) < 2.0**-500, np.copysign(2.0**-500, c), c)
    high, low = two_product(u, v)
    near_high, near_low = two_sum(c, low)
    most, rest = two_sum(high, near_high)
    rest = odd(rest, near_low)
    found = most + rest
    made = np.ldexp(found, shift)
    # A result that may be subnormal is rounded once, to a multiple of the smallest subnormal: adding and subtracting
    # the anchor leaves no smaller bits.
    small = np.abs(made) <= 2.0**-1022
    anchor = np.where(small, np.copysign(np.ldexp(1.0, -1022 - np.where(small, shift, 0)), found), 0.0)
    top, under = two_sum(anchor, most)
    tiny = np.ldexp((top + odd(under, rest)) - anchor, shift)
    return np.where(small, np.copysign(tiny, found), made)


def lesser(a: Any, b: Any) -> Any:
    """a where a < b, else b: the second where either is NaN."""
    return np.where(np.less(a, b), a, b)


def greater(a: Any, b: Any) -> Any:
    """a where a > b, else b: the second where either is NaN."""
    return np.where(np.greater(a, b), a, b)


def quotient(a: Any, b: Any) -> Any:
    """Integer division rounded toward zero; 0 where the divisor is 0."""
    safe = np.where(b == 0, np.ones_like(b), b)
    whole = np.floor_divide(a, safe)
    rest = a - whole * safe
    toward = np.where((rest != 0) & ((a < 0) != (safe < 0)), whole + np.ones_like(whole), whole)
    return np.where(b == 0, np.zeros_like(toward), toward).astype(np.asarray(a).dtype)


def upper_word(a: Any, b: Any) -> Any:
    """The upper 32 bits of the 64 of a product of two uint32."""
    return (np.multiply(a, b, dtype=np.uint64) >> np.uint64(32)).astype(np.uint32)


OPS: dict[str, Op] = {
    "add": Op(2, "if", np.add),
    "sub": Op(2, "if", np.subtract),
    "mul": Op(2, "if", np.multiply),
    "div": Op(2, "f", np.divide),
    "quotient": Op(2, "i", quotient),
    "mulhi": Op(2, "w", upper_word),
    "neg": Op(1, "if", np.negative),
    "abs": Op(1, "if", np.abs),
    "fma": Op(3, "f", fma),
    "sqrt": Op(1, "f", np.sqrt),
    "floor": Op(1, "f", np.floor),
    "ceil": Op(1, "f", np.ceil),
    "trunc": Op(1, "f", np.trunc),
    "rint": Op(1, "f", np.rint),
    "exact": Op(1, "f", np.positive),
    "isfinite": Op(1, "f", np.isfinite, "b"),
    "isnan": Op(1, "f", np.isnan, "b"),
    "min": Op(2, "if", lesser),
    "max": Op(2, "if", greater),
    "eq": Op(2, "bif", np.equal, "b"),
    "ne": Op(2, "bif", np.not_equal, "b"),
    "lt": Op(2, "bif", np.less, "b"),
    "le": Op(2, "bif", np.less_equal, "b"),
    "and": Op(2, "bi", np.bitwise_and),
    "or": Op(2, "bi", np.bitwise_or),
    "xor": Op(2, "bi", np.bitwise_xor),
    "not": Op(1, "bi", np.invert),
    "shl": Op(2, "i", np.left_shift),
    "shr": Op(2, "i", np.right_shift),
    "select": Op(3, "bif", np.where),
}
"""The operations, by name.

`exact` is the identity; its result is opaque to compilers that may rewrite arithmetic as if numbers were real, and for
other compilers it is no instruction. `isfinite` and `isnan` are no comparisons, whose results such compilers may
assume: they test the bits, or are an instruction that the compiler does not simplify.
"""

FOLDS: dict[str, Op] = {
    "add": Op(1, "if", np.add),
    "fma": Op(2, "if", np.add),
    "dot_bf16x2": Op(2, "w", np.add, "f"),
    "mul": Op(1, "if", np.multiply),
    "max": Op(1, "bif", np.maximum),
    "min": Op(1, "bif", np.minimum),
    "and": Op(1, "bi", np.bitwise_and),
    "or": Op(1, "bi", np.bitwise_or),
}
"""The reductions: the number of operands of each, their kinds, and the operation that combines two results.

`gives` is "f" for a float32 result; otherwise it has the operands' dtype. The operands of `dot_bf16x2` are words of two
bfloat16 numbers each, the one whose product is added first in the upper half.
"""


def fold_dtype(op: str, values: DType) -> DType:
    """The dtype of a fold's result, from that of its operands.

    >>> import numpy as np
    >>> fold_dtype("dot_bf16x2", np.dtype("uint32")), fold_dtype("fma", np.dtype("float64"))
    (dtype('float32'), dtype('float64'))
    """
    return np.dtype(np.float32) if FOLDS[op].gives == "f" else values


def combining_fold(op: str) -> str:
    """The fold that combines two results of a fold.

    >>> combining_fold("fma"), combining_fold("max")
    ('add', 'max')
    """
    return "add" if op in PRODUCT_SUMS else op


PRODUCT_SUMS = {"fma": 2, "dot_bf16x2": 4}
"""The folds that are sums of products, and chains in the order of their terms, with the flops of a step."""


def halves_bf16x2(word: Any) -> tuple[Any, Any]:
    """The two bfloat16 numbers of words, as float32: of the upper half, and of the lower."""
    word = np.asarray(word, np.uint32)
    return (word & np.uint32(0xFFFF0000)).view(np.float32), (word << np.uint32(16)).view(np.float32)
