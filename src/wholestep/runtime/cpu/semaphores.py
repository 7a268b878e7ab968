"""The system's semaphore, by which native code sleeps and wakes threads."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def _functions() -> tuple[Any, Any, Any]:
    """Return the system's functions for `ws_sleep` (wait), `ws_ring` (post) and `ws_yield`."""
    if sys.platform == "win32":
        kernel: Any = ctypes.CDLL("kernel32")
        return kernel.WaitForSingleObject, kernel.ReleaseSemaphore, kernel.SwitchToThread
    process: Any = ctypes.CDLL(None)
    if sys.platform == "darwin":
        return process.dispatch_semaphore_wait, process.dispatch_semaphore_signal, process.sched_yield
    return process.sem_wait, process.sem_post, process.sched_yield


def semaphore_symbols() -> dict[str, int]:
    """Addresses for the linker."""
    names = ("ws_sleep", "ws_ring", "ws_yield")
    found = zip(names, _functions(), strict=True)
    return {name: int(ctypes.cast(function, ctypes.c_void_p).value or 0) for name, function in found}


def create_semaphore(room: int) -> int:
    """Create a semaphore of count 0; `room` is the address of 64 bytes for its storage."""
    if sys.platform == "win32":
        kernel: Any = ctypes.CDLL("kernel32")
        kernel.CreateSemaphoreW.restype = ctypes.c_void_p
        return int(kernel.CreateSemaphoreW(None, 0, 0x7FFFFFFF, None))
    process: Any = ctypes.CDLL(None)
    if sys.platform == "darwin":
        process.dispatch_semaphore_create.restype = ctypes.c_void_p
        return int(process.dispatch_semaphore_create(ctypes.c_long(0)))
    process.sem_init(ctypes.c_void_p(room), 0, 0)
    return room


def semaphore_wait(bell: int) -> Callable[[], Any]:
    """Return a function that waits for a post; spurious wake-ups are possible."""
    return partial(_functions()[0], ctypes.c_void_p(bell), -1)


def semaphore_post(bell: int) -> None:
    """Post the semaphore, which wakes one waiter."""
    _functions()[1](ctypes.c_void_p(bell), 1, None)
