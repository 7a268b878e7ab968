"""Columns of numbers out of CSV text."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray

CHUNK = 1 << 15
"""The number of rows of text in memory at a time."""

MARKS = {BOM_UTF32_LE: "utf-32", BOM_UTF32_BE: "utf-32", BOM_UTF16_LE: "utf-16", BOM_UTF16_BE: "utf-16"}
"""Byte order marks of text that is no UTF-8; Excel writes UTF-16."""

INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
INT64 = range(-(1 << 63), 1 << 63)
DIGITS = 4000
"""The most digits of an integer; Python's own limit is a little higher."""

SEPARATORS = (";", "\t")
SEPARATED = "columns are separated by commas, and here by {!r}"
WORDS = "numbers alone are read: pandas.get_dummies(frame) makes a column of 0 and 1 of each word"


class Piece(NamedTuple):
    """Some rows of a column; `beyond` is the line of an integer that int64 cannot hold, where all are integers."""

    numbers: NDArray
    beyond: int | None = None


def read_csv(file: IO[bytes]) -> dict[str, NDArray]:
    """The columns of CSV text, by the names in its first line: i64 where every field is an integer, else f64.

    Text is read in pieces, so that only the numbers are ever in memory as a whole. Raises ParameterError where the
    first line holds no names, ShapeError for a line with more or fewer fields, DtypeError for a field that is no number
    and for an integer that int64 cannot hold in a column of integers.
    """
    start = file.read(4)
    file.seek(0)
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8-sig")
    what = f"loader: {Path(file.name).name}"
    with io.TextIOWrapper(file, encoding, newline="") as text:
        lines = csv.reader(text)
        names = header(next(lines, []), what)
        pieces: list[list[Piece]] = [[] for _ in names]
        for numbers, chunk in chunks(lines, len(names), what):
            for name, column, fields in zip(names, pieces, chunk, strict=True):
                column.append(parsed(fields, f"{what}: column {name}", numbers))
    if not pieces[0]:
        raise ShapeError(f"{what} has no rows")
    return {name: join_column(column, f"{what}: column {name}") for name, column in zip(names, pieces, strict=True)}


def join_column(pieces: list[Piece], what: str) -> NDArray:
    """A whole column; raises DtypeError for one of integers that int64 cannot hold."""
    beyond = [piece.beyond for piece in pieces if piece.beyond is not None]
    if beyond and all(piece.beyond is not None or piece.numbers.dtype == np.int64 for piece in pieces):
        raise DtypeError(
            f"{what}: the integer in line {beyond[0]} is outside int64",
            hint="write a decimal point where float64 is meant; an identifier is no number",
        )
    return np.concatenate([piece.numbers for piece in pieces])


def header(fields: list[str], what: str) -> list[str]:
    """The names of the columns."""
    names = [field.strip() for field in fields]
    if any("\0" in name for name in names):
        raise DtypeError(f"{what} is no text", hint="UTF-16 begins with a byte order mark; save it as UTF-8")
    if not names or not all(names) or len(set(names)) < len(names):
        raise ParameterError(f"{what}: the first line is {names}; it names every column, each by its own name")
    if all(is_number(name) for name in names):
        raise ParameterError(f"{what}: the first line holds numbers {names}, not the names of the columns")
    return names


def chunks(lines: Any, width: int, what: str) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
    """(line numbers, columns of text) for each piece of a file; blank lines are left out."""
    numbered = ((lines.line_num, row) for row in lines if row)
    while piece := list(islice(numbered, CHUNK)):
        for number, row in piece:
            if len(row) != width:
                other = next((mark for mark in SEPARATORS if mark in "".join(row)), None) if width == 1 else None
                hint = SEPARATED.format(other) if other else "the first line names the columns, one for each field"
                raise ShapeError(f"{what}: line {number} has {len(row)} fields, not {width}", hint=hint)
        numbers, rows = zip(*piece, strict=True)
        yield list(numbers), list(zip(*rows, strict=True))


def parsed(fields: tuple[str, ...], what: str, numbers: list[int]) -> Piece:
    """Fields as numbers; `numbers` are their lines, for the error about a field that is no number."""
    wrong = next((i for i, field in enumerate(fields) if not is_number(field)), None)
    if wrong is not None:
        separator = next((mark for mark in SEPARATORS if mark in fields[wrong]), None)
        field = WORDS if fields[wrong].strip() else "write nan where there is no value"
        raise DtypeError(
            f"{what}: {fields[wrong]!r} in line {numbers[wrong]} is no number",
            hint=field if separator is None else SEPARATED.format(separator),
        )
    try:
        return Piece(np.array(list(map(int, fields)), np.int64))
    except (ValueError, OverflowError):
        found = np.array(list(map(float, fields)), np.float64)
    if not all(map(INTEGER.fullmatch, fields)):
        return Piece(found)
    return Piece(found, next(n for n, field in zip(numbers, fields, strict=True) if not fits_int64(field)))


def fits_int64(field: str) -> bool:
    """True if int64 holds an integer."""
    return len(field) < DIGITS and int(field) in INT64


def is_number(field: str) -> bool:
    """True if text is a number; Python's spelling 1_000 is not accepted."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field
