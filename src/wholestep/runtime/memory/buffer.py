"""Device memory behind one protocol: allocate, upload, place, read, download, view and copy buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from wholestep.errors import DeviceError
from wholestep.ir.graph import NDArray
from wholestep.runtime.memory.aligned import aligned_empty
from wholestep.runtime.memory.mapped_arrays import clone, copy_chunked, zeros_in_file

Buffer = TypeVar("Buffer")


class DeviceMemory(Protocol[Buffer]):
    """The memory of a device; nothing else reads or writes the contents of a buffer outside a program.

    A buffer is C-ordered and has `shape`, `dtype` and `nbytes` as an array does.
    """

    def allocate(self, shape: Sequence[int], dtype: Any) -> Buffer:
        """Return a buffer of unspecified contents."""

    def upload(self, array: NDArray) -> Buffer:
        """Return a new buffer with the contents of a host array."""

    def place(self, array: NDArray) -> Buffer:
        """Return a buffer with the contents of a host array, not to be written, since it may be the array itself."""

    def read(self, buffer: Buffer) -> NDArray:
        """Return a host array with the contents of a buffer, to be read at once, since it may be the buffer itself."""

    def download(self, buffer: Buffer) -> NDArray:
        """Return a new host array with the contents of a buffer."""

    def view(self, buffer: Buffer, rows: int | slice) -> Buffer:
        """Return one row of a buffer, or those from one to another, which share its memory."""

    def copy(self, target: Buffer, source: Buffer | NDArray) -> None:
        """Write the contents of a buffer or host array to another buffer of this shape and dtype."""


class HostMemory:
    """The memory of the CPU: aligned NumPy arrays.

    >>> import numpy as np
    >>> block = HOST.upload(np.eye(2))
    >>> HOST.copy(HOST.view(block, 0), np.array([5.0, 6.0]))
    >>> HOST.download(block)
    array([[5., 6.],
           [0., 1.]])
    """

    def allocate(self, shape: Sequence[int], dtype: Any) -> NDArray:
        return aligned_empty(tuple(shape), dtype)

    def upload(self, array: NDArray) -> NDArray:
        buffer = self.allocate(array.shape, array.dtype)
        self.copy(buffer, array)
        return buffer

    def place(self, array: NDArray) -> NDArray:
        return array

    def read(self, buffer: NDArray) -> NDArray:
        return buffer

    def download(self, buffer: NDArray) -> NDArray:
        return clone(buffer)

    def view(self, buffer: NDArray, rows: int | slice) -> NDArray:
        return buffer[rows, ...]

    def copy(self, target: NDArray, source: NDArray) -> None:
        copy_chunked(target, source)


class FileMemory(HostMemory):
    """The memory of the CPU in files of a folder; allocation raises StorageError where there is no room."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def allocate(self, shape: Sequence[int], dtype: Any) -> NDArray:
        return zeros_in_file(shape, dtype, self.folder)


HOST = HostMemory()


@contextmanager
def memory_for(what: object, kind: object) -> Iterator[None]:
    """Prefix the error of a device that is out of memory with the value and its type."""
    try:
        yield
    except DeviceError as error:
        raise DeviceError(f"{what}, {kind}: {error}") from error
