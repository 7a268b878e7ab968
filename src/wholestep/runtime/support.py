"""The support functions, loaded once in this process and ready to be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from wholestep.backends.cpu import support
from wholestep.backends.cpu.native import Linked, link, object_code
from wholestep.backends.cpu.target import host
from wholestep.runtime import bells, mapped
from wholestep.runtime.cache import cached
from wholestep.runtime.folder import Entry

POINTER = ctypes.c_void_p
PASSES = ("always_inliner",)


class Support:
    """Addresses for the linker, functions for Python.

    `run(call)` runs a program and releases the interpreter lock; `gather(call, arrays)` reads a tuple of arrays, and
    `call(call, arrays)` does both; these two keep the lock. They return 0, 1 for a failure, -1 for unfit arrays.
    """

    def __init__(self, linked: Linked) -> None:
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
        """What programs may call, by name."""
        return {name: self._linked.address(name) for name in ("ws_parallel", "ws_fail", "ws_soon", "ws_done")}


@cache
def load() -> Support:
    """The support functions for the processor that this process runs on."""
    text = support.text(host())
    kept = cached(text, host(), {"passes": PASSES}, lambda: Entry((object_code(text, host(), passes=PASSES),), {}))
    return Support(link(map(bytes, kept.pieces), bells.symbols() | mapped.symbols(), support.EXPORTS))
