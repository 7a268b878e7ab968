"""Conditions on values that are errors, with a message of their own, when a compiled program runs."""

from __future__ import annotations

import numpy as np

from wholestep.errors import Demanded, here, indexed
from wholestep.frontend.promotion import cast_to
from wholestep.ir.build import blame
from wholestep.ir.graph import Value
from wholestep.primitives.creation import constant
from wholestep.primitives.indexing import gather


def demanded(holds: Value, number: np.generic, what: str) -> Value:
    """A number that is there only where a condition holds; elsewhere the program raises BoundsError with this message.

    It is read from a table of one element, and beyond its end where the condition does not hold.
    """
    table = constant(value=np.full(1, number))
    before = blame(indexed(here(), what, Demanded))
    try:
        read: Value = gather(table, cast_to(~holds, np.dtype(np.int64)), axes=(0,))
    finally:
        blame(before)
    return read
