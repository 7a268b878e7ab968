"""Type: shape and dtype of an array that does not exist yet."""

from __future__ import annotations

import functools
import math
import threading
import weakref
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import ShapeError

Size = int | Dim
Shape = tuple[Any, ...]
"""Sizes are ints, or `Dim` expressions under `eval_shape`."""


class Type:
    """Shape and dtype; equal types are one object, so `is` compares them."""

    __slots__ = ("__weakref__", "dtype", "inexact", "ndim", "shape")
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


_types: dict[tuple[Shape, np.dtype[Any]], weakref.ref[Type]] = {}
"""The types that are referenced anywhere."""
_lock = threading.RLock()


RECENT = 1024
"""The number of recent types that are kept referenced, so that calls do not create them again."""


@functools.lru_cache(RECENT)
def array_type(shape: Shape, dtype: np.dtype[Any]) -> Type:
    """The one Type of this shape and dtype, for as long as it is referenced; raises ShapeError for a negative size."""
    made = Type()
    made.shape = tuple(s if isinstance(s, Dim) else int(s) for s in shape)
    if any([s < 0 for s in made.shape if not isinstance(s, Dim)]):
        raise ShapeError(f"shape: a size of {made.shape} is negative")
    made.dtype = np.dtype(dtype)
    made.ndim = len(shape)
    made.inexact = dtypes.is_inexact(made.dtype)
    key = (made.shape, made.dtype)
    with _lock:
        known = _types.get(key)
        found = None if known is None else known()
        if found is None:
            found = made
            _types[key] = weakref.ref(made, lambda gone: _dropped(key, gone))
    return found


def _dropped(key: tuple[Shape, np.dtype[Any]], gone: weakref.ref[Type]) -> None:
    """Forget a type that is gone, unless one like it has come since."""
    with _lock:
        if _types.get(key) is gone:
            del _types[key]
