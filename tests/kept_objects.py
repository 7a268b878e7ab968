"""Objects of earlier tests: LLVM compiles each module once in a process of tests, since half of the modules of the
tests are equal to earlier ones."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code

MOST_BYTES = 8_000_000
"""The limit on the bytes of kept objects; the least recently used ones are dropped."""


class KeptObjects:
    """`object_code` with a cache: equal text, target and options have one object."""

    def __init__(self) -> None:
        self.made: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes = 0

    def __call__(self, text: str, target: CpuTarget, *, opt: int = 3, lane: int = 0) -> bytes:
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
