"""Allocations: regions of memory for values, which a memory layout gives their addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size, most
from wholestep.errors import Where
from wholestep.ir.graph import Value
from wholestep.lower.program.steps import MemRef

ALIGNMENT = 64
"""Alignment of buffers in bytes: one cache line, and the widest vector."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Allocation:
    """A region of memory for a value: resident memory at `ref`, part of another allocation, or temporary.

    It is equal by identity and never changed: later decisions, such as its offset in an arena, are in a `MemoryLayout`.
    `size` may be symbolic, and `nbytes` is its value for the assumed sizes.
    """

    size: Size
    ref: MemRef | None = None
    base: Allocation | None = None
    moves: tuple[tuple[int, Size], ...] = ()
    value: Value | None = None
    file: bool = False
    """True if the allocation is in a file; set only for an allocation that is not part of another."""
    offset: Size = 0
    """Bytes from the start of `base`."""
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nbytes", most(self.size))

    @property
    def where(self) -> Where:
        """The user's line of the operation that defines its value."""
        return self.value.node.where if self.value is not None and self.value.node is not None else None

    def described(self, otherwise: str) -> str:
        """The operation that defines its value, and the type of it."""
        if self.value is None or self.value.node is None:
            return otherwise
        return f"{self.value.node.op.name} {self.value.type}"


def storage_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of buffer elements: a complex number is stored as two real ones."""
    return dtypes.real_of(dtype) if dtype.kind == "c" else dtype
