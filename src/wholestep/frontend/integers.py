"""NumPy's ufuncs of whole numbers that have no primitive: Euclid's algorithm in a loop, and the bits of a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wholestep.frontend.promotion import cast_to
from wholestep.ir.build import build
from wholestep.ir.graph import Value
from wholestep.primitives import arithmetic as ar, logic as lo
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.reduction import any_
from wholestep.primitives.structure import while_loop


def gcd(x: Value, y: Value) -> Value:
    """The greatest common divisor, in as many turns as the slowest pair takes."""

    def unfinished(a: Value, b: Value) -> list[Value]:
        return [any_(~b.equals(0), axes=tuple(range(b.ndim)))]

    def divided_once(a: Value, b: Value) -> list[Value]:
        done = b.equals(0)
        divisor = lo.select(done, ones(b.type), b)
        return [lo.select(done, a, b), lo.select(done, b, ar.remainder(a, divisor))]

    start = [unsigned_absolute(x), unsigned_absolute(y)]
    types = [v.type for v in start]
    predicate, _ = build(unfinished, types, name="unfinished")
    body, _ = build(divided_once, types, name="divided_once")
    found: Value = while_loop(*start, predicate=predicate, body=body, constants=(0, 0))[0]
    return cast_to(found, x.dtype)


def lcm(x: Value, y: Value) -> Value:
    """The least common multiple, 0 where a number is 0."""
    a, b, divisor = unsigned_absolute(x), unsigned_absolute(y), cast_to(gcd(x, y), unsigned_kin(x.dtype))
    nothing = divisor.equals(0)
    parts = ar.floor_divide(a, lo.select(nothing, ones(a.type), divisor))
    return cast_to(parts * b, x.dtype)


def bitwise_count(x: Value) -> Value:
    """The number of ones among the bits of |x|, summed in fields of twice as many bits each time."""
    counts = cast_to(unsigned_absolute(x), np.dtype(np.uint64))
    for width, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        field = zeros(counts.type) + np.uint64(mask)
        counts = (counts & field) + (lo.right_shift(counts, zeros(counts.type) + width) & field)
    # The product sums the bytes into its highest one.
    summed = counts * (zeros(counts.type) + np.uint64(0x0101010101010101))
    return cast_to(lo.right_shift(summed, zeros(counts.type) + 56), np.dtype(np.uint8))


def unsigned_absolute(x: Value) -> Value:
    """|x| in the unsigned dtype of its size, which holds that of the lowest number as well."""
    return x if x.dtype.kind == "u" else cast_to(ar.abs(x), unsigned_kin(x.dtype))


def unsigned_kin(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The unsigned dtype of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


INTEGERS: dict[str, Callable[..., Value]] = {"gcd": gcd, "lcm": lcm, "bitwise_count": bitwise_count}
"""ufunc name -> its rule."""
