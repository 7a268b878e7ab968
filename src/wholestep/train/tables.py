"""Numbers in files: columns of CSV text, and arrays of .npy and .npz files, which stay where they are."""

from __future__ import annotations

import csv
import struct
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray

CHUNK = 1 << 15
"""Rows of text that are in memory at a time."""

LOCAL_HEADER = 30
"""Bytes of a zip file's header before each member, without the name and the extra field behind it."""


def read_csv(path: Path) -> dict[str, NDArray]:
    """The columns of a CSV file, by the names in its first line: i64 where every field is an integer, else f64.

    Text is read in pieces, so that only the numbers are ever all in memory. Raises ParameterError where the first line
    holds no names, ShapeError for a line with more or fewer fields, DtypeError for a field that is no number.
    """
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        names = header(next(lines, []), path.name)
        pieces: list[list[NDArray]] = []
        for numbers, chunk in chunks(lines, len(names), path.name):
            pieces.append([column(x, f"{path.name}: column {n}", numbers) for n, x in zip(names, chunk, strict=True)])
    if not pieces:
        raise ShapeError(f"loader: {path.name} has no rows")
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*pieces, strict=True), strict=True)}


def header(fields: list[str], file: str) -> list[str]:
    """The names of the columns."""
    names = [field.strip() for field in fields]
    if not names or not all(names) or len(set(names)) < len(names):
        raise ParameterError(f"loader: {file}: the first line is {names}; it names every column, each by its own name")
    if all(is_number(name) for name in names):
        raise ParameterError(f"loader: {file}: the first line holds numbers {names}, not the names of the columns")
    return names


def chunks(lines: Any, width: int, file: str) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
    """(line numbers, columns of text) for each piece of a file; blank lines are left out."""
    numbered = ((lines.line_num, row) for row in lines if row)
    while piece := list(islice(numbered, CHUNK)):
        for number, row in piece:
            if len(row) != width:
                raise ShapeError(f"loader: {file}: line {number} has {len(row)} fields, not {width}")
        numbers, rows = zip(*piece, strict=True)
        yield list(numbers), list(zip(*rows, strict=True))


def column(fields: tuple[str, ...], what: str, numbers: list[int]) -> NDArray:
    """Fields as numbers; `numbers` are their lines, of which the one is named that holds none."""
    wrong = next((i for i, field in enumerate(fields) if not is_number(field)), None)
    if wrong is not None:
        raise DtypeError(
            f"loader: {what}: {fields[wrong]!r} in line {numbers[wrong]} is no number",
            hint="write nan where there is no value, and numbers for categories",
        )
    try:
        return np.array(list(map(int, fields)), np.int64)
    except (ValueError, OverflowError):
        return np.array(list(map(float, fields)), np.float64)


def is_number(field: str) -> bool:
    """Whether text is a number; Python's own spelling 1_000 is none here."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def read_npy(path: Path) -> NDArray:
    """The array of a .npy file, left on disk until rows are asked for; raises DtypeError for what is no such file."""
    try:
        array: NDArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DtypeError(f"loader: {path.name} is no .npy file of numbers: {error}") from None
    return array


def read_npz(path: Path) -> dict[str, NDArray]:
    """The arrays of a .npz file by name, left on disk where they are not compressed.

    Raises DtypeError for what is no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            return {info.filename.removesuffix(".npy"): member(path, file, archive, info) for info in members}
    except (ValueError, EOFError, zipfile.BadZipFile, struct.error) as error:
        raise DtypeError(f"loader: {path.name} is no .npz file of numbers: {error}") from None


def member(path: Path, file: Any, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray:
    """One array of a .npz file."""
    if info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as inside:
            read: NDArray = np.lib.format.read_array(inside, allow_pickle=False)
            return read
    file.seek(info.header_offset)
    name, extra = struct.unpack("<26x2H", file.read(LOCAL_HEADER))
    file.seek(name + extra, 1)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds objects")
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")
