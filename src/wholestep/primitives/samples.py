"""Operands of samples: the dtypes that the laws try, and random numbers of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import NDArray

_KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c", "V": "f"}


def dtype_kind(dtype: np.dtype[Any]) -> str:
    """ "b", "i", "f" or "c": boolean, integer, floating, complex."""
    return _KINDS[dtype.kind]


def sample_dtypes(takes: str) -> list[np.dtype[Any]]:
    """The dtypes that samples are drawn in, float64 first."""
    names = {"f": ["f64", "f32", "f16", "bf16"], "c": ["c128", "c64"], "i": ["i64", "i32", "i8", "u8"], "b": ["bool"]}
    return [dtypes.from_short(name) for kind in "fcib" if kind in takes for name in names[kind]]


def draw(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], low: float = -3.0, high: float = 3.0
) -> NDArray:
    """Random numbers of a dtype inside an interval."""
    kind = dtype_kind(dtype)
    if kind == "b":
        return np.asarray(rng.integers(0, 2, size=shape), dtype)
    if kind == "i":
        first = max(math.ceil(low), 0) if dtype.kind == "u" else math.ceil(low)
        return np.asarray(rng.integers(first, max(first, math.floor(high)) + 1, size=shape), dtype)
    real = rng.uniform(low, high, size=shape)
    if kind == "c":
        return np.asarray(real + 1j * rng.uniform(-1.0, 1.0, size=shape), dtype)
    return np.asarray(real, dtype)
