"""Type: shape and dtype of an array that does not exist yet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim

Size = int | Dim
Shape = tuple[Any, ...]
"""Sizes are ints, or `Dim` expressions under `eval_shape`."""


class Type:
    """Shape and dtype; equal types are one object, so `is` compares them."""

    __slots__ = ("dtype", "inexact", "ndim", "shape")
    shape: Shape
    dtype: np.dtype[Any]
    inexact: bool
    ndim: int

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> Any:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        name = dtypes.short(self.dtype)
        return f"{name}[{', '.join(map(str, self.shape))}]" if self.shape else name

    def __reduce__(self) -> tuple[Any, ...]:
        return array_type, (self.shape, self.dtype)


_types: dict[tuple[Shape, np.dtype[Any]], Type] = {}


def array_type(shape: Shape, dtype: np.dtype[Any]) -> Type:
    """The one Type of this shape and dtype."""
    found = _types.get((shape, dtype))
    if found is None:
        found = Type()
        found.shape = tuple(s if isinstance(s, Dim) else int(s) for s in shape)
        found.dtype = np.dtype(dtype)
        found.ndim = len(shape)
        found.inexact = dtypes.is_inexact(found.dtype)
        found = _types.setdefault((found.shape, found.dtype), found)
    return found
