"""Machine code without LLVM's optimization, for tests whose results may not depend on it: code generation takes a third
of the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest.mock import patch

from wholestep.backends.cpu import object_compiler
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code

USERS = 4
"""Of so many programs whose bits are compared, one is compiled as users have it."""


def drawn_code(number: int) -> AbstractContextManager[None]:
    """Compile programs without optimization, but each fourth by its number as users have it."""
    return quick_code() if number % USERS else nullcontext()


@contextmanager
def quick_code() -> Iterator[None]:
    """Compile programs without optimization."""

    def unoptimized(text: str, target: CpuTarget, *, opt: int = 3, lane: int = 0) -> bytes:
        return object_code(text, target, opt=0, lane=lane)

    with patch.object(object_compiler, "object_code", unoptimized):
        yield
