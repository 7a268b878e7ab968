"""Containers: parts one after another, and the plain parts that stand between others."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.source.entrance import followed
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import relu
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from, takes_key
from wholestep.nn.linears import Linear
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text

T = TypeVar("T")


class Sequential(Module):
    """Modules and functions, `layers`, one after another, each called with the result of the one before.

    `key`, a seed or a key, draws those layers that were made without one, each from its path: the key of the second is
    `fold_in(fold_in(key, "layers"), 1)`. In a call a key is split among the parts whose call has a keyword-only `key`.

    Shapes: those of the first part and of the last one.
    Raises: ParameterError for a part that cannot be called, and the exceptions of the parts.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Sequential(ws.nn.Linear(3, 8, key=0), ws.nn.relu, ws.nn.Linear(8, 2, key=1))
    >>> model(np.ones((5, 3), np.float32)).shape, list(ws.nn.named_parameters(model))[0], len(model)
    ((5, 2), 'layers[0].weight', 3)
    """

    torch_names = {"layers[*]": "{}"}  # noqa: RUF012  # a ClassVar by its annotation in Module

    def __init__(self, *layers: Any, key: Any = None) -> None:
        for layer in layers:
            if not callable(layer):
                raise ParameterError(f"Sequential: {layer!r} cannot be called", hint="give modules and functions")
        self.layers = list(layers)

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        return in_turn(self.layers, x, key)

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    def __getitem__(self, index: Any) -> Any:
        """One part, or for a slice a Sequential of several."""
        found = self.layers[index]
        return Sequential(*found) if isinstance(index, slice) else found


def in_turn(layers: Sequence[Any], x: Any, key: Any) -> Any:
    """Call parts one after another, each part that draws random numbers with its own key."""
    # A partial keeps the key that it binds.
    drawing = [takes_key(layer) and not isinstance(layer, functools.partial) for layer in layers]
    keys: Iterator[Any] = itertools.repeat(None) if key is None or not any(drawing) else keys_from(key, sum(drawing))
    for layer, draws in zip(layers, drawing, strict=True):
        call = followed(layer)
        x = call(x, key=next(keys)) if draws else call(x)
    return x


class MLP(Module):
    """Dense layers of the sizes given, with an activation and dropout after each but the last.

    `key`, `bias` and `dtype` are those of `Linear`; `dropout` is a probability.

    Shapes: x [..., sizes[0]]; [..., sizes[-1]].
    Raises: ParameterError for less than two sizes, and as `Linear` does.
    Source: Rumelhart, Hinton and Williams, "Learning representations by back-propagating errors", 1986.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.MLP([3, 16, 16, 1], key=0, activation=ws.nn.tanh)
    >>> model(np.ones((5, 3), np.float32)).shape
    (5, 1)
    """

    _draws = True

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        key: Any = None,
        activation: Callable[[Any], Any] = relu,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if len(sizes) < 2:
            raise ParameterError(f"MLP: sizes are {list(sizes)}; they must be those of input, hidden layers and output")
        keys = keys_from(key, len(sizes) - 1)
        self.layers = [Linear(m, n, key=next(keys), bias=bias, dtype=dtype) for m, n in itertools.pairwise(sizes)]
        self.activation, self.dropout = activation, Dropout(dropout)

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        *hidden, last = self.layers
        parts = [part for layer in hidden for part in (layer, self.activation, self.dropout)]
        return in_turn([*parts, last], x, key)


class Identity(Module):
    """x as it is.

    Shapes: x anything; the same.
    Raises: nothing of its own.

    >>> import wholestep as ws
    >>> ws.nn.Identity()(3.0)
    3.0
    """

    def __call__(self, x: T) -> T:
        return x


@dataclass(eq=False, repr=False)
class Lambda(Module):
    """A function wrapped as a module.

    Shapes: those of the function.
    Raises: the exceptions of the function.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.Lambda(lambda x: x[::-1])(np.array([1.0, 2.0])).tolist()
    [2.0, 1.0]
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return followed(self.function)(*args, **kwargs)


@dataclass(eq=False, repr=False)
class Flatten(Module):
    """All axes from `start` on as one.

    Shapes: x of any dtype with `start` axes or more; its first `start` axes, and one for the rest.
    Raises: ShapeError for an x without axis `start`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.Flatten()(np.ones((5, 3, 2))).shape
    (5, 6)
    """

    start: int = 1

    def __call__(self, x: Any) -> NDArray:
        x = wnp.asarray(x)
        if not 0 <= self.start <= x.ndim:
            raise ShapeError(f"Flatten: x is {type_text(x)}, with no axis {self.start}")
        return x.reshape(*x.shape[: self.start], math.prod(x.shape[self.start :]))
