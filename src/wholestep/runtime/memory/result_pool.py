"""A pool of result buffers: reuse avoids the page faults of fresh memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.runtime.memory.aligned import LARGE_BYTES, aligned_empty

MAX_POOLED_BYTES = 1 << 29
"""The most bytes that the pool keeps."""


class BufferPool:
    """Free large buffers, by size."""

    def __init__(self, most: int = MAX_POOLED_BYTES) -> None:
        self.most = most
        self.kept = 0
        self.buffers: dict[int, list[NDArray]] = {}

    def take(self, nbytes: int) -> NDArray:
        """A buffer of this size."""
        try:
            found = self.buffers[nbytes].pop()
        except (KeyError, IndexError):
            return aligned_empty((nbytes,), np.uint8)
        self.kept -= nbytes
        return found

    def leave(self, buffer: NDArray) -> None:
        """Return a buffer to the pool, unless the pool is full."""
        if self.kept + buffer.nbytes <= self.most:
            self.kept += buffer.nbytes
            self.buffers.setdefault(buffer.nbytes, []).append(buffer)


RESULT_POOL = BufferPool()


class PooledBuffer:
    """The owner of a result's memory, which returns to the pool with the last array that refers to it."""

    __slots__ = ("__array_interface__", "buffer", "shelf")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], shelf: BufferPool) -> None:
        self.shelf = shelf
        self.buffer = shelf.take(math.prod(shape) * dtype.itemsize)
        self.__array_interface__ = {**self.buffer.view(dtype).reshape(shape).__array_interface__}

    def __del__(self) -> None:
        self.shelf.leave(self.buffer)


def result_maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], NDArray]:
    """Return a function that makes uninitialised arrays of a shape and dtype, which belong to its caller.

    >>> import numpy as np
    >>> result_maker((2, 3), np.dtype(np.float32))().shape
    (2, 3)
    """
    if math.prod(shape) * dtype.itemsize < LARGE_BYTES or dtype.kind == "V":
        return partial(np.empty, shape, dtype)
    return lambda: np.asarray(PooledBuffer(shape, dtype, RESULT_POOL))
