"""Methods of a traced array: each is the NumPy function of its name, for an array that has a value and a type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn, Self

import numpy as np

from wholestep import dtypes
from wholestep.boundary.public import boundary
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.dispatch import HOOKS, function, with_documented_errors
from wholestep.frontend.foreign_calls import ForeignCalls
from wholestep.ir.graph import Value
from wholestep.ir.types import Shape, Type


def _is_size(x: Any) -> bool:
    # Arrays of any shape have `__index__`.
    return type(x).__name__ == "Dim" or (hasattr(x, "__index__") and not np.iterable(x))


class ArrayMethods(ForeignCalls):
    """The part of a traced array that needs only its value: the facts of its type, and NumPy's methods."""

    __slots__ = ()
    _value: Value

    @property
    def type(self) -> Type:
        return self._value.type

    @property
    def shape(self) -> Shape:
        """The sizes of the axes, in elements. Assigning them raises UnsupportedError."""
        return self._value.type.shape

    @shape.setter
    def shape(self, new: Any) -> NoReturn:
        raise UnsupportedError(
            "x.shape = ...: a traced array keeps its shape",
            hint="x = x.reshape(shape) gives the same elements another shape",
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._value.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value.type.ndim

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self._value.type.size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes in all."""
        return self._value.type.nbytes

    def _implemented(self, outside: Any) -> Callable[..., Self]:
        """Our implementation of an outside function that gives an array."""
        return function(outside)

    @property
    def T(self) -> Self:
        """The axes in reverse order, as a view."""
        return self._implemented(np.transpose)(self)

    @property
    def mT(self) -> Self:
        """The last two axes exchanged, as a view. Raises ShapeError below two dimensions."""
        if self.ndim < 2:
            raise ShapeError(f"mT: a matrix has two axes or more, not {self.type}")
        return self._implemented(np.swapaxes)(self, -1, -2)

    @property
    def real(self) -> Self:
        """The real part, as a view of a complex array."""
        return self._implemented(np.real)(self)

    @real.setter
    def real(self, new: Any) -> None:
        function(np.real)(self)[...] = new

    @property
    def imag(self) -> Self:
        """The imaginary part, as a view of a complex array."""
        return self._implemented(np.imag)(self)

    @imag.setter
    def imag(self, new: Any) -> None:
        function(np.imag)(self)[...] = new

    @property
    def flat(self) -> Self:
        """The elements in row-major order, as a view: writes to it reach this array."""
        return self._implemented(np.ndarray.flat)(self)

    @flat.setter
    def flat(self, new: Any) -> None:
        function(np.ndarray.flat)(self)[...] = new

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """The same elements in another shape; -1 once for the size that the others imply. See numpy.reshape."""
        wanted = shape[0] if len(shape) == 1 and not _is_size(shape[0]) else shape
        return self._implemented(np.reshape)(self, wanted, order=order, copy=copy)

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order, reversed by default, as a view."""
        order = axes[0] if len(axes) == 1 and not _is_size(axes[0]) else (axes or None)
        return self._implemented(np.transpose)(self, order)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Self:
        """The elements cast to another dtype."""
        made: Self = HOOKS.astype(self, dtype, casting, copy)
        return made

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        written: Any = self
        written[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place along an axis."""
        self.fill(function(np.sort)(self, axis=axis))

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition in place along an axis."""
        self.fill(function(np.partition)(self, kth, axis=axis))

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write into the flattened array; see numpy.put."""
        function(np.put)(self, indices, values, mode)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """The slices along an axis where the condition holds; see numpy.compress."""
        return function(np.compress)(condition, self, axis, out)

    def flatten(self, order: str = "C") -> Self:
        """A flat copy."""
        return self._implemented(np.ravel)(self, order=order).copy()

    def view(self, dtype: Any = None, type: Any = None) -> Self:
        """A view of the same memory. Raises UnsupportedError for another dtype, which would reinterpret the bits."""
        same = dtype in (None, np.ndarray) or (not _is_size(dtype) and np.dtype(dtype) == self.dtype)
        if type not in (None, np.ndarray) or not same:
            raise UnsupportedError(
                f"numpy.ndarray.view: a traced {self.type} has no bits to read as {dtype if type is None else type}",
                hint="x.astype(dtype) converts the numbers; x.reshape(n, -1) gives another shape",
            )
        return self._implemented(np.transpose)(self, tuple(range(self.ndim)))

    def copy(self, order: str = "C") -> Self:
        """A copy that shares nothing, row by row."""
        return self._implemented(np.copy)(self, order=order)

    def conj(self) -> Self:
        """The complex conjugate; a real array is its own."""
        if not dtypes.is_complex(self.dtype):
            return self
        made: Self = HOOKS.ufunc(np.conjugate, self)
        return made

    conjugate = conj


@dataclass(slots=True, eq=False)
class Method:
    """A method that is the NumPy function of its name, its first argument given."""

    outside: Any
    array: ArrayMethods

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return with_documented_errors(function(self.outside), self.outside, (self.array, *args), kwargs)


METHODS: dict[str, Any] = {
    name: getattr(np, name)
    for name in (
        "all any argmax argmin argpartition argsort clip cumprod cumsum diagonal dot max mean min"
        " nonzero prod ravel repeat round searchsorted squeeze std sum swapaxes take trace var choose"
    ).split()
}
"""ndarray methods that take the array and then the arguments of the function of the same name."""


for _name, _member in list(vars(ArrayMethods).items()):
    if isinstance(_member, FunctionType) and not _name.startswith("_"):
        setattr(ArrayMethods, _name, boundary(_member))
