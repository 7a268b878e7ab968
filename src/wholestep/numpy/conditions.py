"""Conditions on values that NumPy raises for: an error at once where they are known, and else when the program runs."""

from __future__ import annotations

from typing import Any

from wholestep.errors import ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.demands import demanded
from wholestep.numpy.outside import np


def where_holds(made: Any, holds: Any, what: str) -> Any:
    """A result that is there only where a condition holds, one or one for each element.

    Raises ParameterError with this message where the condition is known; in a compiled program a read beyond the end
    of a table of one element is a BoundsError with it. A way out may follow in its second line.
    """
    known = holds.value.data if isinstance(holds, Array) else holds
    if known is not None:
        if not np.all(known):
            said, _, way_out = what.partition("\n")
            raise ParameterError(said, hint=way_out or None)
        return made
    read = Array(demanded(holds.value, np.True_, what))
    return np.where(read, made, np.zeros((), made.dtype))[()]
