"""Memory of a card: arrays behind handles, which the protocol of device memory moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import DeviceError
from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import Driver, MemoryPlace


class CardArray:
    """A C-ordered array in the memory of a card; the host reads it through `CardMemory` alone."""

    __slots__ = ("driver", "dtype", "nbytes", "place", "shape")

    def __init__(self, driver: Driver, place: MemoryPlace, shape: Sequence[int], dtype: Any) -> None:
        self.driver, self.place = driver, place
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray:
        raise DeviceError("an array in the memory of a card is no NumPy array", hint="step.params has copies")

    def __repr__(self) -> str:
        return f"CardArray({self.dtype}{list(self.shape)})"


class CardMemory:
    """The memory of a card behind a driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def allocate(self, shape: Sequence[int], dtype: Any) -> CardArray:
        nbytes = math.prod(map(int, shape)) * np.dtype(dtype).itemsize
        return CardArray(self.driver, MemoryPlace(self.driver.allocate(nbytes), 0), shape, dtype)

    def upload(self, array: NDArray) -> CardArray:
        buffer = self.allocate(array.shape, array.dtype)
        self.copy(buffer, array)
        return buffer

    place = upload

    def download(self, buffer: CardArray) -> NDArray:
        made: NDArray = np.empty(buffer.shape, buffer.dtype)
        self.fetch(buffer, made)
        return made

    read = download

    def fetch(self, buffer: CardArray, array: NDArray) -> None:
        """Read a buffer into a host array of its shape and dtype."""
        self.driver.read(buffer.place, raw_bytes(array))

    def view(self, buffer: CardArray, rows: int | slice) -> CardArray:
        begin, end, _ = (
            slice(rows, rows + 1).indices(buffer.shape[0]) if isinstance(rows, int) else rows.indices(buffer.shape[0])
        )
        row = math.prod(buffer.shape[1:]) * buffer.dtype.itemsize
        shape = buffer.shape[1:] if isinstance(rows, int) else (max(end - begin, 0), *buffer.shape[1:])
        handle, offset = buffer.place
        return CardArray(self.driver, MemoryPlace(handle, offset + begin * row), shape, buffer.dtype)

    def copy(self, target: CardArray, source: CardArray | NDArray) -> None:
        if isinstance(source, CardArray):
            self.driver.copy(target.place, source.place, target.nbytes)
        else:
            self.driver.write(target.place, raw_bytes(np.ascontiguousarray(source)))


def raw_bytes(array: NDArray) -> NDArray:
    """The bytes of an array in C order, u8[n], which share its memory."""
    return array.reshape(-1).view(np.uint8)
