"""Memory accesses: the loads and stores of a kernel, each with the loops around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.dims import Size, least, most
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Loop, Space, Statement, Store, Var


class MemoryAccess(NamedTuple):
    """A load or store, its buffer and the offset in it, the loops around it, and its own guard."""

    source: Var | Store
    buffer: Buffer
    offset: Index
    path: tuple[Loop, ...]
    guard: Var | None

    @property
    def is_store(self) -> bool:
        """True for a store."""
        return isinstance(self.source, Store)

    @property
    def conditional(self) -> bool:
        """True if a guard may skip it."""
        return self.guard is not None or any(loop.guard is not None for loop in self.path)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the loops around it."""
        return tuple([loop.axis for loop in self.path])

    @property
    def times(self) -> Size:
        """The number of times that it runs."""
        return math.prod([loop.axis.size for loop in self.path])

    def region(self) -> tuple[int, object, object]:
        """A key of the accessed elements, equal for accesses that walk through the same elements; its first part is the
        constant offset."""
        spans = [(self.offset.coefficient(a), a.size) for a in self.axes if self.offset.coefficient(a)]
        ordered = sorted(spans, key=lambda span: (span[0], most(span[1])))
        return self.offset.const, frozenset(self.offset.values()), tuple(ordered)

    def distinct_elements(self) -> Size:
        """The most distinct elements: those of all iterations that differ in their offsets."""
        if self.offset.values():
            return least(self.times, self.buffer.room)
        moving = [a for a in self.axes if self.offset.coefficient(a)]
        return least(math.prod([a.size for a in moving]), self.buffer.room)

    @property
    def reach(self) -> Size:
        """The number of elements from the first that is accessed to the last, if the access is not indirect."""
        return 1 + sum(abs(self.offset.coefficient(a)) * (a.size - 1) for a in self.axes)


def memory_accesses(body: Sequence[Statement]) -> list[MemoryAccess]:
    """The loads and stores of a body, in order."""
    found: list[MemoryAccess] = []

    def visit(body: Sequence[Statement], path: tuple[Loop, ...]) -> None:
        for s in body:
            if isinstance(s, Var):
                if s.op == "load":
                    buffer, offset = s.attr
                    found.append(MemoryAccess(s, buffer, offset, path, s.args[0] if s.args else None))
            elif isinstance(s, Store):
                found.append(MemoryAccess(s, s.buffer, s.index, path, s.guard))
            elif isinstance(s, Loop):
                visit(s.body, (*path, s))

    visit(body, ())
    return found


def space_accesses(kernel: Kernel, space: Space) -> list[MemoryAccess]:
    """The loads and stores of a kernel in one memory space."""
    return [a for a in memory_accesses(kernel.body) if a.buffer.space == space]
