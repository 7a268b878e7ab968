"""The support functions, loaded once in this process and ready to be called."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import LinkedCode, code_identity, object_code
from wholestep.backends.cpu.support_ir import support
from wholestep.runtime.cache.code_cache import cached_code
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu import semaphores

POINTER = ctypes.c_void_p


class SupportLibrary:
    """Addresses for the linker, functions for Python.

    `run(call)` runs a program and releases the interpreter lock; `gather(call, arrays)` reads a tuple of arrays, and
    `call(call, arrays)` does both; these two keep the lock. They return 0, 1 for a failure, -1 for unfit arrays.
    """

    def __init__(self, linked: LinkedCode) -> None:
        self._linked = linked
        freely, held = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
        word, items = ctypes.c_int64, ctypes.py_object
        self.run: Callable[..., int] = self._function(freely, "ws_run", word, POINTER)
        self.worker: Callable[..., None] = self._function(freely, "ws_worker", None, POINTER, POINTER)
        self.spin: Callable[..., None] = self._function(freely, "ws_spin", None, ctypes.c_int64)
        self.gather: Callable[..., int] = self._function(held, "ws_gather", word, POINTER, items)
        self.call: Callable[..., int] = self._function(held, "ws_call", word, POINTER, items)

    def _function(self, kind: Any, name: str, result: Any, *arguments: Any) -> Any:
        return kind(result, *arguments)(self._linked.address(name))

    @property
    def symbols(self) -> dict[str, int]:
        """Addresses of the functions that programs may call, by name."""
        return {name: self._linked.address(name) for name in ("ws_parallel", "ws_fail", "ws_soon", "ws_done")}


def madvise_symbols() -> dict[str, int]:
    """Return the address for `ws_madvise`; on systems other than Linux that of a harmless function."""
    if sys.platform == "win32":
        function: Any = ctypes.CDLL("kernel32").SwitchToThread
    elif sys.platform == "linux":
        function = ctypes.CDLL(None).madvise
    else:
        function = ctypes.CDLL(None).sched_yield
    return {"ws_madvise": int(ctypes.cast(function, ctypes.c_void_p).value or 0)}


@cache
def load_support() -> SupportLibrary:
    """The support functions for the processor that this process runs on."""
    target = host_target()
    text = support.support_module(target)
    kept = cached_code(text, code_identity(target), {}, lambda: CacheEntry((object_code(text, target),), {}))
    outside = semaphores.semaphore_symbols() | madvise_symbols()
    made = SupportLibrary(LinkedCode(map(bytes, kept.pieces), outside, support.EXPORTS))
    return _loaded.setdefault("support", made)  # of two threads that come at once both get the first one's


_loaded: dict[str, SupportLibrary] = {}
"""The library whose addresses compiled code has, which must therefore live as long as the process."""
