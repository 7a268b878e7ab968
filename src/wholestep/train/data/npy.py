"""Arrays of .npy and .npz files, mapped where they are not compressed; headers are read as untrusted input."""

from __future__ import annotations

import io
import math
import os
import struct
import warnings
import zipfile
from typing import IO, NamedTuple

import numpy as np

from wholestep.ir.graph import NDArray

MAGIC = b"\x93NUMPY"
LENGTHS = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}
"""The format in which each version of .npy writes the length of its header."""
LARGEST = 10_000
"""The most bytes of a header, as in NumPy; longer ones would be records of many fields."""
MOST_AXES = 64

MEMBER, LOCAL_HEADER = b"PK\x03\x04", "<4s22x2H"
"""A zip file's header before each member: its mark, and the lengths of the name and the extra field behind it."""
DEFLATED_AT_MOST = 1032
"""The highest compression ratio of DEFLATE; a member that claims more is not read."""
ENCRYPTED = 1
PIECE = 1 << 20

KINDS = "biufcV"
"""Kinds of dtypes of numbers; V is NumPy's kind of bfloat16 and similar dtypes."""


class Described(NamedTuple):
    """The description of an array in the header before it."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    nbytes: int

    @property
    def order(self) -> str:
        return "F" if self.fortran else "C"


def read_npy(file: IO[bytes]) -> NDArray:
    """The array of a .npy file, left on disk; raises ValueError for a file of another format."""
    return mapped(file, read_header(file, size_of(file)))


def read_npz(file: IO[bytes]) -> dict[str, NDArray]:
    """The arrays of a .npz file by name, left on disk where they are not compressed.

    Raises ValueError, or an exception of `zipfile` or `zlib`, for a file of another format.
    """
    size = size_of(file)
    with zipfile.ZipFile(file) as archive:
        found = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        names = [info.filename.removesuffix(".npy") for info in found]
        if len(set(names)) < len(names):
            raise ValueError("two of its arrays have one name")
        if sum(info.compress_size for info in found) > size:
            raise ValueError(f"its arrays would take more than the {size:,} bytes of the file")
        return {name: member(file, size, archive, info) for name, info in zip(names, found, strict=True)}


def member(file: IO[bytes], size: int, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray:
    """One array of a .npz file."""
    if info.flag_bits & ENCRYPTED:
        raise ValueError(f"{info.filename} is encrypted")
    if info.compress_type == zipfile.ZIP_STORED:
        file.seek(info.header_offset)
        mark, name, extra = struct.unpack(LOCAL_HEADER, exactly(file, struct.calcsize(LOCAL_HEADER)))
        if mark != MEMBER:
            raise ValueError(f"{info.filename} is not where the archive says")
        begin = file.seek(name + extra, 1)
        return mapped(file, read_header(file, min(info.file_size, size - begin)))
    if info.compress_type != zipfile.ZIP_DEFLATED:
        raise ValueError(f"{info.filename} is compressed otherwise than NumPy does it")
    if info.file_size > DEFLATED_AT_MOST * info.compress_size:
        raise ValueError(f"{info.filename} cannot be {info.file_size:,} bytes out of {info.compress_size:,}")
    with archive.open(info) as inside:
        what = read_header(inside, info.file_size)
        data = np.empty(what.nbytes, np.uint8)
        for at in range(0, what.nbytes, PIECE):
            piece = exactly(inside, min(PIECE, what.nbytes - at))
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        while inside.read(PIECE):  # the checksum is compared at the end
            pass
    if not what.nbytes:
        return np.zeros(what.shape, what.dtype)
    return data.view(what.dtype).reshape(what.shape, order=what.order)  # type: ignore[call-overload, no-any-return]


def mapped(file: IO[bytes], what: Described) -> NDArray:
    """The array at the current position of a file, mapped from disk; an array without elements is in memory."""
    if not what.nbytes:
        return np.zeros(what.shape, what.dtype)
    return np.memmap(file.name, what.dtype, "r", file.tell(), what.shape, what.order)  # type: ignore[call-overload, no-any-return]


def read_header(file: IO[bytes], room: int) -> Described:
    """The header at the current position; raises ValueError if header and array do not fit into `room` bytes."""
    start = exactly(file, len(MAGIC) + 2)
    length = LENGTHS.get((start[-2], start[-1]))
    if start[:-2] != MAGIC or length is None:
        raise ValueError("it does not begin as a .npy file does")
    (count,) = struct.unpack(length, exactly(file, struct.calcsize(length)))
    if count > LARGEST:
        raise ValueError(f"its header takes {count:,} bytes, more than {LARGEST:,}")
    shape, fortran, dtype = fields(exactly(file, count))
    nbytes = math.prod(shape) * dtype.itemsize
    left = room - len(start) - struct.calcsize(length) - count
    if nbytes > left:
        raise ValueError(f"its header promises {nbytes:,} bytes, and {max(left, 0):,} are there")
    return Described(shape, fortran, dtype, nbytes)


def fields(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, True for column-major order, and dtype, as NumPy reads the literals of a header."""
    text = struct.pack(LENGTHS[2, 0], len(header)) + header
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(io.BytesIO(text), LARGEST)
    except Exception:  # of any kind: the header is untrusted text
        raise ValueError("its header does not describe an array of numbers") from None
    if dtype.kind not in KINDS or dtype.names is not None or dtype.subdtype is not None:
        raise ValueError(f"it holds {dtype}, which are no numbers")
    if len(shape) > MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its header promises the shape {shape}")
    return shape, fortran, dtype


def size_of(file: IO[bytes]) -> int:
    """The size of a file in bytes."""
    return os.fstat(file.fileno()).st_size


def exactly(file: IO[bytes], count: int) -> bytes:
    """Read exactly so many bytes; raises ValueError where there are fewer."""
    data = file.read(count)
    while len(data) < count and (more := file.read(count - len(data))):
        data += more
    if len(data) < count:
        raise ValueError("it ends too early")
    return data
