"""The initial state, for `reset`: copies of small arrays, and the caller's own large arrays with a checksum."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep.errors import ParameterError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.runtime.memory.mapped_arrays import is_file_backed

UNCOPIED_BYTES = 1 << 20
"""The bytes from which an array is not copied, since the copies of all would take as much memory as the parameters."""


@dataclass(frozen=True)
class GivenArray:
    """An array of the caller's, its path, and the checksum by which a later change is detected."""

    path: str
    array: NDArray
    checksum: int

    def unchanged(self) -> NDArray:
        """The array; raises ParameterError where it has been written since."""
        if crc32_of(self.array) != self.checksum:
            raise ParameterError(
                f"reset: {self.path} was changed in place since it was given, so the beginning is gone",
                hint="an array of a megabyte or more is not copied at the beginning; keep first = step.params, and go "
                "back with step.set(params=first)",
            )
        return self.array


def is_given(leaf: Any) -> bool:
    """True for a large array that the state does not convert, and for a placeholder of such an array.

    A placeholder takes no memory: all its strides are 0.
    """
    if not isinstance(leaf, np.ndarray) or leaf.nbytes < UNCOPIED_BYTES or is_file_backed(leaf):
        return False
    return leaf.dtype == type_of(leaf).dtype and (leaf.flags.c_contiguous or not any(leaf.strides))


def given_array(path: str, leaf: Any) -> GivenArray | None:
    """The record of a large array, in place of a copy; None for another array."""
    return GivenArray(path, leaf, crc32_of(leaf)) if is_given(leaf) and leaf.flags.c_contiguous else None


def crc32_of(x: NDArray) -> int:
    """The CRC-32 of the bytes of a contiguous array."""
    return zlib.crc32(x.reshape(-1).view(np.uint8).data)
