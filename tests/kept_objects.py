"""Objects of earlier tests: LLVM compiles each module once in a process of tests, since half of the modules of the
tests are equal to earlier ones, and most modules of some tests without optimization, in a third of the time."""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code

MOST_BYTES = 8_000_000
"""The limit on the bytes of kept objects; the least recently used ones are dropped."""
USERS = 4
"""Of so many modules of tests that compile quickly, one is compiled as users have it: both kinds meet in a program."""


class KeptObjects:
    """`object_code` with a cache: equal text, target and options have one object."""

    def __init__(self) -> None:
        self.quick = False
        self.made: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes = 0

    def __call__(self, text: str, target: CpuTarget, *, opt: int = 3, lane: int = 0) -> bytes:
        if self.quick and zlib.crc32(text.encode()) % USERS:
            opt = 0
        key = hashlib.sha256(f"{target!r} {opt}\n{text}".encode()).digest()
        found = self.made.pop(key, None)  # in one step, since compiler threads ask at the same time
        if found is None:
            found = object_code(text, target, opt=opt, lane=lane)
        else:
            self.bytes -= len(found)
        if self.made.setdefault(key, found) is found:
            self.bytes += len(found)
        while self.bytes > MOST_BYTES and self.made:
            self.bytes -= len(self.made.popitem(last=False)[1])
        return found

    @contextmanager
    def quickly(self) -> Iterator[None]:
        """Let LLVM optimize one module of four, always the same ones."""
        self.quick = True
        try:
            yield
        finally:
            self.quick = False
