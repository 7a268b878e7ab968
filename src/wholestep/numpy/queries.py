"""NumPy's questions about an array's type, shape and memory: answered without its values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, covers, is_traced
from wholestep.frontend.promotion import lift
from wholestep.numpy.outside import np


def stand_in_array(x: Any) -> Any:
    """A plain array of the same shape and dtype that takes no memory; other things as they are."""
    if not is_traced(x):
        return x
    a = lift(x)
    return np.broadcast_to(np.zeros((), a.dtype), a.shape)


@covers(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """numpy.shape."""
    return lift(a).shape


@covers(np.ndim)
def ndim(a: Any) -> int:
    """numpy.ndim."""
    return lift(a).ndim


@covers(np.size)
def size(a: Any, axis: Any = None) -> Any:
    """numpy.size."""
    x = lift(a)
    if axis is None:
        return x.size
    return math.prod([x.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,))])


@covers(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """numpy.result_type."""
    return np.result_type(*[lift(x).dtype if is_traced(x) else x for x in arrays_and_dtypes])


def asked_of_stand_ins(outside: Any) -> Callable[..., Any]:
    """A question that NumPy answers by shapes and dtypes alone."""

    def implementation(**given: Any) -> bool:
        return bool(outside(**{name: stand_in_array(x) for name, x in given.items()}))

    return binds(outside)(implementation)


can_cast, iscomplexobj, isrealobj = [asked_of_stand_ins(f) for f in (np.can_cast, np.iscomplexobj, np.isrealobj)]


@covers(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> Any:
    """numpy.min_scalar_type; of a scalar the value decides, so it must be known."""
    x = lift(a)
    return np.min_scalar_type(x.known("min_scalar_type")[()]) if x.ndim == 0 else x.dtype


@covers(np.common_type)
def common_type(*arrays: Any) -> Any:
    """numpy.common_type."""
    return np.common_type(*[stand_in_array(a) for a in arrays])


@covers(np.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: int = 0) -> bool:
    """numpy.may_share_memory: whether one of them is a view of the other, or both of a third."""
    both = isinstance(a, Array) and isinstance(b, Array)
    return both and a._root() is b._root()


@covers(np.shares_memory)
def shares_memory(a: Any, b: Any, /, max_work: int = -1) -> bool:
    """numpy.shares_memory: whether any element of one is an element of the other."""
    if not may_share_memory(a, b):
        return False
    base = np.zeros(max(a._root().size, 1), a._root().dtype)
    return bool(np.shares_memory(_on(a, base), _on(b, base), max_work))


def _on(x: Array, base: Any) -> Any:
    """The plain view of `base` that x is of its root."""
    if x._parent is None:
        strides = x.layout().strides
        return np.lib.stride_tricks.as_strided(base, x.shape, strides)
    assert x._view is not None
    return x._view.layout(_on(x._parent, base))


def text_of_type(outside: Any) -> Callable[..., Any]:
    """A function for the text of an array, which ignores all options for the format of numbers."""

    def implementation(**given: Any) -> str:
        return repr(lift(next(iter(given.values()))))

    return binds(outside, "the type, since the values may not be known")(implementation)


array_repr, array_str, array2string = [text_of_type(f) for f in (np.array_repr, np.array_str, np.array2string)]
