"""Memory that lies in files: arrays whose pages the system reads when they are touched and writes back at its leisure.

The files have no name, so that nothing is left of them when the process ends, however it ends.
"""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import StorageError
from wholestep.ir.graph import NDArray

CHUNK = 8 << 20
"""Bytes that are copied before the pages they came from are let go."""


class Pages(mmap.mmap):
    """The pages of a file that this library has made, and the folder that it lies in."""

    folder: Path | None


class Streams(NamedTuple):
    """Which inputs of a program lie in files, and the folder for files of its own; None for the system's own one."""

    inputs: tuple[int, ...] = ()
    folder: Path | None = None


NOTHING = Streams()
"""No input lies in a file."""


def symbols() -> dict[str, int]:
    """The address of what `ws_advise` calls; on systems other than Linux, of something that does no harm."""
    if sys.platform == "win32":
        function: Any = ctypes.CDLL("kernel32").SwitchToThread
    elif sys.platform == "linux":
        function = ctypes.CDLL(None).madvise
    else:
        function = ctypes.CDLL(None).sched_yield
    return {"ws_madvise": int(ctypes.cast(function, ctypes.c_void_p).value or 0)}


def in_file(shape: Sequence[int], dtype: Any, folder: Path | None) -> NDArray:
    """An array of zeros in a file of its own, with room for it on the disk; it goes with the last view of it.

    Raises StorageError where the folder cannot be written or has too little room.

    >>> x = in_file((3, 4), np.float32, None)
    >>> x[1] = 2.0
    >>> float(x.sum()), lies_in_file(x[1])
    (8.0, True)
    """
    kind = np.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes == 0:
        return np.empty(shape, kind)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            reserve(file.fileno(), nbytes)
            pages = Pages(file.fileno(), nbytes)
    except OSError as error:
        raise StorageError(
            f"memory: {nbytes:,} bytes cannot be kept in a file in {folder or tempfile.gettempdir()}: "
            f"{error.strerror or error}",
            hint="give folder= on a disk with more room",
        ) from error
    pages.folder = folder
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # One fault for 2 MB instead of one for 4 KB; a system that has no such pages for files says so, or nothing.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind).reshape(shape)


def reserve(file: int, nbytes: int) -> None:
    """Make a file so long, with room for it on the disk where the system can see to that."""
    try:
        os.posix_fallocate(file, 0, nbytes)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) not in (None, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.truncate(file, nbytes)


def pages_of(array: NDArray) -> Pages | None:
    """The pages that an array lies in, where these are of a file made here."""
    owner: Any = array
    while owner is not None and not isinstance(owner, Pages):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return owner


def lies_in_file(array: NDArray) -> bool:
    """Whether the pages of an array are those of a file."""
    return pages_of(array) is not None


def release(array: NDArray) -> None:
    """Let go of the memory of an array in a file; it is read again when it is touched. Others are left alone."""
    pages = pages_of(array)
    if pages is None or not array.nbytes or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = array.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)


def rows_at_a_time(array: NDArray) -> int:
    """How many rows of an array make a chunk."""
    return max(1, CHUNK // max(array[:1].nbytes, 1))


def put(target: NDArray, source: NDArray) -> None:
    """Copy an array into another one; of those in files only a few rows are in memory at a time."""
    if not target.ndim or not (lies_in_file(target) or lies_in_file(source)):
        target[...] = source
        return
    rows = rows_at_a_time(target)
    for start in range(0, len(target), rows):
        some = slice(start, start + rows)
        target[some] = source[some]
        release(target[some])
        release(source[some])


def like(array: NDArray, shape: Sequence[int], dtype: Any) -> NDArray:
    """An array in the kind of memory that another one lies in; what it holds is not said."""
    pages = pages_of(array)
    return np.empty(shape, dtype) if pages is None else in_file(shape, dtype, pages.folder)


def own_copy(source: NDArray) -> NDArray:
    """A copy of an array, in a file where that one lies in one."""
    if not lies_in_file(source):
        return np.array(source)
    made = like(source, source.shape, source.dtype)
    put(made, source)
    return made


def contents(array: NDArray) -> Iterator[memoryview]:
    """The bytes of an array that lies row by row; those of one in a file in chunks, which are then let go."""
    raw = array.reshape(-1).view(np.uint8)
    step = CHUNK if lies_in_file(array) else max(raw.size, 1)
    for start in range(0, raw.size, step):
        yield raw[start : start + step].data
        release(raw[start : start + step])
