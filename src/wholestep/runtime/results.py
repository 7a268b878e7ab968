"""Results in memory that earlier results have left: fresh pages cost more to touch than the numbers in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.runtime.memory import LARGE, aligned

KEPT = 1 << 29
"""Up to how many bytes are kept for later results."""


class Shelf:
    """Large buffers that nobody holds any more, by size."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self.kept = 0
        self.buffers: dict[int, list[NDArray]] = {}

    def take(self, nbytes: int) -> NDArray:
        """A buffer of this size."""
        try:
            found = self.buffers[nbytes].pop()
        except (KeyError, IndexError):
            return aligned((nbytes,), np.uint8)
        self.kept -= nbytes
        return found

    def leave(self, buffer: NDArray) -> None:
        """Keep a buffer for later, unless too much is kept already."""
        if self.kept + buffer.nbytes <= self.most:
            self.kept += buffer.nbytes
            self.buffers.setdefault(buffer.nbytes, []).append(buffer)


SHELF = Shelf()


class Block:
    """What owns a result's memory: it goes back to the shelf with the last array that looks at it."""

    __slots__ = ("__array_interface__", "buffer", "shelf")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], shelf: Shelf) -> None:
        self.shelf = shelf
        self.buffer = shelf.take(math.prod(shape) * dtype.itemsize)
        self.__array_interface__ = {**self.buffer.view(dtype).reshape(shape).__array_interface__}

    def __del__(self) -> None:
        self.shelf.leave(self.buffer)


def fresh(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
    """An uninitialised array of one's own.

    >>> import numpy as np
    >>> fresh((2, 3), np.dtype(np.float32)).shape
    (2, 3)
    """
    if math.prod(shape) * dtype.itemsize < LARGE or dtype.kind == "V":
        return np.empty(shape, dtype)
    return np.asarray(Block(shape, dtype, SHELF))
