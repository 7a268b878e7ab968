"""Machine: what lowering needs to know of the processor that its kernels are for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Machine(NamedTuple):
    """Widths and counts. `vector` is the bytes of a vector, `registers` how many vectors the processor holds."""

    vector: int = 32
    registers: int = 16
    row_vectors: int = 16
    """Up to how many vectors a row may have to be worked on in registers."""

    def lanes(self, dtype: np.dtype[Any]) -> int:
        """How many elements of a dtype one vector holds."""
        return self.lanes_of(dtype.itemsize)

    def lanes_of(self, itemsize: int) -> int:
        """How many elements of this many bytes one vector holds."""
        return max(self.vector // itemsize, 1)
