"""ShapeDtype: an array that need not exist, by its shape and dtype."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, substitute
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.promotion import checked
from wholestep.ir.types import Type, array_type
from wholestep.words import type_in_words


def size_of_axis(n: Any) -> int:
    """A size that is a number; raises ShapeError for anything else."""
    try:
        return operator.index(n)
    except TypeError:
        symbolic = f"; ws.Dim({n!r}) is a symbolic size" if isinstance(n, str) else ""
        raise ShapeError(
            f"ShapeDtype: {n!r} is {type_in_words(n)}, and no size of an axis", hint=f"sizes are integers{symbolic}"
        ) from None


def dtype_named(name: str) -> dtypes.DType:
    """The dtype of a name of NumPy's or of a short one, as programs print them; refuses one with two meanings."""
    if name in ("i8", "u8"):  # NumPy counts bytes, and programs bits
        numpys, short = np.dtype(name).name, dtypes.from_short(name).name
        raise DtypeError(
            f'ShapeDtype: "{name}" is {numpys} in NumPy and {short} in the text of a program',
            hint=f'write "{numpys}" or "{short}"',
        )
    return checked(dtypes.from_short(name) if name in dtypes.SUPPORTED else name)


class ShapeDtype:
    """The shape and dtype of an array that need not exist; sizes may be symbolic (`ws.Dim("B")`).

    Shapes: `shape` a size or a sequence of sizes, `dtype` any supported one; no memory is taken.
    Raises: ShapeError for a negative size and for a value that is no size, DtypeError for an unsupported dtype.

    >>> import wholestep as ws
    >>> ws.ShapeDtype((ws.Dim("B"), 3), "float32")
    f32[B, 3]
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Any, dtype: Any = np.float64) -> None:
        sizes = shape if np.iterable(shape) else (shape,)
        self.shape: tuple[int | Dim, ...] = tuple([n if isinstance(n, Dim) else size_of_axis(n) for n in sizes])
        if any([not isinstance(n, Dim) and n < 0 for n in self.shape]):
            raise ShapeError(f"ShapeDtype: shape {self.shape} has a negative size")
        self.dtype = dtype_named(dtype) if isinstance(dtype, str) else checked(dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def at(self, **sizes: int) -> ShapeDtype:
        """Substitute numbers for symbolic sizes; other names stay.

        Raises ValueError for a size below 1.

        >>> import wholestep as ws
        >>> ws.ShapeDtype((ws.Dim("B"), 3), "float32").at(B=8)
        f32[8, 3]
        """
        return ShapeDtype(tuple([substitute(n, sizes) for n in self.shape]), self.dtype)

    @property
    def type(self) -> Type:
        return array_type(self.shape, self.dtype)

    def __eq__(self, other: Any) -> bool:
        return (
            hasattr(other, "shape")
            and hasattr(other, "dtype")
            and (self.shape, self.dtype) == (other.shape, other.dtype)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return repr(self.type)
