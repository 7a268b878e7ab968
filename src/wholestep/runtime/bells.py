"""The system's own semaphore, which native code rings to wake a thread and waits at to sleep."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def _functions() -> tuple[Any, Any, Any]:
    """What sleeps, what rings, what yields, as `ws_sleep`, `ws_ring` and `ws_yield` are called."""
    if sys.platform == "win32":
        kernel: Any = ctypes.CDLL("kernel32")
        return kernel.WaitForSingleObject, kernel.ReleaseSemaphore, kernel.SwitchToThread
    process: Any = ctypes.CDLL(None)
    if sys.platform == "darwin":
        return process.dispatch_semaphore_wait, process.dispatch_semaphore_signal, process.sched_yield
    return process.sem_wait, process.sem_post, process.sched_yield


def symbols() -> dict[str, int]:
    """Addresses for the linker."""
    names = ("ws_sleep", "ws_ring", "ws_yield")
    found = zip(names, _functions(), strict=True)
    return {name: int(ctypes.cast(function, ctypes.c_void_p).value or 0) for name, function in found}


def make(room: int) -> int:
    """A bell that nobody has rung: what to pass to the functions. `room` is the address of 64 bytes that it may use."""
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


def waiting(bell: int) -> Callable[[], Any]:
    """What waits until somebody rings, or for no reason."""
    return partial(_functions()[0], ctypes.c_void_p(bell), -1)


def ring(bell: int) -> None:
    """Wake whoever waits, or the next who will."""
    _functions()[1](ctypes.c_void_p(bell), 1, None)
