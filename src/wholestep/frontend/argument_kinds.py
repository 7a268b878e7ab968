"""The kinds of arguments that a program is traced for: types, NumPy scalars, Python numbers, static ones."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from wholestep.errors import TreeError
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


def complete_statics(
    f: Any, numbers: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by position and by name, each inferred from the other; raises TreeError for names f has not."""
    try:
        parameters = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return numbers, names
    unknown = [n for n in names if n not in parameters]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values())
    if unknown and not takes_any:
        raise TreeError(f"jit: static_argnames names {unknown[0]!r}, which the function does not take")
    by_name = tuple(parameters.index(n) for n in names if n in parameters)
    by_number = tuple(parameters[n] for n in numbers if -len(parameters) <= n < len(parameters))
    return tuple(dict.fromkeys((*numbers, *by_name))), tuple(dict.fromkeys((*names, *by_number)))
