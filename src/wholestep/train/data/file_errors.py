"""Errors of damaged data files: each names the file and a way out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from wholestep.errors import DtypeError, ParameterError, WholestepError
from wholestep.train.data.csv import read_csv
from wholestep.train.data.npy import read_npy, read_npz

READERS: Mapping[str, Callable[[IO[bytes]], Any]] = {".npy": read_npy, ".npz": read_npz, ".csv": read_csv}
"""The reader of the open file by the ending of its name."""


def open_arrays(path: Path) -> Any:
    """The arrays of a file, read according to its ending; those of .npy and .npz files stay on disk.

    Raises DtypeError for a file that is damaged or holds no numbers, ParameterError for another ending, for a path to
    something other than a plain file and for a table without names, ShapeError for a table with lines of several
    lengths, and OSError, as `open` does, where the file cannot be opened.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        raise ParameterError(f"loader: {path.name}: files end in {', '.join(READERS)}")
    if path.exists() and not path.is_file():
        raise ParameterError(f"loader: {path} is no plain file")
    with path.open("rb") as file, as_dtype_error(path.name, kind):
        return READERS[kind](file)


@contextmanager
def as_dtype_error(name: str, kind: str) -> Iterator[None]:
    """A context that turns every exception of a reader into a DtypeError, except MemoryError and the library's own."""
    try:
        yield
    except (WholestepError, MemoryError):
        raise
    except UnicodeDecodeError as error:
        raise DtypeError(
            f"loader: {name} is no {kind} file of numbers: it is no {error.encoding} text: {error.reason}",
            hint="save it as UTF-8 (in Excel: CSV UTF-8), or as UTF-16 with a byte order mark",
        ) from None
    except Exception as error:  # of any kind: readers of damaged files raise a dozen
        long = isinstance(error, csv.Error)
        raise DtypeError(
            f"loader: {name} is no {kind} file of numbers: {error or type(error).__name__}",
            hint="is a quotation mark never closed?" if long else "is it whole? np.save and np.savez write such files",
        ) from None
