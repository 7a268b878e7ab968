"""Exclusive access to a state: one thread at a time, no reentrant call, and nothing torn in a forked child."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from wholestep import forks
from wholestep.errors import ReentrancyError
from wholestep.runtime.memory.mapped_arrays import is_file_backed
from wholestep.train.program.engine import Engine

Made = TypeVar("Made")


class ExclusiveAccess:
    """A state that one thread at a time uses.

    The lock is reentrant, so that a signal handler may read the state inside a call; `_busy` detects a handler that
    would run the program there.
    """

    __slots__ = ("_busy", "_lock")

    _engine: Engine

    def __init__(self) -> None:
        self._lock: AbstractContextManager[Any] = threading.RLock()
        self._busy = False

    def _turn(self, f: Callable[..., Made], *args: Any) -> Made:
        """Call f while no other thread uses the state; raises ReentrancyError inside another call by this thread.

        A context manager written in Python would leave the lock taken where Ctrl-C interrupts its entry.
        """
        with self._lock:
            if self._busy:
                raise reentrancy_error()
            self._busy = True
            try:
                return f(*args)
            finally:
                self._busy = False

    def _forked(self) -> None:
        """Make the step unusable in a forked child if another thread held its lock, or its state lies in files."""
        if forks.abandoned(self._lock):
            self._lock = forks.Torn(
                "step: this process was forked while another thread was using the step", "compile it in the child"
            )
        elif any(map(is_file_backed, self._engine.state.arrays)):
            self._lock = forks.Torn(
                "step: this process is a forked child, and the state lies in files of its parent",
                "compile it in the child, and load what the parent has saved",
            )


def reentrancy_error() -> ReentrancyError:
    """The error for a call of a step inside a call of itself."""
    return ReentrancyError(
        "step: called inside a call of itself, by a signal handler or a finalizer",
        hint="let the handler note what is wanted, and call the step in the loop",
    )
