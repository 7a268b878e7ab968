"""Arrays that a step may own without a copy, since no other object refers to them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray


def count_references(leaves: list[Any], i: int) -> int:
    """The reference count of an item of a list."""
    return sys.getrefcount(leaves[i])


def is_unshared(leaves: list[Any], i: int) -> bool:
    """True if an array of a tree has no other reference, so that the step may write it in place.

    Most of a new optimizer state is zeros, which take no memory until they are written.
    """
    x = leaves[i]
    if not isinstance(x, np.ndarray) or x.base is not None or x.dtype != type_of(x).dtype:
        return False
    fit = x.flags.owndata and x.flags.c_contiguous and x.flags.aligned and x.flags.writeable
    del x
    return bool(fit) and count_references(leaves, i) == ALONE


def holds_zeros(x: NDArray) -> bool:
    """Test whether all bits of an array are 0, as in newly allocated memory.

    >>> holds_zeros(np.zeros(3)), holds_zeros(np.array([0.0, -0.0]))
    (True, False)
    """
    return bool(x.flags.c_contiguous) and not x.reshape(-1).view(np.bool_).any()


FRESH = {"x": np.zeros(1)}
ALONE = count_references(tree.leaves(FRESH), 0)
"""The reference count of an array to which only a tree and the list of its leaves refer."""
