"""The system's clock and the name of a thread, as compiled code asks for them while a step is profiled."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from wholestep.backends.cpu.stamps import NOW, THREAD


@cache
def symbols() -> dict[str, int]:
    """Addresses for the linker."""
    if sys.platform == "win32":
        kernel: Any = ctypes.CDLL("kernel32")
        found = kernel.QueryPerformanceCounter, kernel.GetCurrentThreadId
    else:
        process: Any = ctypes.CDLL(None)
        found = process.clock_gettime, process.pthread_self
    return {name: int(ctypes.cast(f, ctypes.c_void_p).value or 0) for name, f in zip((NOW, THREAD), found, strict=True)}


@cache
def nanoseconds() -> float:
    """How long a tick of the clock is."""
    if sys.platform != "win32":
        return 1.0
    frequency = ctypes.c_int64()
    kernel: Any = ctypes.CDLL("kernel32")
    kernel.QueryPerformanceFrequency(ctypes.byref(frequency))
    return 1e9 / frequency.value
