"""Arrays that a step owns: copies of what it is given, and what nobody else knows of as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.runtime.memory import mapped_arrays


def own_array(x: Any, folder: Path | None = None) -> NDArray:
    """A copy that lies row by row, for the step to write; in a file where there is a folder for it."""
    if folder is None:
        return np.array(x, type_of(x).dtype, order="C", copy=True)
    made = mapped_arrays.zeros_in_file(type_of(x).shape, type_of(x).dtype, folder)
    mapped_arrays.copy_chunked(made, x)
    return made


def count_references(leaves: list[Any], i: int) -> int:
    """The reference count of an item of a list."""
    return sys.getrefcount(leaves[i])


def is_unshared(leaves: list[Any], i: int) -> bool:
    """True if an array of a tree has no other reference, so that the step may write it in place.

    The optimizer has just made its state, most of it of zeros that take no memory until they are written.
    """
    x = leaves[i]
    if not isinstance(x, np.ndarray) or x.base is not None or x.dtype != type_of(x).dtype:
        return False
    fit = x.flags.owndata and x.flags.c_contiguous and x.flags.aligned and x.flags.writeable
    del x
    return bool(fit) and count_references(leaves, i) == ALONE


FRESH = {"x": np.zeros(1)}
ALONE = count_references(tree.leaves(FRESH), 0)
"""The reference count of an array that a tree and the list of its leaves hold, and nothing else."""
