"""Counts that users give: numbers of steps, epochs, rows and the like, of one or more."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ParameterError
from wholestep.words import type_in_words


def whole_number(name: str, n: Any, what: str) -> int:
    """A count of at least one; raises ParameterError otherwise."""
    if not is_integer(n) or n < 1:
        raise ParameterError(f"{what}: {name} is {n!r}; it must be an integer of 1 or more")
    return int(n)


def checked_count(name: str, n: Any, what: str) -> int:
    """A count of at least one; raises DtypeError for a value that is no integer, ParameterError below 1."""
    if not is_integer(n):
        raise DtypeError(f"{what}: {name} is {type_in_words(n)}, not an integer")
    if n < 1:
        raise ParameterError(f"{what}: {name} is {n}; it must be 1 or more")
    return int(n)


def is_integer(n: Any) -> bool:
    """True for a number of an integer type; a truth is none."""
    return isinstance(n, int | np.integer) and not isinstance(n, bool)
