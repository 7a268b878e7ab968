"""The kinds of arguments that a program is traced for: types, NumPy scalars, Python numbers, static ones."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from typing import Any

import numpy as np

from wholestep.errors import StaticArgumentError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.axis_names import surrounding_axes
from wholestep.frontend.promotion import promotes_weakly
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import LEAVES, entry_hint, type_of
from wholestep.ir.types import Type
from wholestep.words import type_in_words

ENTERING = (ShapeDtype, *LEAVES)
"""Arguments that become arrays inside; a shape alone may be traced with, and not be called with."""


def enters(leaf: Any) -> bool:
    """Test whether an argument becomes an array inside."""
    return isinstance(leaf, ENTERING) and not isinstance(leaf, bool)


def kind_of(x: Any) -> Type:
    """The type of an argument; of a `ShapeDtype`, the type that it states."""
    return x.type if isinstance(x, ShapeDtype) else type_of(x)


def number_kind(x: Any) -> tuple[bool, bool]:
    """Two flags: an argument is a number and no array, and it is a Python number, which promotes weakly."""
    if isinstance(x, Array):
        return x._scalar, x._weak
    return not isinstance(x, np.ndarray | ShapeDtype), promotes_weakly(x)


def kind_change(old: tuple[Type, bool, bool], new: tuple[Type, bool, bool]) -> str:
    """The words for an argument of another kind than before: its types, and array or number where these are equal.

    >>> f64 = type_of(1.0)
    >>> kind_change((f64, False, False), (f64, True, False)), kind_change((f64, True, True), (f64, True, False))
    ('f64 array -> f64 number of NumPy', 'f64 number of Python -> f64 number of NumPy')
    """
    if old[0] != new[0]:
        return f"{old[0]} -> {new[0]}"
    words = [f"number of {'Python' if weak else 'NumPy'}" if number else "array" for _, number, weak in (old, new)]
    return f"{old[0]} {words[0]} -> {new[0]} {words[1]}"


def program_key(
    name: str, static: Any, named: Any, fixed: Any, orders: Hashable, structure: Hashable, kinds: Hashable
) -> tuple[Any, ...]:
    """The cache key of a function's program; raises StaticArgumentError for a value that does not hash."""
    labelled = [(f"static argument {n}", v) for n, v in static.items()]
    labelled += [(f"static {label}", v) for label, v in named.items()]
    for label, value in [*labelled, *[("an argument that is no array", v) for v in fixed]]:
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
                f"{name}: {label} is {type_in_words(value)}, which does not hash",
                hint=entry_hint(value, "use a tuple instead of a list, or pass arrays as ordinary arguments"),
            ) from None
    return (
        tuple([(n, static_key(v)) for n, v in static.items()]),
        tuple([(k, static_key(named[k])) for k in sorted(named)]),
        tuple([static_key(v) for v in fixed]),
        surrounding_axes(),
        orders,
        structure,
        kinds,
    )


def static_key(value: Any) -> Hashable:
    """A key of a static value in which 2 and 2.0, True and 1, and the two zeros differ, which Python calls equal.

    >>> static_key((2,)) == static_key((2.0,)), static_key(-0.0) == static_key(0.0), static_key("a") == static_key("a")
    (False, False, True)
    """
    kind = type(value)
    if isinstance(value, tuple):
        return kind, tuple([static_key(x) for x in value])
    if isinstance(value, frozenset):
        return kind, frozenset([static_key(x) for x in value])
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    return kind, value


def takes_any_keyword(f: Any) -> bool:
    """Test whether a function takes keywords that it does not name, whose order it may see."""
    try:
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return True


def complete_statics(
    f: Any, numbers: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by position and by name, each inferred from the other; raises TreeError for those f has not."""
    try:
        signature = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return numbers, names
    parameters = list(signature)
    outside = [n for n in numbers if not -len(parameters) <= n < len(parameters)]
    if outside and not any(p.kind is p.VAR_POSITIONAL for p in signature.values()):
        raise TreeError(f"jit: static_argnums names argument {outside[0]} of {len(parameters)}, counted from 0")
    unknown = [n for n in names if n not in parameters]
    if unknown and not takes_any_keyword(f):
        raise TreeError(f"jit: static_argnames names {unknown[0]!r}, which the function does not take")
    by_name = tuple(parameters.index(n) for n in names if n in parameters)
    by_number = tuple(parameters[n] for n in numbers if -len(parameters) <= n < len(parameters))
    return tuple(dict.fromkeys((*numbers, *by_name))), tuple(dict.fromkeys((*names, *by_number)))
