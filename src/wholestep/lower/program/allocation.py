"""Allocations: regions of memory for values, whose addresses are assigned after the tasks are ordered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size, most
from wholestep.errors import Where
from wholestep.ir.graph import Value
from wholestep.lower.program.steps import MemRef

ALIGNMENT = 64
"""Alignment of buffers in bytes: one cache line, and the widest vector."""


class Allocation:
    """A region of memory for a value; buffer assignment gives it a slot, or an offset in another allocation.

    `size` may be symbolic, and `nbytes` is its value for the assumed sizes.
    """

    __slots__ = ("base", "file", "moves", "nbytes", "offset", "ref", "size", "value")

    def __init__(
        self,
        size: Size,
        ref: MemRef | None = None,
        base: Allocation | None = None,
        moves: tuple[tuple[int, Size], ...] = (),
        value: Value | None = None,
        file: bool = False,
    ) -> None:
        self.resize(size)
        self.ref = ref
        self.base = base
        self.offset: Size = 0
        self.moves = moves
        self.value = value
        self.file = file  # of an outermost place: whether it lies, or wants to lie, in a file

    def resize(self, size: Size) -> None:
        """Change the size."""
        self.size = size
        self.nbytes = size if isinstance(size, int) else most(size)

    @property
    def where(self) -> Where:
        """The user's line of the operation that defines its value."""
        return self.value.node.where if self.value is not None and self.value.node is not None else None

    def described(self, otherwise: str) -> str:
        """The operation that defines its value, and the type of it."""
        if self.value is None or self.value.node is None:
            return otherwise
        return f"{self.value.node.op.name} {self.value.type}"

    def root(self) -> Allocation:
        """The outermost allocation that contains this one."""
        return self if self.base is None else self.base.root()

    def around(self) -> Iterator[Allocation]:
        """This allocation and those that contain it, the outermost last."""
        yield self
        if self.base is not None:
            yield from self.base.around()

    def memory(self) -> Allocation:
        """The outermost allocation that is exactly the same memory."""
        same = self.base is not None and not self.moves and self.base.size == self.size
        return self.base.memory() if same and self.base is not None else self

    def address(self) -> MemRef:
        """The assigned memory reference."""
        if self.base is None:
            assert self.ref is not None, "a place was used before it was laid out"
            return self.ref
        found = self.base.address().shifted(self.offset)
        for loop, stride in self.moves:
            found = found.moved(loop, stride)
        return found


def storage_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of buffer elements: a complex number is stored as two real ones."""
    return dtypes.real_of(dtype) if dtype.kind == "c" else dtype
