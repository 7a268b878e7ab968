"""A weight under its bare name, which stands at every use for the weight's current array, plain or traced."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from wholestep.errors import ParameterError, UnsupportedError
from wholestep.frontend.dispatch import late_types
from wholestep.nn.ambient import Weights
from wholestep.words import type_in_words


class Name(NDArrayOperatorsMixin):
    """One weight of an ambient model; every operation on it uses its current array."""

    __slots__ = ("_name", "_weights")

    def __init__(self, weights: Weights, name: str) -> None:
        self._weights, self._name = weights, name

    def __live__(self) -> Any:
        """The current array of the weight."""
        return getattr(self._weights, self._name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*lived(inputs), **lived(kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*lived(args), **lived(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.__live__(), dtype, copy=copy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__live__(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.__live__()[lived(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.__live__()[lived(index)] = lived(value)

    def __len__(self) -> int:
        return len(self.__live__())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__live__())

    def __float__(self) -> float:
        return float(self.__live__())

    def __bool__(self) -> bool:
        return bool(self.__live__())

    def __repr__(self) -> str:
        return f"{self._name} = {self.__live__()!r}"


late_types.append(Name)


def lived(x: Any) -> Any:
    """The object with names replaced by their current arrays, also in lists, tuples and dictionaries."""
    if isinstance(x, Name):
        return x.__live__()
    if type(x) in (list, tuple):
        return type(x)([lived(item) for item in x])
    return {key: lived(item) for key, item in x.items()} if type(x) is dict else x


class NamedWeights(Weights):
    """Weights whose names a `with` block binds in a namespace, and removes from it at its end."""

    __slots__ = ("_bound", "_namespace")

    def bound_in(self, namespace: MutableMapping[str, Any]) -> NamedWeights:
        """The same weights, with the namespace in which they are bound."""
        self._namespace = namespace
        return self

    def __enter__(self) -> NamedWeights:
        namespace = self._namespace
        names = [*vars(self), *self._ties]
        taken = [name for name in names if name in namespace]
        if taken:
            raise ParameterError(
                f"params: {', '.join(taken)} would be hidden by weights of the same name",
                hint=f"rename the weight, or `del {taken[0]}` first",
            )
        namespace.update({name: bare_value(self, name) for name in names})
        self._bound = names
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self._bound:
            self._namespace.pop(name, None)


def bare_value(weights: Weights, name: str) -> Any:
    """The value of a bare name: weights and modules themselves, and a `Name` for an array."""
    value = getattr(weights, name)
    if isinstance(value, list | tuple):
        raise UnsupportedError(
            f"params: {name} is {type_in_words(value)}, which has no bare name", hint="read it as weights.NAME"
        )
    return Name(weights, name) if isinstance(value, np.ndarray) else value
