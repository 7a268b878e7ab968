"""Allocation at the alignment that generated code relies on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.lower.program.allocation import ALIGNMENT

PAGE = 4096
LARGE_BYTES = 1 << 20
"""The least bytes of an array that begins at a page, and whose memory is kept for the next array of its size."""


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An uninitialised C-ordered array that begins at a multiple of 64 bytes, of a page where it is large.

    >>> aligned_empty((3, 5), "float32").ctypes.data % 64
    0
    """
    return aligned(shape, dtype, np.empty)


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """A C-ordered array of zeros, aligned as by `aligned_empty`; a large one takes no memory until it is written.

    >>> aligned_zeros((2,), "int32").tolist()
    [0, 0]
    """
    return aligned(shape, dtype, np.zeros)


def aligned(shape: tuple[int, ...], dtype: Any, make: Callable[..., NDArray]) -> NDArray:
    """An aligned array in bytes from `make`, the first of which may stay unused."""
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    unit = PAGE if nbytes >= LARGE_BYTES else ALIGNMENT
    # NumPy advises the kernel to use huge pages for large arrays.
    raw = make(nbytes + unit, np.uint8)
    start = -raw.ctypes.data % unit
    array: NDArray = raw[start : start + nbytes].view(kind).reshape(shape)
    return array
