"""Threads that the interpreter joins before it ends, since one that is stopped within C++ ends it with an abort."""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from wholestep import forks

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE = 60.0
"""Seconds that the end of the process waits for threads that compile."""


class Unbroken:
    """A guard of code in which C++ may wait for the interpreter: `with UNBROKEN:`, or `@UNBROKEN` above a function.

    Such are the calls that trace and compile, and all calls of optree.

    Python stops the daemon threads of an ending process at any point. Before that, each may finish its guarded block;
    a thread that would enter another one ends by a silent SystemExit. The main thread is never refused.
    """

    def __init__(self) -> None:
        self.depths: dict[int, int] = {}
        """The number of blocks that each thread is in; only itself changes its own."""
        self.closed = False
        atexit.register(self.close)
        forks.in_child(self.forget)

    def __call__(self, f: F) -> F:
        @functools.wraps(f)
        def unbroken(*args: Any, **kwargs: Any) -> Any:
            with self:
                return f(*args, **kwargs)

        return cast(F, unbroken)

    def __enter__(self) -> None:
        thread, depths = threading.get_ident(), self.depths
        depth = depths.get(thread, 0)
        depths[thread] = depth + 1  # before the look at `closed`, so that one of the two sees the other
        if self.closed and not depth and threading.current_thread() is not threading.main_thread():
            del depths[thread]
            raise SystemExit

    def __exit__(self, *_: object) -> None:
        thread, depths = threading.get_ident(), self.depths
        if depths[thread] == 1:
            del depths[thread]
        else:
            depths[thread] -= 1

    def close(self) -> None:
        """Wait for all other threads to leave their guarded blocks, and let none of them enter one again."""
        self.closed = True
        own, until = threading.get_ident(), time.monotonic() + PATIENCE
        while any(thread != own for thread in tuple(self.depths)) and time.monotonic() < until:
            time.sleep(0.001)

    def forget(self) -> None:
        """Drop the counts of threads that do not exist in a forked child."""
        for thread in [thread for thread in self.depths if thread != threading.get_ident()]:
            del self.depths[thread]


UNBROKEN = Unbroken()
