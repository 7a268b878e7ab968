"""Memory layouts: the aliases and offsets of allocations, which are decided after the allocations were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from wholestep.dims import Size, most
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import MemRef


class Placement(NamedTuple):
    """The allocation that contains another one, and the offset in it in bytes; without one it is a root."""

    base: Allocation | None
    offset: Size = 0


@dataclass(frozen=True)
class MemoryLayout:
    """The placements of allocations that differ from those they were made with.

    A `MemoryLayoutBuilder` makes one while graphs are lowered; buffer assignment extends it.
    """

    placements: Mapping[Allocation, Placement]
    filed: Set[Allocation]
    """Temporary roots that were moved to a file after they were made."""
    sizes: Mapping[Allocation, Size] = field(default_factory=lambda: MappingProxyType({}))
    """The sizes of arenas, which are known once their contents are assigned."""

    def extended(
        self, placements: Mapping[Allocation, Placement], sizes: Mapping[Allocation, Size] = MappingProxyType({})
    ) -> MemoryLayout:
        """The layout with more placements and sizes of arenas."""
        placed = MappingProxyType({**self.placements, **placements})
        return MemoryLayout(placed, self.filed, MappingProxyType({**self.sizes, **sizes}))

    def placement(self, p: Allocation) -> Placement:
        """The placement of an allocation."""
        return self.placements.get(p) or Placement(p.base, p.offset)

    def base(self, p: Allocation) -> Allocation | None:
        """The allocation that contains an allocation; None for a root."""
        placed = self.placements.get(p)
        return p.base if placed is None else placed.base

    def around(self, p: Allocation) -> Iterator[Allocation]:
        """An allocation and those that contain it, the outermost last."""
        found: Allocation | None = p
        while found is not None:
            yield found
            found = self.base(found)

    def root(self, p: Allocation) -> Allocation:
        """The outermost allocation that contains an allocation."""
        while (base := self.base(p)) is not None:
            p = base
        return p

    def memory(self, p: Allocation) -> Allocation:
        """The outermost allocation that is exactly the same memory."""
        while (base := self.base(p)) is not None and not p.moves and base.size == p.size:
            p = base
        return p

    def overwritten_memory(self, p: Allocation) -> Allocation | None:
        """The memory that writing to an allocation destroys: a donated input, for the output that replaces it."""
        found = self.memory(p)
        return None if found is p else found

    def temporary_roots(self, places: Iterable[Allocation], outside: Set[Allocation]) -> list[Allocation]:
        """The distinct root allocations of some allocations that are temporary."""
        roots = dict.fromkeys([self.root(p) for p in places])
        return [p for p in roots if p.ref is None and p not in outside]

    def in_file(self, p: Allocation) -> bool:
        """True if an allocation lies in a file."""
        root = self.root(p)
        return root.file or root in self.filed

    def size(self, p: Allocation) -> Size:
        """The bytes of an allocation, also of an arena."""
        return self.sizes.get(p, p.size)

    def nbytes(self, p: Allocation) -> int:
        """Its size for the assumed sizes."""
        return most(self.size(p))

    def address(self, p: Allocation) -> MemRef:
        """The memory reference of an allocation whose root has one."""
        base, offset = self.placement(p)
        if base is None:
            assert p.ref is not None, "an allocation was used before it was assigned"
            return p.ref
        found = self.address(base).shifted(offset)
        for loop, stride in p.moves:
            found = found.moved(loop, stride)
        return found


@dataclass(frozen=True)
class MemoryLayoutBuilder(MemoryLayout):
    """A layout in the making: aliases that are found, and roots that go to files, while tasks are made and ordered."""

    placements: dict[Allocation, Placement] = field(default_factory=dict)
    filed: set[Allocation] = field(default_factory=set)
    lent: set[Allocation] = field(default_factory=set)
    """Allocations of operands in the memory of a result, to which they are copied where they are detached."""

    def place(self, p: Allocation, base: Allocation, offset: Size = 0) -> None:
        """Make an allocation part of another one."""
        self.placements[p] = Placement(base, offset)

    def detach(self, p: Allocation) -> None:
        """Make an allocation a root, which lies in a file if it did so."""
        if self.in_file(p):
            self.filed.add(p)
        self.placements[p] = Placement(None)

    def move_to_file(self, root: Allocation, outside: Set[Allocation] = frozenset()) -> None:
        """Let a root lie in a file if it is temporary."""
        if root.ref is None and root not in outside:
            self.filed.add(root)

    def finish(self) -> MemoryLayout:
        """The layout as decided so far, which later decisions do not change."""
        return MemoryLayout(MappingProxyType(dict(self.placements)), frozenset(self.filed))
