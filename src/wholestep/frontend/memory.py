"""Memory order of results, as NumPy would choose it: it decides which reshapes are views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.frontend.array import Array


def may_be_transposed(x: Any) -> bool:
    """Test whether an operand may lie in another order than row by row."""
    if type(x) is Array:
        return x._parent is not None or x._strides is not None
    return type(x) is np.ndarray and not x.flags.c_contiguous


def in_order_of(made: Array, operands: Sequence[Any]) -> Array:
    """The array in the memory order of its operands (NumPy's order "K"), which NumPy's iterator determines."""
    if made.ndim < 2 or not all([isinstance(n, int) for n in made.shape]):
        return made
    laid = [x.layout() if isinstance(x, Array) else x for x in operands if isinstance(x, Array | np.ndarray) and x.ndim]
    if all([a.flags.c_contiguous for a in laid]):
        return made
    flags: Any = [*[["readonly"]] * len(laid), ["writeonly", "allocate"]]
    types: Any = [*[a.dtype for a in laid], made.dtype]
    # Nothing is read: the iterator only chooses an order, and allocates a result that is dropped.
    chosen: Any = np.nditer([*laid, None], ["zerosize_ok"], flags, types, order="K").operands[-1]
    if chosen.shape == made.shape and not chosen.flags.c_contiguous:
        made._strides = chosen.strides
    return made
