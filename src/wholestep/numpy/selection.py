"""NumPy's choices: where, clip, select and reading at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.errors import ValueDependentError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.lift import broadcast_shapes, broadcast_to, cast_to, lift, promoted, wrap
from wholestep.primitives.logic import select


@covers(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """numpy.where; with a condition alone, the indices where it holds, which must be known."""
    mask = lift(condition)
    if x is None and y is None:
        known = mask.value.data
        if known is None:
            raise ValueDependentError(
                f"where: the indices where a traced {mask.type} holds are not known",
                hint="give both values: np.where(condition, x, y)",
            )
        return tuple([lift(i) for i in np.nonzero(np.broadcast_to(known, mask.shape))])
    chosen = cast_to(mask.value, np.dtype(bool))
    a, b = promoted(x, y)
    shape = broadcast_shapes("where", [chosen.shape, a.shape, b.shape])
    return wrap(select(broadcast_to(chosen, shape), broadcast_to(a, shape), broadcast_to(b, shape)))


@covers(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """numpy.copy: a new array that shares nothing."""
    return Array(lift(a).value)
