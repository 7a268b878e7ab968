"""Traced arrays that look at the traced contents of a memory as NumPy's arrays look at the memory."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from wholestep import dtypes
from wholestep.errors import ConversionError, UnsupportedError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import function
from wholestep.frontend.promotion import full_of, lift
from wholestep.ir.graph import Value
from wholestep.primitives.indexing import gather, scatter
from wholestep.primitives.movement import permute, reshape

plain_attribute = np.ndarray.__getattribute__


class Inside:
    """An element of memory that has been traced: it becomes no number."""

    __slots__ = ()

    def __float__(self) -> NoReturn:
        raise ConversionError(
            "array conversion: an array in which traced values were stored cannot become a plain one",
            hint="code that is not rewritten (of another package, or in C) has no way to follow it",
        )

    __int__ = __index__ = __complex__ = __bool__ = __float__


INSIDE = Inside()


def constant_value(plain: np.ndarray[Any, Any]) -> Value:
    """The present contents of an array as a value of the program: one number, or a constant of its own."""
    flat = plain.reshape(-1)
    one = flat[:1]
    if plain.size and dtypes.is_supported(plain.dtype) and flat.tobytes() == one.tobytes() * plain.size:
        return full_of(one[0], plain.shape, dtypes.check(plain.dtype))
    return lift(plain.copy()).value


def overlay(whole: Array, owner: np.ndarray[Any, Any], view: np.ndarray[Any, Any]) -> Array:
    """The traced array that looks at the whole as a view looks at its owner."""
    shape, strides, dtype = [plain_attribute(view, name) for name in ("shape", "strides", "dtype")]
    item = owner.itemsize
    start, inside = divmod(view.__array_interface__["data"][0] - owner.__array_interface__["data"][0], item)
    parts = {0: function(np.real), item // 2: function(np.imag)} if dtype == owner.real.dtype else {}
    ways = {0: lambda same: same} if dtype == owner.dtype else parts
    if inside not in ways or any(step % item for step in strides):
        raise UnsupportedError(
            f"assignment: another view of this array reads its {owner.dtype} elements as {dtype}, and cannot "
            "follow a traced value",
            hint="make views of other types after the assignment: of complex numbers np.real and np.imag",
        )
    seen: Array = ways[inside](whole)
    if shape == owner.shape and strides == owner.strides and start == 0:
        return seen
    places = np.array(start)
    for n, step in zip(shape, strides, strict=True):
        places = places[..., None] + np.arange(n) * (step // item)

    def layout(parent: Any) -> Any:
        return np.lib.stride_tricks.as_strided(parent, shape, strides)

    return seen.view_through(View(*ways_to(places, not owner.flags.c_contiguous), layout))


def ways_to(places: np.ndarray[Any, Any], by_columns: bool) -> tuple[Any, Any]:
    """The ways of a view to read and to write the elements at these places of its parent's memory."""
    index = lift(places).value
    distinct = len(np.unique(places)) == places.size

    def line(v: Value) -> Value:
        turned = permute(v, axes=tuple(reversed(range(v.ndim)))) if by_columns else v
        return reshape(turned, shape=(math.prod(v.shape),))

    def get(v: Value) -> Value:
        made: Value = gather(line(v), index, axes=(0,))
        return made

    def put(v: Value, new: Value) -> Value:
        if not distinct:
            raise UnsupportedError(
                "assignment: elements of this view lie in the same memory, and one value would change several",
                hint="write into the array that it is a view of",
            )
        written = scatter(line(v), new, index, axes=(0,))
        if not by_columns:
            return reshape(written, shape=v.shape)
        return permute(reshape(written, shape=v.shape[::-1]), axes=tuple(reversed(range(v.ndim))))

    return get, put
