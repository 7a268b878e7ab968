"""Arrays that a rewritten function has made: NumPy's own until a traced value is stored, which all their views see."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, NoReturn

import numpy as np

from wholestep import dtypes
from wholestep.errors import ConversionError, UnsupportedError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import HOOKS, is_traced, late_types
from wholestep.frontend.promotion import full_of, lift
from wholestep.frontend.source.rewriting import dropping
from wholestep.ir.build import GraphBuilder, current
from wholestep.ir.graph import Value
from wholestep.primitives.indexing import gather, scatter
from wholestep.primitives.movement import permute, reshape

plain_attribute = np.ndarray.__getattribute__
ATTRIBUTES = frozenset("shape dtype ndim size itemsize nbytes strides flags base data ctypes device".split())
"""Attributes of an untraced array that no array is made for."""
WRITES = frozenset(("fill", "put", "sort", "partition", "itemset"))
"""Methods that write the array itself."""


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
FEW_VIEWS = 32
MOST_LEVELS = 64
"""The axes that an array of NumPy's may have."""

_owners: dict[int, weakref.ref[np.ndarray[Any, Any]]] = {}
"""The ids of arrays that fresh ones look at."""


def is_fresh(plain: np.ndarray[Any, Any]) -> bool:
    """Test whether an array looks at memory that a traced function has made, and which it may write."""
    root = memory_owner(plain)
    found = None if root is None else _owners.get(id(root))
    return found is not None and found() is root


class FreshMemory:
    """The memory of an array that a rewritten function has made, and the arrays that look at it."""

    __slots__ = ("builder", "most", "owner", "views", "whole")

    def __init__(self, owner: np.ndarray[Any, Any], builder: GraphBuilder) -> None:
        self.owner = owner
        key = id(owner)
        _owners[key] = weakref.ref(owner, dropping(_owners, key))
        self.builder: GraphBuilder | None = builder
        self.views: list[weakref.ref[FreshArray]] = []
        self.most = FEW_VIEWS
        """The number of references to views at which dead ones are dropped."""
        self.whole: Array | None = None
        """The traced array of all of it, once a traced value has been stored."""

    def array(self, plain: Any) -> FreshArray:
        """An array that looks at this memory as a plain one does."""
        new: FreshArray = plain.view(FreshArray)
        vars(new)["memory"] = self
        if len(self.views) >= self.most:
            self.views = [ref for ref in self.views if ref() is not None]
            self.most = 2 * len(self.views) + FEW_VIEWS
        self.views.append(weakref.ref(new))
        return new

    def trace(self) -> None:
        """Turn the memory into a traced array; the plain memory is overwritten with NaN, its views with refusals."""
        if self.builder is not current():
            raise UnsupportedError(
                "assignment: an array made outside of the traced function cannot hold traced values",
                hint="make it in the function that writes it, or carry it through the loop",
            )
        owner = self.owner
        self.whole = whole = Array(constant_value(owner))
        looking = [view for ref in self.views if (view := ref()) is not None]
        seen = [overlay(whole, owner, view) for view in looking]
        for view, array in zip(looking, seen, strict=True):
            shape = view.shape
            vars(view)["traced"] = array
            # Code that reads the memory directly gets objects that refuse, and never stale numbers.
            state: Any = (1, shape, np.dtype(object), False, [INSIDE] * array.size)
            np.ndarray.__setstate__(view, state)
        if dtypes.is_inexact(owner.dtype) and owner.flags.writeable:
            owner.fill(np.nan)


def constant_value(plain: np.ndarray[Any, Any]) -> Value:
    """The present contents of an array as a value of the program: one number, or a constant of its own."""
    flat = plain.reshape(-1)
    one = flat[:1]
    if plain.size and dtypes.is_supported(plain.dtype) and flat.tobytes() == one.tobytes() * plain.size:
        return full_of(one[0], plain.shape, dtypes.check(plain.dtype))
    return lift(plain.copy()).value


def overlay(whole: Array, owner: np.ndarray[Any, Any], view: np.ndarray[Any, Any]) -> Array:
    """The traced array that looks at the whole as a view looks at its owner."""
    shape, strides = plain_attribute(view, "shape"), plain_attribute(view, "strides")
    place = view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    if shape == owner.shape and strides == owner.strides and place == 0:
        return whole
    item = owner.itemsize
    if plain_attribute(view, "itemsize") != item or any(s % item for s in strides) or place % item:
        raise UnsupportedError(
            "assignment: another view of this array reads parts of its elements, and cannot follow a traced value",
            hint="use np.real and np.imag of the array after the assignment",
        )
    by_columns = not owner.flags.c_contiguous
    numbers = np.arange(owner.size)
    steps = tuple([s // item * numbers.itemsize for s in strides])
    places = np.lib.stride_tricks.as_strided(numbers[place // item :], shape, steps) if view.size else numbers[:0]
    index = lift(np.ascontiguousarray(places.reshape(shape))).value

    def line(v: Value) -> Value:
        turned = permute(v, axes=tuple(reversed(range(v.ndim)))) if by_columns else v
        return reshape(turned, shape=(owner.size,))

    def put(v: Value, new: Value) -> Value:
        written = scatter(line(v), new, index, axes=(0,))
        if not by_columns:
            return reshape(written, shape=v.shape)
        return permute(reshape(written, shape=v.shape[::-1]), axes=tuple(reversed(range(v.ndim))))

    def layout(parent: Any) -> Any:
        return np.lib.stride_tricks.as_strided(parent, shape, strides)

    return whole.view_through(View(lambda v: gather(line(v), index, axes=(0,)), put, layout))


class FreshArray(np.ndarray[Any, Any]):
    """An array made by a rewritten function, a numpy.ndarray until a traced value is stored in its memory.

    Results computed from it before that are plain NumPy values; after it, traced ones.
    """

    memory: FreshMemory | None = None
    traced: Array | None = None

    def __live__(self) -> Any:
        """The array that this one stands for now: traced, or a plain view of the same memory."""
        held = plain_attribute(self, "__dict__")
        found = held.get("traced")
        return np.ndarray.view(self, np.ndarray) if found is None else found

    def __written__(self) -> Any:
        """The traced array that takes a traced value."""
        held = plain_attribute(self, "__dict__")
        if held.get("traced") is None:
            memory: FreshMemory | None = held.get("memory")
            if memory is None or not plain_attribute(self, "flags").writeable:
                raise ValueError("assignment destination is read-only")
            memory.trace()
        return held["traced"]

    def __getattribute__(self, name: str) -> Any:
        if name[:2] == "__":
            return plain_attribute(self, name)
        found = plain_attribute(self, "__dict__").get("traced")
        if found is not None:
            return getattr(found, name)
        if name in ATTRIBUTES:
            return plain_attribute(self, name)
        if name == "flat":
            return FreshFlat(self)
        got = getattr(np.ndarray.view(self, np.ndarray), name)
        if isinstance(got, np.ndarray):
            return as_fresh(got, self)
        return FreshMethod(self, name) if callable(got) else got

    def __setattr__(self, name: str, value: Any) -> None:
        if is_traced(value) or is_traced(self):
            now = self.__written__()
            setattr(now, name, live(value))
        elif name in ATTRIBUTES:
            np.ndarray.__setattr__(self, name, value)
        else:
            setattr(np.ndarray.view(self, np.ndarray), name, live(value))

    def __getitem__(self, index: Any) -> Any:
        now, at = self.__live__(), live(index)
        if is_traced(at) and not isinstance(now, Array):
            now = lift(now)
        got = now[at]
        return as_fresh(got, self) if isinstance(got, np.ndarray) else got

    def __setitem__(self, index: Any, value: Any) -> None:
        new, at = live(value), live(index)
        if is_traced(new) or is_traced(at):
            now = self.__written__()
            now[live(index)] = live(value)  # `value` may share the memory, and be traced now
        else:
            self.__live__()[at] = new

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return HOOKS.answer(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return HOOKS.answer(func, args, kwargs)

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.__live__())

    def __int__(self) -> int:
        return int(self.__live__())

    def __float__(self) -> float:
        return float(self.__live__())

    def __complex__(self) -> complex:
        return complex(self.__live__())

    def __index__(self) -> int:
        return self.__live__().__index__()

    def __contains__(self, item: Any) -> bool:
        return live(item) in self.__live__()

    def __repr__(self) -> str:
        return repr(self.__live__())

    def __str__(self) -> str:
        return str(self.__live__())

    def __format__(self, spec: str) -> str:
        return format(self.__live__(), spec)

    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer of a plain view, for readers in C: NumPy drops the format of this array's own buffer when the
        elements become objects. Python calls this method from 3.12 on."""
        if plain_attribute(self, "__dict__").get("traced") is not None:
            INSIDE.__float__()
        plain: Any = np.ndarray.view(self, np.ndarray)
        found: memoryview = plain.__buffer__(flags)
        return found

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        return np.asarray(live(self)).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(live(self)).__reduce_ex__(protocol)


class FreshFlat:
    """The `flat` of a fresh array: its elements in row-major order, each as it is when it is read."""

    __slots__ = ("array", "place")

    def __init__(self, array: FreshArray) -> None:
        self.array = array
        self.place = 0

    def __live__(self) -> Any:
        """The `flat` of the array that the fresh one stands for now."""
        return self.array.__live__().flat

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__live__(), name)

    def __len__(self) -> int:
        return self.array.size

    def __getitem__(self, index: Any) -> Any:
        got = self.__live__()[live(index)]
        return as_fresh(got) if isinstance(got, np.ndarray) else got

    def __setitem__(self, index: Any, value: Any) -> None:
        flat = self.array.__written__().flat if is_traced((live(index), live(value))) else self.__live__()
        flat[live(index)] = live(value)

    def __iter__(self) -> FreshFlat:
        return self

    def __next__(self) -> Any:
        if self.place >= len(self):
            raise StopIteration
        self.place += 1
        return self[self.place - 1]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.__live__(), dtype, copy=copy)


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(FreshFlat, _name, lambda self, other, name=_name: getattr(self.__live__(), name)(live(other)))


class FreshMethod:
    """A method of an untraced fresh array."""

    __slots__ = ("array", "name")

    def __init__(self, array: FreshArray, name: str) -> None:
        self.array, self.name = array, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        array, name = self.array, self.name
        given, named = live(args), live(kwargs)
        if is_traced(given) or is_traced(named):
            now = array.__written__() if name in WRITES else lift(array.__live__())
            return getattr(now, name)(*live(args), **live(kwargs))
        got = getattr(np.ndarray.view(array, np.ndarray), name)(*given, **named)
        return as_fresh(got, array) if isinstance(got, np.ndarray) else got


def live(x: Any, levels: int = MOST_LEVELS) -> Any:
    """The arrays that fresh ones stand for, in lists, tuples and dictionaries too, as deep as arrays have axes."""
    kind = type(x)
    if kind is FreshArray or kind is FreshFlat:
        return x.__live__()
    if not levels:
        return x
    if kind is list or kind is tuple:
        found = [live(item, levels - 1) if type(item) in LOOKED_INTO else item for item in x]
        return x if all(map(_same, found, x)) else kind(found)
    if kind is dict:
        named = {key: live(item, levels - 1) for key, item in x.items()}
        return x if all(named[key] is x[key] for key in named) else named
    if kind is deque:
        kept = live(list(x), levels)
        return deque(kept, x.maxlen) if any(a is not b for a, b in zip(kept, x, strict=True)) else x
    if kind is slice and FreshArray in (type(x.start), type(x.stop), type(x.step)):
        return slice(live(x.start), live(x.stop), live(x.step))
    return x


LOOKED_INTO = frozenset((FreshArray, FreshFlat, list, tuple, deque, dict, slice))


def _same(a: Any, b: Any) -> bool:
    return a is b


def memory_owner(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The array that owns the memory of another; None where something else does."""
    while x.base is not None:
        if not isinstance(x.base, np.ndarray):
            return None
        x = x.base
    return x


def as_fresh(got: np.ndarray[Any, Any], *sources: Any) -> Any:
    """A result that may be a view of one of these arrays: a fresh array of its memory, or of memory of its own."""
    builder = current()
    root = memory_owner(got)
    if builder is None or type(got) is not np.ndarray or root is None:
        return got
    if root.dtype.kind not in "biufcV" or root.dtype.names:
        return got
    for source in sources:
        if type(source) is FreshArray:
            memory: FreshMemory | None = vars(source).get("memory")
            if memory is not None and memory.owner is root:
                return got if memory.whole is not None else memory.array(got)
        elif isinstance(source, np.ndarray) and memory_owner(source) is root:
            return got
    return FreshMemory(root, builder).array(got)


late_types.append(FreshArray)
HOOKS.is_fresh = is_fresh
