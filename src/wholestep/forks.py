"""The handler of `fork`: locks, threads and shared memory of a child, and the sections that no fork may cut in two.

A child has one thread, that which forked. What other threads were in the middle of stays there for ever: locks that
they held, state that they were changing. Whatever has such a lock, a thread or a file says so here, once, and is told
in the child; one hook serves all.
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
    """In a child, whether a reentrant lock is held by a thread that is not there any more.

    >>> abandoned(threading.RLock())
    False
    """
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


class Torn:
    """A stand-in for the lock of something that cannot go on in this process: whoever takes it gets a ForkedError."""

    def __init__(self, message: str, hint: str) -> None:
        self.message, self.hint = message, hint

    def __enter__(self) -> None:
        raise ForkedError(self.message, hint=self.hint)

    def __exit__(self, *_: object) -> None:
        """Nobody was let in."""


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
