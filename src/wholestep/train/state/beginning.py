"""The beginning of a state, for `reset`: copies of small arrays; of large ones the caller's own and a checksum."""

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
"""An array of at least so many bytes is not copied: the copies of all would take as much as the parameters again."""


@dataclass(frozen=True)
class GivenArray:
    """An array as the caller gave it, its spelling, and the checksum by which a later change is noticed."""

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
    """True for a large array that the state does not convert, and for one that stands for such an array.

    That one takes no memory: its elements are all the same one.
    """
    if not isinstance(leaf, np.ndarray) or leaf.nbytes < UNCOPIED_BYTES or is_file_backed(leaf):
        return False
    return leaf.dtype == type_of(leaf).dtype and (leaf.flags.c_contiguous or not any(leaf.strides))


def given_array(path: str, leaf: Any) -> GivenArray | None:
    """The record of a large array instead of a copy; None for any other."""
    return GivenArray(path, leaf, crc32_of(leaf)) if is_given(leaf) and leaf.flags.c_contiguous else None


def crc32_of(x: NDArray) -> int:
    """The CRC-32 of the bytes of an array without gaps."""
    return zlib.crc32(x.reshape(-1).view(np.uint8).data)
