"""Copies of bytes by kernels, for cards that copy nothing else between launches."""

from __future__ import annotations

import numpy as np

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, DType, Index, Kernel

WORD = 4
"""The bytes that are copied at once."""


def byte_copy(nbytes: int, whole: bool) -> Kernel:
    """The kernel that copies `nbytes` bytes from its first buffer to its second, word by word if they are `whole`
    words."""
    dtype: DType = np.dtype(np.uint32 if whole else np.uint8)
    count = nbytes // dtype.itemsize
    with KernelBuilder("copy") as b:
        source, target = b.buffer("x", dtype, count), b.buffer("y", dtype, count, True)
        axis = Axis("i", count)
        with b.loop(axis):
            at = Index(0, {axis: 1})
            b.store(target, at, b.load(source, at))
    return b.kernel()
