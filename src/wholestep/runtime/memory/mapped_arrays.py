"""File-backed arrays: shared mappings of unnamed temporary files, which vanish with the process."""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import StorageError
from wholestep.ir.graph import NDArray

CHUNK_BYTES = 8 << 20
"""Bytes that are copied before their pages are released."""


class MappedFile(mmap.mmap):
    """A mapped temporary file of this library, and its folder."""

    folder: Path | None


class FileInputs(NamedTuple):
    """The file-backed inputs of a program, and the folder for its scratch files; None for the system's default."""

    inputs: tuple[int, ...] = ()
    folder: Path | None = None


NO_FILE_INPUTS = FileInputs()
"""No input is file-backed."""


def zeros_in_file(shape: Sequence[int], dtype: Any, folder: Path | None) -> NDArray:
    """An array of zeros in a file of its own, with room for it on the disk; it goes with the last view of it.

    Raises StorageError where the folder cannot be written or has too little room.

    >>> x = zeros_in_file((3, 4), np.float32, None)
    >>> x[1] = 2.0
    >>> float(x.sum()), is_file_backed(x[1])
    (8.0, True)
    """
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes == 0:
        return np.empty(shape, kind)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            reserve_disk_space(file.fileno(), nbytes)
            pages = MappedFile(file.fileno(), nbytes)
    except OSError as error:
        raise StorageError(
            f"memory: {nbytes:,} bytes cannot be kept in a file in {folder or tempfile.gettempdir()}: "
            f"{error.strerror or error}",
            hint="give folder= on a disk with more room",
        ) from error
    pages.folder = folder
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # One fault for 2 MB instead of one for 4 KB; a system without huge pages for files ignores it or raises.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind).reshape(shape)


def reserve_disk_space(file: int, nbytes: int) -> None:
    """Extend a file, reserving disk space where the system can."""
    try:
        os.posix_fallocate(file, 0, nbytes)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) not in (None, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.truncate(file, nbytes)


def mapped_file_of(array: NDArray) -> MappedFile | None:
    """Return the mapped file that owns an array's memory; None for other memory."""
    owner: Any = array
    while type(owner) is np.ndarray:
        owner = owner.base
    while owner is not None and not isinstance(owner, MappedFile):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return owner


def is_file_backed(array: NDArray) -> bool:
    """True for an array in a mapped file."""
    return mapped_file_of(array) is not None


def release_pages(array: NDArray) -> None:
    """Release the pages of a file-backed array, to be read again on access; a no-op for other arrays."""
    pages = mapped_file_of(array)
    if pages is None or not array.nbytes or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = array.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)


def rows_per_chunk(array: NDArray) -> int:
    """Return the number of rows of an array in a chunk."""
    return max(1, CHUNK_BYTES // max(array[:1].nbytes, 1))


def copy_chunked(target: NDArray, source: NDArray) -> None:
    """Copy an array into another; file-backed ones chunk by chunk, releasing each."""
    if not target.ndim or not (is_file_backed(target) or is_file_backed(source)):
        target[...] = source
        return
    rows = rows_per_chunk(target)
    for start in range(0, len(target), rows):
        some = slice(start, start + rows)
        target[some] = source[some]
        release_pages(target[some])
        release_pages(source[some])


def empty_in_same_memory(array: NDArray, shape: Sequence[int], dtype: Any) -> NDArray:
    """Return an uninitialised array in the same kind of memory as another."""
    pages = mapped_file_of(array)
    return np.empty(shape, dtype) if pages is None else zeros_in_file(shape, dtype, pages.folder)


def clone(source: NDArray) -> NDArray:
    """Return a copy of an array in the same kind of memory."""
    if not is_file_backed(source):
        return np.array(source)
    made = empty_in_same_memory(source, source.shape, source.dtype)
    copy_chunked(made, source)
    return made


def byte_chunks(array: NDArray) -> Iterator[memoryview]:
    """Yield the bytes of a C-ordered array; those of a file-backed one in chunks, which are then released."""
    raw = array.reshape(-1).view(np.uint8)
    step = CHUNK_BYTES if is_file_backed(array) else max(raw.size, 1)
    for start in range(0, raw.size, step):
        yield raw[start : start + step].data
        release_pages(raw[start : start + step])
