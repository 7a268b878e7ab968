"""Objects of earlier tests: LLVM makes each module once in a process of tests, since half of what tests compile was
compiled by one before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.llvm_jit import object_code

MOST_BYTES = 8_000_000
"""Of objects that are kept: those that were asked for last."""


class KeptObjects:
    """`object_code`, which gives the same object for the same text, target and options, with what it gave before."""

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
