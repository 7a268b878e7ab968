"""Prefetch thread for pages of files: programs queue requests and do not wait.

The pages are populated, not only read, in the largest size that the system has: otherwise the program would fault on
each 4 KB.
"""

from __future__ import annotations

import mmap
import sys
import threading

import numpy as np

from wholestep import forks
from wholestep.backends.cpu.code_pages import load_madvise
from wholestep.backends.cpu.support_ir.record_layouts import NOTE, NOTES, NOTES_BYTES, NOTES_KEPT
from wholestep.runtime.cpu import semaphores
from wholestep.runtime.cpu.ndarray_reader import array_address

POPULATE = 22
"""MADV_POPULATE_READ of Linux 5.14."""


class PagePrefetcher:
    """The request queue and the thread that serves it."""

    def __init__(self) -> None:
        self.memory = np.zeros(NOTES_BYTES // 8, np.int64)
        self.address = array_address(self.memory)
        self.bell = semaphores.create_semaphore(self.address + NOTES["own"])
        self.memory[NOTES["bell"] // 8] = self.bell
        threading.Thread(target=self.work, name="wholestep-reader", daemon=True).start()

    def work(self) -> None:
        """Serve requests in order; a cancelled or overwritten request is skipped."""
        seen, wait = 0, semaphores.semaphore_wait(self.bell)
        while True:
            wait()
            if int(self.memory[NOTES["count"] // 8]) <= seen:
                continue
            first = (NOTES["first"] + seen % NOTES_KEPT * NOTE["size"]) // 8
            seen += 1
            note = self.memory[first : first + NOTE["size"] // 8]
            start, nbytes, number = (int(note[NOTE[name] // 8]) for name in ("start", "nbytes", "number"))
            if nbytes and number == seen:
                prefetch_pages(start, nbytes)


def prefetch_pages(start: int, nbytes: int) -> None:
    """Populate the pages of a memory range."""
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    size = start + nbytes - first
    madvise = load_madvise()
    if madvise(first, size, POPULATE):
        madvise(first, size, mmap.MADV_WILLNEED)


_prefetcher: PagePrefetcher | None = None
_making = threading.RLock()


def prefetch_requests() -> int:
    """Return the address of the request queue of this process; 0 on systems other than Linux, where there is none.

    A forked child has a thread of its own.
    """
    global _prefetcher
    if sys.platform != "linux":
        return 0
    with _making:
        if _prefetcher is None:
            _prefetcher = PagePrefetcher()
        return _prefetcher.address


@forks.in_child
def _forget_prefetcher() -> None:
    global _prefetcher, _making
    _prefetcher, _making = None, threading.RLock()
