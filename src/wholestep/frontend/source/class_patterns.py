"""The classes in the patterns of `match`: a traced value is an instance of those that the plain one would be of."""

from __future__ import annotations

import functools
import numbers
from abc import ABCMeta
from typing import Any

import numpy as np

from wholestep.frontend.source.python_calls import is_instance

NOT_DERIVED = {bool: int, np.bool: np.generic}
"""Classes that no class can be derived from -> one that patterns treat alike."""


class StandIn(ABCMeta):
    """The class of stand-ins: `kind` is the class that the pattern names."""

    kind: type

    def __instancecheck__(cls, x: Any) -> bool:
        return is_instance(x, cls.kind)


def stand_in_class(kind: type) -> type:
    """A class for a pattern in place of another; it is derived from that, since the form of a pattern hangs on it."""
    made = StandIn(kind.__name__, (NOT_DERIVED.get(kind, kind),), {})
    made.kind = kind
    return made


PLAIN = (np.ndarray, bool, int, float, complex, *[np.dtype(code).type for code in "?bBhHiIlLqQefdFD"])
"""The classes of the plain values in whose place traced ones are."""

ABSTRACT = [numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral]


@functools.cache
def stand_ins() -> dict[type, type]:
    """Each class that a plain value may be an instance of, beside `object`, and its stand-in."""
    kinds = {base for plain in PLAIN for base in plain.__mro__} - {object}
    return {kind: stand_in_class(kind) for kind in (*kinds, *ABSTRACT)}


def pattern_class(kind: Any) -> Any:
    """The class that a pattern tests for in place of the one that it names."""
    return stand_ins().get(kind, kind) if isinstance(kind, type) else kind
