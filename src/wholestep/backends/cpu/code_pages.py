"""Release of the pages of LLVM's own code, most of which are read once, at loading."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")
DONTNEED = 4
"""MADV_DONTNEED of Linux: pages of an unmodified file mapping are released, and read again at the next access."""


def release_code_pages(library: str) -> None:
    """Release the pages of a loaded library's code; a no-op where the system has no such call.

    Code is mapped read-only from the file, so that a released page is read again from the file cache at its next
    access. Loading LLVM touches 30 MB of pages, of which compiling needs the smaller part.
    """
    for start, stop in code_ranges(library):
        load_madvise()(start, stop - start, DONTNEED)


def code_ranges(library: str) -> Iterator[tuple[int, int]]:
    """Yield the address ranges of a library's read-only code."""
    if not sys.platform.startswith("linux") or not MAPS.exists():
        return
    for line in MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "r-xp" and name and Path(name[0]).name == library:
            start, stop = (int(x, 16) for x in span.split("-"))
            yield start, stop


@cache
def load_madvise() -> Any:
    """Return the system's `madvise`."""
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return call
