"""Names taken from NumPy as they are: ufuncs, constants, types; and a clear error for the rest."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import FUNCTIONS, SEQUENCES, covers, is_traced, public_name, refusing
from wholestep.frontend.promotion import lift
from wholestep.numpy import types

METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")
SCALAR_TYPES = {t.outside: t for t in vars(types).values() if isinstance(t, types.ScalarType)}

HARMLESS = frozenset("broadcast_shapes isdtype iterable row_stack issubdtype".split())
"""Functions that NumPy does not dispatch and that work on traced arrays all the same."""


ITERATORS = frozenset(("nested_iters",))
"""Loops over the memory of plain arrays that are refused under their names."""


def stack_traced(x: Any) -> Any:
    """A list that holds traced arrays as one array; anything else as it is."""
    return lift(x) if isinstance(x, SEQUENCES) and is_traced(x) else x


class Ufunc:
    """One of NumPy's ufuncs, which dispatches by itself, and takes lists of traced arrays too."""

    def __init__(self, outside: np.ufunc) -> None:
        self.outside = outside
        self.__name__ = outside.__name__
        self.__doc__ = outside.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outside(*map(stack_traced, args), **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.outside, name)
        if name not in METHODS:
            return found
        if name == "at":  # a tuple is an index of several axes there
            return lambda x, index, *rest: found(stack_traced(x), index, *map(stack_traced, rest))
        return lambda *args, **kwargs: found(*map(stack_traced, args), **kwargs)

    def __repr__(self) -> str:
        return repr(self.outside)

    def __reduce__(self) -> Any:
        return ufunc_here, (self.outside,)


@functools.cache
def ufunc_here(outside: np.ufunc) -> Ufunc:
    """The one `Ufunc` of a ufunc, also where NumPy has two names for it."""
    return Ufunc(outside)


@covers(np.isscalar)
def isscalar(element: Any) -> bool:
    """numpy.isscalar: true for traced NumPy scalars, false for arrays and lists."""
    return isinstance(element, Array) and element._scalar


def from_numpy(name: str) -> Any:
    """NumPy's attribute of this name, adapted to traced arrays; raises AttributeError where NumPy has none."""
    found = getattr(np, name, None)
    if found is None and not hasattr(np, name):
        raise AttributeError(f"module 'wholestep.numpy' has no attribute {name!r}")
    if isinstance(found, np.ufunc):
        return ufunc_here(found)
    if name in ITERATORS:
        outside: Any = found
        return refusing(outside, f"numpy.{name}")
    if isinstance(found, type):
        return SCALAR_TYPES.get(found, found)
    if not callable(found) or found in FUNCTIONS or name in HARMLESS or not hasattr(found, "__name__"):
        return found
    return refusing(found, public_name(found))
