"""The handler of `fork`: locks, threads and shared memory of a child, and the sections that no fork may cut in two.

A child has one thread, that which forked. The unfinished work of other threads stays so for ever: locks that they
held, state that they were changing. An object with such a lock, a thread or a file registers here, once, and is
notified in the child; one hook serves all.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from wholestep.errors import ForkedError


class Heir(Protocol):
    """Something that a forked child inherits."""

    def _forked(self) -> None:
        """Called in the child, before anything else happens there."""


_heirs: weakref.WeakSet[Any] = weakref.WeakSet()
_hooks: list[Callable[[], None]] = []


def heir(x: Heir) -> None:
    """Have `x._forked()` called in every forked child, for as long as x is in use."""
    _heirs.add(x)


def in_child(hook: Callable[[], None]) -> Callable[[], None]:
    """Have a function called in every forked child."""
    _hooks.append(hook)
    return hook


def abandoned(lock: Any) -> bool:
    """Test whether a reentrant lock is held by a thread that does not exist in this forked child.

    >>> abandoned(threading.RLock())
    False
    """
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


class Torn:
    """A replacement for the lock of an object that cannot be used in this process: taking it raises ForkedError."""

    def __init__(self, message: str, hint: str) -> None:
        self.message, self.hint = message, hint

    def __enter__(self) -> None:
        raise ForkedError(self.message, hint=self.hint)

    def __exit__(self, *_: object) -> None:
        """Never reached, since `__enter__` raises."""


class Gate:
    """A reentrant lock around native code with locks of its own, which nobody could set free in a child.

    A fork waits for the thread that is inside.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release
            )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _after_fork() -> None:
    for hook in _hooks:
        hook()
    for x in tuple(_heirs):
        x._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
