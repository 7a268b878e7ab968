"""A thread that has pages of files read before a program comes to them: programs leave it notes, and go on.

What it reads is laid open in memory at once, in pages as large as the system has them: one that only asked for the
bytes would leave the program a fault for each 4 KB.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from typing import Any

import numpy as np

from wholestep import forks
from wholestep.backends.cpu.support import NOTE, NOTES, NOTES_BYTES, NOTES_KEPT
from wholestep.runtime import bells
from wholestep.runtime.arguments import address

POPULATE = 22
"""MADV_POPULATE_READ of Linux 5.14."""


class Reader:
    """The memory in which programs leave notes, and the thread that reads them."""

    def __init__(self) -> None:
        self.memory = np.zeros(NOTES_BYTES // 8, np.int64)
        self.address = address(self.memory)
        self.bell = bells.make(self.address + NOTES["own"])
        self.memory[NOTES["bell"] // 8] = self.bell
        threading.Thread(target=self.work, name="wholestep-reader", daemon=True).start()

    def work(self) -> None:
        """One note after another; a note that is no longer wanted, or that was written over, is passed by."""
        seen, wait = 0, bells.waiting(self.bell)
        while True:
            wait()
            if int(self.memory[NOTES["count"] // 8]) <= seen:
                continue
            first = (NOTES["first"] + seen % NOTES_KEPT * NOTE["size"]) // 8
            seen += 1
            note = self.memory[first : first + NOTE["size"] // 8]
            start, nbytes, number = (int(note[NOTE[name] // 8]) for name in ("start", "nbytes", "number"))
            if nbytes and number == seen:
                populate(start, nbytes)


def populate(start: int, nbytes: int) -> None:
    """Have the pages of some memory read."""
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    size = start + nbytes - first
    madvise = _madvise()
    if madvise(first, size, POPULATE):
        madvise(first, size, mmap.MADV_WILLNEED)


def _madvise() -> Any:
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return call


_reader: Reader | None = None
_making = threading.RLock()


def notes() -> int:
    """Where programs of this process leave their notes; 0 on systems other than Linux, which read ahead by themselves.

    A forked child has a thread of its own.
    """
    global _reader
    if sys.platform != "linux":
        return 0
    with _making:
        if _reader is None:
            _reader = Reader()
        return _reader.address


@forks.in_child
def _forget() -> None:
    global _reader, _making
    _reader, _making = None, threading.RLock()
