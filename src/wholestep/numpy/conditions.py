"""Conditions on values that NumPy raises for: an error at once where they are known, and else when the program runs."""

from __future__ import annotations

from typing import Any

from wholestep.errors import Demanded, ParameterError, here, indexed
from wholestep.frontend.array import Array
from wholestep.frontend.promotion import cast_to, lift
from wholestep.ir.build import blame
from wholestep.numpy.outside import np
from wholestep.primitives.creation import constant
from wholestep.primitives.indexing import gather


def where_holds(made: Any, holds: Any, what: str) -> Any:
    """A result that is there only where a condition holds.

    Raises ParameterError with this message where the condition is known; in a compiled program a read beyond the end
    of a table of one element is a BoundsError with it.
    """
    condition = lift(holds)
    known = condition.value.data
    if known is not None:
        if not known:
            raise ParameterError(what)
        return made
    before = blame(indexed(here(), what, Demanded))
    try:
        read = gather(constant(value=np.ones(1, bool)), cast_to((~condition).value, np.dtype(np.int64)), axes=(0,))
    finally:
        blame(before)
    return np.where(Array(read), made, np.zeros((), made.dtype))[()]
