"""The bytes that arrays hold, row by row and a piece at a time, so that a large array is compared without a copy."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

PIECE = 1 << 18
"""About how many bytes are looked at together: they fit into the cache of a core."""


def pieces(x: np.ndarray[Any, Any]) -> Iterator[bytes]:
    """The bytes of an array of any layout and byte order, in row-major order of its elements and in the machine's byte
    order, in pieces of at most PIECE bytes.

    >>> b"".join(pieces(np.array([[1, 2], [3, 4]], np.uint8).T))
    b'\\x01\\x03\\x02\\x04'
    """
    count = max(PIECE // max(x.itemsize, 1), 1)
    flat: Any = x.reshape(-1) if x.flags.c_contiguous else x.flat
    for start in range(0, x.size, count):
        yield flat[start : start + count].astype(native(x.dtype), copy=False).tobytes()


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype in the machine's byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def same_bits(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays have one shape and dtype and hold the same numbers, whatever their byte orders; NaN
    equals itself here, and 0 is not -0.

    >>> same_bits(np.array([np.nan]), np.array([np.nan])), same_bits(np.array([0.0]), np.array([-0.0]))
    (True, False)
    """
    if x.shape != y.shape or native(x.dtype) != native(y.dtype):
        return False
    if x.nbytes <= PIECE and x.dtype == y.dtype:
        return x.tobytes() == y.tobytes()
    return all(a == b for a, b in zip(pieces(x), pieces(y), strict=True))


def sha256(x: np.ndarray[Any, Any]) -> str:
    """The SHA-256 of the bytes of an array, in hexadecimal."""
    digest = importlib.import_module("hashlib").sha256()  # imported late, as it loads all of OpenSSL
    for piece in pieces(x):
        digest.update(piece)
    return str(digest.hexdigest())
