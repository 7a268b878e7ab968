"""Promotion of operands to values of one dtype and shape: constants, weak scalars, NEP 50, broadcasting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Number
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.contents import same_bits
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.conversions import DENSE
from wholestep.frontend.dispatch import HOOKS, is_traced, late_types
from wholestep.frontend.frozen import Frozen
from wholestep.ir.build import GraphBuilder, current
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.arithmetic import real
from wholestep.primitives.creation import cast, constant, full
from wholestep.primitives.movement import broadcast, reshape
from wholestep.words import type_in_words

WEAK = (int, float, complex)
"""Python scalars: their kind promotes, their precision does not (NEP 50)."""


def promotes_weakly(x: Any) -> bool:
    """Test whether a number promotes by its kind alone; an integer beyond int64 is one of uint64, as in NumPy."""
    return type(x) in WEAK and not (type(x) is int and x >= 2**63)


def wrap(value: Value) -> Array:
    """A value as an array; a value without axes is a NumPy scalar."""
    return Array(value, value.type.ndim == 0)


checked = dtypes.check
"""The supported dtype that a description has; raises DtypeError otherwise."""


def refuse_subclass(x: Any) -> None:
    """Raise DtypeError for masked arrays, matrices and their kin: their operations mean something else."""
    if type(x) is not np.ndarray and isinstance(x, np.ndarray) and not isinstance(x, np.memmap | Frozen):
        raise DtypeError(
            f"array: {type_in_words(x)} is not supported, since its operations mean something else",
            hint="convert it with np.asarray, or np.ma.filled for a masked array",
        )


def constant_of(x: Any) -> Value:
    """A plain array as a constant of the program; it is copied, so that a later change cannot reach the trace."""
    refuse_subclass(x)
    array = np.asarray(x)
    builder = current()
    if builder is None or array.ndim == 0:
        return full_of(array[()], (), checked(array.dtype)) if array.ndim == 0 else _new_constant(array)
    if HOOKS.is_fresh(array):
        return _new_constant(array)
    known = builder.constants.get(id(x))
    if known is not None and known[0] is x and same_bits(known[1], array):
        value: Value = known[2]
        return value
    value = _new_constant(array)
    kept = value.node.params["value"] if value.node else array
    builder.constants[id(x)] = (x, kept, value)
    outer: GraphBuilder | None = builder
    while outer is not None:
        outer.held[id(x)] = (x, kept, value.node.where if value.node else None)
        outer = outer.parent
    return value


def _new_constant(array: Any) -> Value:
    kept = np.array(array, checked(array.dtype), order="C", copy=True)
    kept.flags.writeable = False
    made: Value = constant(value=kept)
    return made


def full_of(number: Any, shape: Any, dtype: np.dtype[Any]) -> Value:
    """One number everywhere, of booleans a truth value; integers that do not fit raise OverflowError, as in NumPy."""
    plain = number.item() if isinstance(number, np.generic) and number.dtype.kind in "biuf" else number
    if isinstance(plain, int) and dtype.kind in "iu":
        np.asarray(plain, dtype)
    if dtype.kind == "b":
        plain = bool(plain)
    made: Value = full(value=plain, shape=shape, dtype=dtype)
    return made


def is_foreign_array(x: Any) -> bool:
    """Test whether a value is an array of another library that computes with its own alone, such as a tensor."""
    kind = type(x)
    return hasattr(kind, "__dlpack__") and hasattr(kind, "__array__") and not hasattr(kind, "__array_ufunc__")


def as_numpy(x: Any) -> NDArray:
    """An array of another library as one of NumPy; raises DtypeError where that has no values, or lies elsewhere."""
    try:
        return np.asarray(x)
    except (RuntimeError, TypeError) as error:
        raise DtypeError(f"array: {type(x).__name__} is not read as an array: {error}") from None


def lift(x: Any) -> Array:
    """Anything array-like as a traced array: traced ones as they are, plain ones as constants."""
    if isinstance(x, Array):
        return x
    if type(x) in late_types:
        return lift(x.__live__())
    if type(x) is Dim:
        return Array(full_of(x, (), np.dtype(np.int64)), True, True)
    if is_traced(x) and not isinstance(x, Mapping):
        return HOOKS.assemble(x)
    if not isinstance(x, np.ndarray | np.generic | bool | int | float | complex | list | tuple):
        array = getattr(x, "__array__", None)
        if array is None:
            raise DtypeError(f"array: {type(x).__name__} is not an array", hint=way_to_array(x))
    array = as_numpy(x) if is_foreign_array(x) else np.asarray(x)
    if array.dtype.kind == "V" and array.dtype.name != "bfloat16":
        raise DtypeError(f"array: dtype {array.dtype} is not supported", hint=dtypes.way_out(array.dtype))
    return Array(
        constant_of(x if isinstance(x, np.ndarray) else array), not isinstance(x, np.ndarray) and array.ndim == 0
    )


def way_to_array(x: Any) -> str | None:
    """The hint for a value that is no array."""
    if hasattr(x, "toarray"):
        return DENSE
    if isinstance(x, Mapping):
        return "np.stack(list(x.values()), axis=-1) is one; a data frame in a program is a dictionary of its columns"
    return "float(x) is a number that programs compute with" if isinstance(x, Number) else None


def inexact_array(x: Any) -> Array:
    """Anything array-like as a traced array, integers and booleans as float64."""
    a = lift(x)
    return a if dtypes.is_inexact(a.dtype) else a.astype(np.float64)


def value_of(x: Any, dtype: Any = None) -> Value:
    """Anything array-like as a value, in a dtype where one is given: Python integers fit it or raise OverflowError."""
    if dtype is not None and dtype.kind in "iu" and type(x) in (int, list, tuple) and not is_traced(x):
        return lift(np.asarray(x, dtype)).value
    v = lift(x).value
    return v if dtype is None else cast_to(v, dtype)


def cast_to(v: Value, dtype: np.dtype[Any]) -> Value:
    """A value in another dtype; a complex one loses its imaginary part as `astype` would have it."""
    if v.type.dtype == dtype:
        return v
    if v.type.dtype.kind == "c" and dtype.kind not in "cb":
        v = real(v)
        if v.type.dtype == dtype:
            return v
    made: Value = cast(v, dtype=dtype)
    return made


def broadcast_shapes(name: str, shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The common shape; raises ShapeError that names the operation."""
    first = shapes[0]
    for shape in shapes:
        if shape != first:
            return common_shape(name, tuple(shapes))
    return first


@lru_cache(maxsize=4096)
def common_shape(name: str, shapes: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    """The shape that several broadcast to, as `broadcast_shapes` has it."""
    ndim = max(len(s) for s in shapes)
    out: list[Any] = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if _is_one(n):
                continue
            if _is_one(out[i]):
                out[i] = n
            elif out[i] != n:
                text = " and ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(
                    f"{name}: shapes do not broadcast: {text}",
                    hint="sizes must agree from the last axis backwards, or be 1; insert axes with x[:, None]",
                )
    return tuple(out)


def _is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1 and not isinstance(n, Dim)


def broadcast_to(v: Value, shape: tuple[Any, ...]) -> Value:
    """A value repeated to a shape it broadcasts to: size-1 axes are dropped, then new ones are made."""
    own = v.type.shape
    if own == shape:
        return v
    axes, left = kept_axes(own, shape)
    if left is not None:
        v = reshape(v, shape=left)
    made: Value = broadcast(v, shape=shape, axes=axes)
    return made


@lru_cache(maxsize=4096)
def kept_axes(own: tuple[Any, ...], shape: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...] | None]:
    """The axes of `shape` along which `own` is not broadcast, and their sizes, None where `own` has no other axes."""
    lead = len(shape) - len(own)
    axes = tuple([lead + i for i, n in enumerate(own) if not _is_one(n) or _is_one(shape[lead + i])])
    return axes, None if len(axes) == len(own) else tuple([shape[a] for a in axes])


def assignable(v: Value, ndim: int) -> Value:
    """A value without the leading axes of size 1 that it has beyond so many: NumPy drops them where it assigns."""
    while v.ndim > ndim and _is_one(v.type.shape[0]):
        v = reshape(v, shape=v.type.shape[1:])
    return v


def promoting_kind(a: Array) -> Any:
    """The dtype of a traced array, or a Python number, as weak as the one that it stands for."""
    return a.dtype.type(0).item() if a._weak else a.dtype


def promoted(*xs: Any) -> list[Value]:
    """Values of one dtype by NumPy's rules, shapes as they are; Python scalars are weak."""
    arrays = [x if type(x) in WEAK else lift(x) for x in xs]
    kinds = [promoting_kind(a) if isinstance(a, Array) else a for a in arrays]
    dtype = checked(dtypes.promoted_dtype(*kinds))
    return [cast_to(a.value, dtype) if isinstance(a, Array) else full_of(a, (), dtype) for a in arrays]
