"""Bits of numbers read in another dtype of the same width, by exact arithmetic where an array is traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.frontend.array import Array


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating format: its words, bits of the fraction, bias of the exponent, and the dtype of arithmetic."""

    word: np.dtype[Any]
    fraction: int
    bias: int
    wide: np.dtype[Any]

    @property
    def last(self) -> int:
        """The stored exponent of infinities and NaN."""
        return 2 * self.bias + 1

    @property
    def steps(self) -> list[int]:
        """The powers of 2 whose sums are all exponents of the dtype of arithmetic, largest first."""
        return [1 << i for i in reversed(range(7 if self.wide == np.float32 else 10))]


def format_of(dtype: Any) -> FloatFormat:
    """The format of a floating dtype."""
    bits, fraction = 8 * dtype.itemsize, dtypes.limits(dtype).nmant
    wide = np.dtype(np.float64 if bits == 64 else np.float32)
    return FloatFormat(np.dtype(f"uint{bits}"), fraction, (1 << (bits - 2 - fraction)) - 1, wide)


def reinterpreted(x: Any, dtype: Any) -> Any:
    """The bits of an array as numbers of another dtype of the same width; of traced subnormal numbers as 0."""
    if not isinstance(x, Array):
        return np.asarray(x).view(dtype)
    if x.dtype == dtype:
        return x
    word = word_of(x, format_of(x.dtype)) if dtypes.is_float(x.dtype) else x
    if not dtypes.is_float(dtype):
        return word.astype(dtype)
    kind = format_of(dtype)
    return number_of(word.astype(kind.word), kind).astype(dtype)


def number_of(word: Any, kind: FloatFormat) -> Any:
    """The numbers of words, in the dtype of arithmetic."""
    fraction = (word & kind.word.type((1 << kind.fraction) - 1)).astype(kind.wide) * kind.wide.type(2.0**-kind.fraction)
    stored = ((word >> kind.word.type(kind.fraction)) & kind.word.type(kind.last)).astype(np.int32)
    power = wnp.where(stored == kind.last, 0, stored - kind.bias)
    made = 1 + fraction
    for step in kind.steps:
        factor = wnp.where(power < 0, kind.wide.type(2.0**-step), kind.wide.type(2.0**step))
        made = made * wnp.where(wnp.abs(power) & step != 0, factor, kind.wide.type(1))
    made = wnp.where(stored == 0, fraction * kind.wide.type(2.0 ** (1 - kind.bias)), made)
    special = wnp.where(fraction == 0, kind.wide.type(np.inf), kind.wide.type(np.nan))
    made = wnp.where(stored == kind.last, special, made)
    return wnp.where(word >> kind.word.type(8 * kind.word.itemsize - 1) != 0, -made, made)


def word_of(x: Any, kind: FloatFormat) -> Any:
    """The words of numbers; of every NaN the quiet one."""
    size = wnp.abs(x).astype(kind.wide)
    finite = wnp.isfinite(size)
    scaled, power = wnp.where(finite & (size > 0), size, kind.wide.type(1)), wnp.zeros(x.shape, np.int32)
    for step in kind.steps:
        large, small = scaled >= kind.wide.type(2.0**step), scaled < kind.wide.type(2.0 ** (1 - step))
        factor = wnp.where(large, kind.wide.type(2.0**-step), wnp.where(small, kind.wide.type(2.0**step), 1))
        scaled, power = scaled * factor.astype(kind.wide), power + step * (large.astype(np.int32) - small)
    below = (power <= -kind.bias) | (size == 0)
    fraction = wnp.where(
        below,
        wnp.where(below & finite, size, kind.wide.type(0))
        * kind.wide.type(2.0 ** (kind.bias - 1))
        * kind.wide.type(2.0**kind.fraction),
        (scaled - 1) * kind.wide.type(2.0**kind.fraction),
    )
    fraction = wnp.where(wnp.isnan(size), 1 << (kind.fraction - 1), wnp.where(finite, fraction, 0))
    stored = wnp.where(finite, wnp.where(below, 0, power + kind.bias), kind.last)
    sign = wnp.signbit(x).astype(kind.word) << kind.word.type(8 * kind.word.itemsize - 1)
    return sign | (stored.astype(kind.word) << kind.word.type(kind.fraction)) | fraction.astype(kind.word)
