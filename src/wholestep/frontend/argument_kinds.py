"""The kinds of arguments that a program is traced for: types, NumPy scalars, Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.promotion import WEAK
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import LEAVES, type_of
from wholestep.ir.types import Type

ENTERING = (ShapeDtype, *LEAVES)
"""Arguments that become arrays inside; a shape alone may be traced with, and not be called with."""


def enters(leaf: Any) -> bool:
    """Test whether an argument becomes an array inside."""
    return isinstance(leaf, ENTERING) and not isinstance(leaf, bool)


def kind_of(x: Any) -> Type:
    """The type of an argument, or of what a shape stands for."""
    return x.type if isinstance(x, ShapeDtype) else type_of(x)


def number_kind(x: Any) -> tuple[bool, bool]:
    """Two flags: an argument is a number and no array, and it is a Python number, which promotes weakly."""
    if isinstance(x, Array):
        return x._scalar, x._weak
    return not isinstance(x, np.ndarray | ShapeDtype), type(x) in WEAK
