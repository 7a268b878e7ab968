"""Array: a traced value that NumPy accepts. A handle on an SSA value; a view is a parent handle and a way back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from wholestep import dtypes
from wholestep.boundary.answers import instead, unknown
from wholestep.boundary.foreign import NAMES
from wholestep.boundary.public import boundary
from wholestep.dims import Dim, sampled
from wholestep.errors import ConversionError, ReadOnlyError, UnsupportedError, ValueDependentError
from wholestep.frontend import operators
from wholestep.frontend.array_methods import METHODS, ArrayMethods, Method
from wholestep.frontend.conversions import COUNTED, KEEP, SIZES, advice, asking, chosen_instead
from wholestep.frontend.dispatch import (
    FUNCTIONS,
    HOOKS,
    function,
    late_types,
    traced_types,
    unsupported,
    with_documented_errors,
)
from wholestep.frontend.shown_values import ShownValue
from wholestep.ir.build import current, escaped, owned
from wholestep.ir.graph import Value


@dataclass(slots=True, eq=False)
class View:
    """The ways of a view to read its parent and to write back into it, and the same step on a plain NumPy array."""

    get: Callable[[Value], Value]
    put: Callable[[Value, Value], Value] | None
    layout: Callable[[Any], Any]
    index: tuple[Any, ...] | None = None
    """The slices and integers of `parent[index]`, where the view is one."""


@lru_cache(maxsize=4096)
def row_by_row(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A plain array in row-major order over the memory of one element; it is never written."""
    strides = [dtype.itemsize] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


class Array(ArrayMethods):
    """A traced array. NumPy's functions, operators and methods on it add to the program being traced.

    Assignment has NumPy's meaning: every view of the same memory sees it.
    """

    __slots__ = ("_parent", "_scalar", "_seen", "_strides", "_value", "_version", "_view", "_weak")
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, scalar: bool = False, weak: bool = False) -> None:
        self._value = value
        self._parent: Array | None = None
        self._view: View | None = None
        self._scalar = scalar
        # A Python number on its way through: it promotes as Python numbers do.
        self._weak = weak
        # Bytes from element to element along each axis, where that is not row by row.
        self._strides: tuple[int, ...] | None = None
        self._version = 0
        self._seen = 0

    # Properties

    @property
    def value(self) -> Value:
        """The SSA value that the handle stands for now."""
        if self._parent is not None:
            version = self._root()._version
            if version != self._seen:
                assert self._view is not None
                self._value = self._view.get(self._parent.value)
                self._seen = version
        return self._value

    def _root(self) -> Array:
        root = self
        while root._parent is not None:
            root = root._parent
        return root

    def view_through(self, view: View) -> Array:
        """A new handle that reads and writes this one through a view."""
        made = Array(view.get(self.value))
        made._parent, made._view = self, view
        made._seen = self._root()._version
        return made

    def layout(self) -> Any:
        """A plain array with this one's strides and no memory of its own, by which NumPy tells if views overlap."""
        if self._strides is not None:
            return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self._strides)
        if self._parent is None:
            return row_by_row(sampled(self.shape), self.dtype)
        assert self._view is not None
        return self._view.layout(self._parent.layout())

    def write(self, new: Value) -> None:
        """Replace the whole content; every handle on the same memory sees it."""
        if self._scalar:
            raise ReadOnlyError("assignment: NumPy scalars cannot be written", hint="keep a 0-d or 1-d array instead")
        at: Array = self
        while at._parent is not None:
            assert at._view is not None
            if at._view.put is None:
                raise ReadOnlyError("assignment: destination is read-only", hint="copy it first: x = x.copy()")
            new = at._view.put(at._parent.value, new)
            at = at._parent
        if at._value.builder is not current():
            raise UnsupportedError(
                "assignment: an array of the surrounding program cannot be written inside a mapped or looped function",
                hint="return the new value, or carry the array through the loop",
            )
        at._value = owned(new)
        at._version += 1

    # Refused conversions

    def _refuse(self, name: str) -> NoReturn:
        builder = self._value.builder
        if builder is not None and builder.closed:
            raise escaped(self._value)
        lost = "its derivative would be lost" if self.type.inexact else "the program would not follow it"
        hint = advice(name)
        if not self.type.inexact and name == "array conversion" and hint.startswith(KEEP):
            hint = f"where it is the index of a plain array, wholestep.numpy.array(table)[i]; else {hint}"
        raise ConversionError(f"{asking(name)}: a traced {self.type} cannot become a plain value; {lost}", hint=hint)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("array conversion")

    def __float__(self) -> float:
        self._refuse("float")

    def __complex__(self) -> complex:
        self._refuse("complex")

    def __round__(self, *digits: Any) -> Any:
        self._refuse("round")

    def item(self, *args: Any) -> Any:
        """Refused: a traced array has no plain element. Raises ConversionError."""
        self._refuse("item")

    def tolist(self) -> Any:
        """Refused: a traced array has no plain elements. Raises ConversionError."""
        self._refuse("tolist")

    def tobytes(self, *args: Any) -> Any:
        """Refused: a traced array has no bytes. Raises ConversionError."""
        self._refuse("tobytes")

    def __bytes__(self) -> bytes:
        self._refuse("bytes")

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse("pickle")

    def known(self, name: str) -> Any:
        """The data behind the array where the trace has it; raises ValueDependentError where it does not."""
        data = data_of(self.value)
        if data is None:
            raise ValueDependentError(
                f"{name}: the value of a traced {self.type} is not known while the program is being written",
                hint=chosen_instead() if name == "bool" else COUNTED.get(name, SIZES),
            )
        return data

    def __bool__(self) -> bool:
        return bool(np.broadcast_to(self.known("bool"), self.shape))

    def __int__(self) -> int:
        if not dtypes.is_integer(self.dtype) and not dtypes.is_bool(self.dtype):
            self._refuse("int")
        return int(np.broadcast_to(self.known("int"), self.shape))

    def __index__(self) -> int:
        if not dtypes.is_integer(self.dtype):
            raise ConversionError(f"only integer scalar arrays can be converted to a scalar index, not {self.type}")
        return operator.index(np.broadcast_to(self.known("index"), self.shape)[()])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        if isinstance(self.shape[0], Dim):
            raise ConversionError(
                f"len: the first size of {self.type} is symbolic, and len() gives plain numbers only",
                hint="use x.shape[0], which may be symbolic",
            )
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def held(self) -> Any:
        """The array's data where the trace knows them; None where it does not."""
        builder = self._value.builder
        if builder is not None and builder.closed and self._parent is not None:
            return None  # the value of a view is emitted when it is read, and a closed builder takes no more
        data = self.value.data
        return None if data is None else np.broadcast_to(data, self.shape)

    def __repr__(self) -> str:
        data = self.held()
        return f"Array({self.type})" if data is None else f"Array({self.type}, {data})"

    def __str__(self) -> str:
        data = self.held()
        return ShownValue(repr(self) if data is None else str(data[()]))

    def __format__(self, spec: str) -> str:
        data, builder = self.held(), self._value.builder
        if spec and data is None and builder is not None and builder.closed:
            raise escaped(self._value)
        return str(self) if data is None or self.shape else ShownValue(format(data[()], spec))

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in (*inputs, *kwargs.get("out", ())):
            if (not isinstance(x, KNOWN) and hasattr(x, "__array_ufunc__")) or type(x) in late_types:
                return NotImplemented
        return HOOKS.ufunc(ufunc, *inputs, method=method, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(t, KNOWN) and t not in late_types for t in types):
            return NotImplemented
        implementation = FUNCTIONS.get(func)
        if implementation is None:
            raise unsupported(f"{func.__module__}.{func.__name__}")
        return with_documented_errors(implementation, func, args, kwargs)

    # Operators

    __add__, __radd__, __iadd__ = operators.arithmetic(np.add)
    __sub__, __rsub__, __isub__ = operators.arithmetic(np.subtract)
    __mul__, __rmul__, __imul__ = operators.multiplication()
    __truediv__, __rtruediv__, __itruediv__ = operators.arithmetic(np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = operators.arithmetic(np.floor_divide)
    __mod__, __rmod__, __imod__ = operators.arithmetic(np.remainder)
    __matmul__, __rmatmul__, __imatmul__ = operators.arithmetic(np.matmul)
    __and__, __rand__, __iand__ = operators.arithmetic(np.bitwise_and)
    __or__, __ror__, __ior__ = operators.arithmetic(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = operators.arithmetic(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = operators.arithmetic(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = operators.arithmetic(np.right_shift)
    __divmod__, __rdivmod__ = operators.arithmetic(np.divmod)[:2]
    __rpow__, __ipow__ = operators.arithmetic(np.power)[1:]
    __eq__, __ne__ = operators.left(np.equal), operators.left(np.not_equal)
    __lt__, __le__ = operators.left(np.less), operators.left(np.less_equal)
    __gt__, __ge__ = operators.left(np.greater), operators.left(np.greater_equal)
    __neg__, __pos__ = operators.unary(np.negative), operators.unary(np.positive)
    __abs__, __invert__ = operators.unary(np.absolute), operators.unary(np.invert)

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and other == 2 and dtypes.is_inexact(self.dtype):
            return HOOKS.ufunc(np.multiply, self, self)
        if type(other) is int and other == 2 and self.dtype.kind == "b" and not self._scalar:
            return HOOKS.ufunc(np.square, self)  # int8, as NumPy has it
        return HOOKS.ufunc(np.power, self, other)

    def __getitem__(self, index: Any) -> Any:
        return HOOKS.getitem(self, index)

    def __setitem__(self, index: Any, new: Any) -> None:
        HOOKS.setitem(self, index, new)

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")

    def __copy__(self) -> Array:
        return function(np.copy)(self)

    def __deepcopy__(self, memo: Any) -> Array:
        return function(np.copy)(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'Array' object has no attribute {name!r}")
        outside = METHODS.get(name)
        if outside is not None:
            return Method(outside, self)
        if hasattr(np.ndarray, name):
            raise unsupported(f"numpy.ndarray.{name}", instead(NAMES["x"][name]) if name in NAMES["x"] else "")
        raise unknown("x", name, f"a traced {self.type}")


def data_of(value: Value) -> Any:
    """The data of a value where the trace has it: computed already, or a constant of the program; else None."""
    if value.data is not None or value.node is None or not value.node.op.literal:
        return value.data
    data = value.node.params["value"]
    builder = current()
    while builder is not None:
        builder.consulted.add(id(data))
        builder = builder.parent
    return data


OPERATORS = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
    for side in ("", "r", "i")
).union(
    f"__{name}__"
    for name in (
        "neg pos abs invert eq ne lt le gt ge getitem setitem getattr float complex bool int index len iter array "
        "round format"
    ).split()
)
INSIDE = ("view_through", "layout", "write", "known", "held")

KNOWN = (Array, np.ndarray, np.generic, int, float, complex, bool, list, tuple)
"""Operands that may stand beside a traced array; other array-likes get NotImplemented, so that they can wrap ours."""


for _name, _member in list(vars(Array).items()):
    # Users call operators and methods; the other functions are called by these alone.
    if isinstance(_member, FunctionType) and (_name in OPERATORS or not _name.startswith("_")) and _name not in INSIDE:
        setattr(Array, _name, boundary(_member))
traced_types.append(Array)
