"""Threads that the interpreter joins before it ends, since one that is stopped within C++ ends it with an abort."""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import ContextDecorator

from wholestep import forks

PATIENCE = 60.0
"""Seconds that the end of the process waits for threads that compile."""


class Unbroken(ContextDecorator):
    """`with UNBROKEN:` around work, or `@UNBROKEN` above a function, in which C++ may wait for the interpreter.

    Such are the calls that trace and compile, and all calls of optree.

    Python stops the daemon threads of a process that ends, wherever they are. Before it does, they may finish what they
    are at; one that would begin anew then ends by a SystemExit, without a word. The main thread is never refused.
    """

    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        """The number of blocks that each thread is in; only itself changes its own."""
        self.closed = False
        atexit.register(self.close)
        forks.in_child(self.forget)

    def __enter__(self) -> None:
        thread = threading.get_ident()
        depth = self.depths.get(thread, 0)
        self.depths[thread] = depth + 1  # before the look at `closed`, so that one of the two sees the other
        if self.closed and not depth and threading.current_thread() is not threading.main_thread():
            del self.depths[thread]
            raise SystemExit

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        self.depths[thread] -= 1
        if not self.depths[thread]:
            del self.depths[thread]

    def close(self) -> None:
        """Wait for all other threads, and let none of them in again."""
        self.closed = True
        own, until = threading.get_ident(), time.monotonic() + PATIENCE
        while any(thread != own for thread in tuple(self.depths)) and time.monotonic() < until:
            time.sleep(0.001)

    def forget(self) -> None:
        """In a forked child: the threads that are not there."""
        own = threading.get_ident()
        self.depths = {thread: depth for thread, depth in self.depths.items() if thread == own}


UNBROKEN = Unbroken()
