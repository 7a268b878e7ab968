"""Handing back the pages of LLVM's own code, most of which are read once, while it is loaded, and never again."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")
DONTNEED = 4
"""MADV_DONTNEED of Linux: pages of an unchanged file go, and are read again when they are next looked at."""


def hand_back(library: str) -> None:
    """Let go of the code of a loaded library; where the system has no such call nothing happens.

    Code is mapped for reading, so its pages are the file's, and what is wanted again comes from the file cache. Loading
    LLVM reads 30 MB of them, of which compiling needs the smaller part.
    """
    for start, stop in executable(library):
        _madvise()(start, stop - start, DONTNEED)


def executable(library: str) -> Iterator[tuple[int, int]]:
    """The addresses at which the code of a library lies, which nobody writes."""
    if not sys.platform.startswith("linux") or not MAPS.exists():
        return
    for line in MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "r-xp" and name and Path(name[0]).name == library:
            start, stop = (int(x, 16) for x in span.split("-"))
            yield start, stop


@cache
def _madvise() -> Any:
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return call
