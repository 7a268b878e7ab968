"""Memory of an array library: arrays that programs replace instead of writing to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import DeviceError
from wholestep.ir.graph import NDArray
from wholestep.runtime.delegates.libraries import ArrayLibrary


class DelegatedArray:
    """The place of an array of a library: `value` is that array, and another one after each step."""

    __slots__ = ("dtype", "held", "library", "nbytes", "shape")

    def __init__(self, library: ArrayLibrary, shape: Sequence[int], dtype: Any, held: Any) -> None:
        self.library, self.held = library, held
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    @property
    def value(self) -> Any:
        """The library's array."""
        return self.held

    @value.setter
    def value(self, new: Any) -> None:
        self.held = new

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray:
        raise DeviceError(f"an array of {self.library.name} is no NumPy array", hint="step.params has copies")

    def __repr__(self) -> str:
        return f"DelegatedArray({self.dtype}{list(self.shape)}, {self.library.device_name!r})"


class DelegatedRows(DelegatedArray):
    """Rows of such an array, which are those of the array that is there when they are asked for."""

    __slots__ = ("base", "rows")

    def __init__(self, base: DelegatedArray, rows: int | slice) -> None:
        shape = base.shape[1:]
        if isinstance(rows, slice):
            shape = (len(range(*rows.indices(base.shape[0]))), *shape)
        super().__init__(base.library, shape, base.dtype, None)
        self.base, self.rows = base, rows

    @property
    def value(self) -> Any:
        with self.library.scope():
            return self.base.value[self.rows]

    @value.setter
    def value(self, new: Any) -> None:
        with self.library.scope():
            self.base.value = self.library.with_rows(self.base.value, self.rows, new)


class DelegatedMemory:
    """The memory of a library's device."""

    def __init__(self, library: ArrayLibrary) -> None:
        self.library = library

    def allocate(self, shape: Sequence[int], dtype: Any) -> DelegatedArray:
        return self.upload(np.zeros(tuple(shape), dtype))

    def upload(self, array: NDArray) -> DelegatedArray:
        with self.library.scope():
            return DelegatedArray(self.library, array.shape, array.dtype, self.library.upload(array))

    place = upload

    def download(self, buffer: DelegatedArray) -> NDArray:
        value = buffer.value
        with self.library.scope():
            return self.library.download(value)

    read = download

    def view(self, buffer: DelegatedArray, rows: int | slice) -> DelegatedArray:
        return DelegatedRows(buffer, rows)

    def copy(self, target: DelegatedArray, source: DelegatedArray | NDArray) -> None:
        given = source.value if isinstance(source, DelegatedArray) else np.asarray(source, target.dtype)
        with self.library.scope():
            is_own = isinstance(source, DelegatedArray)
            target.value = self.library.duplicate(given) if is_own else self.library.upload(given)
