"""Arrays that a step owns: copies of what it is given, and what nobody else knows of as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.frontend.scope import type_of
from wholestep.ir.graph import NDArray
from wholestep.runtime import mapped


def own(x: Any, folder: Path | None = None) -> NDArray:
    """A copy that lies row by row, for the step to write; in a file where there is a folder for it."""
    if folder is None:
        return np.array(x, type_of(x).dtype, order="C", copy=True)
    made = mapped.in_file(type_of(x).shape, type_of(x).dtype, folder)
    mapped.put(made, x)
    return made


def references(leaves: list[Any], i: int) -> int:
    """How many there are to an item of a list, as Python counts."""
    return sys.getrefcount(leaves[i])


def unshared(leaves: list[Any], i: int) -> bool:
    """Whether an array of a tree is known to nobody else, so that the step may write it as it is.

    The optimizer has just made its state, most of it of zeros that take no memory until they are written.
    """
    x = leaves[i]
    if not isinstance(x, np.ndarray) or x.base is not None or x.dtype != type_of(x).dtype:
        return False
    fit = x.flags.owndata and x.flags.c_contiguous and x.flags.aligned and x.flags.writeable
    del x
    return bool(fit) and references(leaves, i) == ALONE


FRESH = {"x": np.zeros(1)}
ALONE = references(tree.leaves(FRESH), 0)
"""What is counted of an array that a tree and the list of its leaves hold, and nothing else."""
