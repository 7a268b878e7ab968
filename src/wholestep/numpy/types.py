"""The dtypes as callables that also cast traced arrays, and `ndarray`, which covers plain and traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import is_traced
from wholestep.frontend.promotion import cast_to, checked, lift


class ScalarType(type):
    """NumPy's scalar type, called on a traced value a cast; it is equal to NumPy's own and is taken for a dtype."""

    outside: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if is_traced(args):
            x = lift(args[0])
            return Array(cast_to(x.value, checked(cls.outside)), x._scalar or x.ndim == 0)
        return cls.outside(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.outside)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(getattr(subclass, "outside", subclass), cls.outside)

    def __eq__(cls, other: Any) -> bool:
        return getattr(other, "outside", other) is cls.outside

    def __hash__(cls) -> int:
        return hash(cls.outside)

    def __repr__(cls) -> str:
        return f"<class 'wholestep.numpy.{cls.__name__}'>"

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.outside, name)


def _scalar_type(outside: Any) -> Any:
    members = {"outside": outside, "dtype": np.dtype(outside), "__doc__": outside.__doc__, "__slots__": ()}
    return ScalarType(outside.__name__, (), members)


bool_ = _scalar_type(np.bool_)
int8, int16, int32, int64 = [_scalar_type(t) for t in (np.int8, np.int16, np.int32, np.int64)]
uint8, uint16, uint32, uint64 = [_scalar_type(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64)]
float16, float32, float64 = [_scalar_type(t) for t in (np.float16, np.float32, np.float64)]
complex64, complex128 = [_scalar_type(t) for t in (np.complex64, np.complex128)]


class NDArray(type(np.ndarray)):  # type: ignore[misc]
    """The metaclass that makes `isinstance(x, ndarray)` true for traced arrays too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, np.ndarray | Array)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, np.ndarray | Array)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return np.ndarray(*args, **kwargs)


class ndarray(np.ndarray, metaclass=NDArray):
    """numpy.ndarray; traced arrays are instances of it."""
