"""Arrays that a rewritten function has made: NumPy's own until a traced value is stored, which all their views see."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import HOOKS, is_traced, late_types
from wholestep.frontend.promotion import lift
from wholestep.frontend.source.overlays import INSIDE, constant_value, overlay, plain_attribute
from wholestep.frontend.source.rewriting import dropping
from wholestep.ir.build import GraphBuilder, current

ATTRIBUTES = frozenset("shape dtype ndim size itemsize nbytes strides flags base device".split())
"""Attributes of an untraced array that no array is made for."""
WRITES = frozenset(("fill", "put", "sort", "partition", "itemset"))
"""Methods that write the array itself."""
FEW_VIEWS = 32
MOST_LEVELS = 64
"""The axes that an array of NumPy's may have."""

_owners: dict[int, tuple[weakref.ref[np.ndarray[Any, Any]], weakref.ref[FreshMemory]]] = {}
"""The ids of arrays that fresh ones look at -> the arrays, and what is known of their memory."""


def is_fresh(plain: np.ndarray[Any, Any]) -> bool:
    """Test whether an array looks at memory that a traced function has made, and which it may write."""
    root = memory_owner(plain)
    return root is not None and known_memory(root) is not None


def known_memory(owner: np.ndarray[Any, Any]) -> weakref.ref[FreshMemory] | None:
    """The memory of an array that owns it, if fresh arrays look at it."""
    found = _owners.get(id(owner))
    return None if found is None or found[0]() is not owner else found[1]


def memory_of(plain: np.ndarray[Any, Any], root: np.ndarray[Any, Any] | None) -> FreshMemory | None:
    """The fresh memory that an array looks at, if any: by its owner, or by its place where the owner is no array."""
    if root is not None:
        known = known_memory(root)
        return None if known is None else known()
    place = plain.__array_interface__["data"][0]
    memories = [memory for _, ref in list(_owners.values()) if (memory := ref()) is not None]
    return next((memory for memory in memories if memory.holds(place)), None)


class FreshMemory:
    """The memory of an array that a rewritten function has made, and the arrays that look at it."""

    __slots__ = ("__weakref__", "builder", "most", "owner", "readers", "views", "whole")

    def __init__(self, owner: np.ndarray[Any, Any], builder: GraphBuilder) -> None:
        self.owner = owner
        key = id(owner)
        _owners[key] = (weakref.ref(owner, dropping(_owners, key)), weakref.ref(self))
        self.builder: GraphBuilder | None = builder
        self.views: list[weakref.ref[FreshArray]] = []
        self.most = FEW_VIEWS
        """The number of references to views at which dead ones are dropped."""
        self.whole: Array | None = None
        """The traced array of all of it, once a traced value has been stored."""
        self.readers: list[weakref.ref[np.ndarray[Any, Any]]] = []
        """The arrays by which other objects read the memory, and cannot follow a traced value."""

    def holds(self, place: int) -> bool:
        """Test whether an address lies in this memory."""
        return 0 <= place - self.owner.__array_interface__["data"][0] < self.owner.nbytes

    def array(self, plain: Any) -> Any:
        """An array that looks at this memory as a plain one does."""
        if self.whole is not None:
            return overlay(self.whole, self.owner, plain)
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
        reading = next((reader for ref in self.readers if (reader := ref()) is not None), None)
        if reading is not None:
            kind = type(reading)
            plain = "another object (a memoryview, a ctypes pointer, an iterator or a tensor)"
            by = plain if kind is np.ndarray else f"a view of type {kind.__name__}"
            raise UnsupportedError(
                f"assignment: {by} reads the memory of this array, and cannot follow a traced value",
                hint="make that object of a copy, y.copy(), or use the array itself",
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
        if name == "data":
            return self.__buffer__(0)
        if name == "ctypes":
            return read_view(self).ctypes
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
        """The buffer of a plain view, which a later store finds in use. Python calls this method from 3.12 on."""
        held = plain_attribute(self, "__dict__")
        if held.get("traced") is not None:
            INSIDE.__float__()
        return memoryview(read_view(self))

    # NumPy's own calls matmul with axes=, which is not covered. Its stubs have overloads for each dtype.
    def __imatmul__(self, other: Any) -> Any:  # type: ignore[misc]
        return np.matmul(self, other, out=self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __reduce__(self) -> Any:
        return np.asarray(live(self)).__reduce__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(live(self)).__reduce_ex__(protocol)


class LentMemory:
    """The base of a plain view, which views of that view keep alive: NumPy passes over bases that are arrays."""

    __slots__ = ("__array_interface__", "plain")

    def __init__(self, plain: np.ndarray[Any, Any]) -> None:
        self.plain = plain
        self.__array_interface__ = plain.__array_interface__


def read_view(x: FreshArray) -> Any:
    """A view for an object that may keep it and read its memory, which a later store finds; or the traced array."""
    now = x.__live__()
    if not isinstance(now, np.ndarray):
        return now
    plain = np.asarray(LentMemory(now))
    add_reader(plain)
    return plain


def add_reader(plain: np.ndarray[Any, Any]) -> None:
    """Let a later store find that a plain view of fresh memory is in use, as long as it is."""
    memory = memory_of(plain, memory_owner(plain))
    if memory is not None:
        memory.readers.append(weakref.ref(plain))


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
        now, given, named = array.__live__(), live(args), live(kwargs)
        if is_traced((now, given, named)):
            now = array.__written__() if name in WRITES else lift(now)
            return getattr(now, name)(*live(args), **live(kwargs))
        got = getattr(now, name)(*given, **named)
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
    if builder is None or type(got) is FreshArray:
        return got
    root = memory_owner(got)
    memory = memory_of(got, root)
    if type(got) is not np.ndarray:
        add_reader(got)
        return got
    if memory is not None:
        return memory.array(got)
    if root is None or root.dtype.kind not in "biufcV" or root.dtype.names:
        return got
    if any(isinstance(source, np.ndarray) and memory_owner(source) is root for source in sources):
        return got
    return FreshMemory(root, builder).array(got)


late_types.append(FreshArray)
HOOKS.is_fresh = is_fresh
