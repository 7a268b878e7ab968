"""An array that is never differentiated: a tree has no leaf where it stands, and arithmetic sees the plain array."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import tree


class Frozen(np.ndarray[Any, Any]):
    """A read-only view of an array; results computed from it are plain arrays.

    In a tree it is a part of the structure, by identity, so that no transform differentiates, maps or updates it.
    """

    def __new__(cls, x: Any) -> Frozen:
        array = np.asarray(x)
        made = array.view(cls)
        np.ndarray.setflags(made, write=False)
        vars(made)["array"] = array
        return made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*[thawed(x) for x in inputs], **{k: thawed(x) for k, x in kwargs.items()})

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*[thawed(x) for x in args], **{k: thawed(x) for k, x in kwargs.items()})

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name) if name.startswith("__") else getattr(thawed(self), name)

    def __getitem__(self, index: Any) -> Any:
        return thawed(self)[index]

    def __reduce__(self) -> Any:
        return Frozen, (thawed(self),)

    def __deepcopy__(self, memo: Any) -> Frozen:
        return Frozen(thawed(self).copy())

    def __repr__(self) -> str:
        return f"frozen({thawed(self)!r})"

    __str__ = __repr__


def thawed(x: Any) -> Any:
    """The plain arrays under frozen ones, in lists, tuples and dictionaries too."""
    if isinstance(x, Frozen):
        held = vars(x).get("array")
        return np.ndarray.view(x, np.ndarray) if held is None else held
    if type(x) in (list, tuple):
        return type(x)([thawed(item) for item in x])
    return {key: thawed(item) for key, item in x.items()} if type(x) is dict else x


class Held:
    """An array in a structure: equal to itself alone, except where only outlines are compared."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Held):
            return NotImplemented
        return thawed(self.array) is thawed(other.array) or tree.comparing_outlines()

    def __hash__(self) -> int:
        return id(thawed(self.array))

    def __repr__(self) -> str:
        return f"{self.array.dtype}{list(self.array.shape)}"


tree.register(Frozen, lambda x: ((), Held(x)), lambda held, _: held.array)
