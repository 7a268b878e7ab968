"""External symbols of profiled programs: the system's clock and the identity of a thread."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from wholestep.backends.cpu.profiled_entry import CLOCK_SYMBOL, THREAD_SYMBOL


@cache
def clock_symbols() -> dict[str, int]:
    """Addresses for the linker."""
    if sys.platform == "win32":
        kernel: Any = ctypes.CDLL("kernel32")
        found = kernel.QueryPerformanceCounter, kernel.GetCurrentThreadId
    else:
        process: Any = ctypes.CDLL(None)
        found = process.clock_gettime, process.pthread_self
    return {
        name: int(ctypes.cast(f, ctypes.c_void_p).value or 0)
        for name, f in zip((CLOCK_SYMBOL, THREAD_SYMBOL), found, strict=True)
    }


@cache
def tick_nanoseconds() -> float:
    """Return the length of a tick of the clock."""
    if sys.platform != "win32":
        return 1.0
    frequency = ctypes.c_int64()
    kernel: Any = ctypes.CDLL("kernel32")
    kernel.QueryPerformanceFrequency(ctypes.byref(frequency))
    return 1e9 / frequency.value
