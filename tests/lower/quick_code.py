"""Machine code without LLVM's optimization: the same numbers in less than half of the time that its making takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from wholestep.backends.cpu import object_compiler
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code

USERS = 4
"""Of so many programs whose bits are compared, one is compiled as users have it."""


@contextmanager
def quick_code(number: int = 1) -> Iterator[None]:
    """With programs that are compiled quickly, but for each fourth by its number."""

    def unoptimized(text: str, target: CpuTarget, *, opt: int = 3) -> bytes:
        return object_code(text, target, opt=0)

    with patch.object(object_compiler, "object_code", unoptimized if number % USERS else object_code):
        yield
