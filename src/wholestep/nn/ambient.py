"""Ambient weights: parameters that a forward pass reads by name from its surroundings, and that train in place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.frozen import Frozen
from wholestep.frontend.gradients import value_and_grad
from wholestep.frontend.tracing import type_of
from wholestep.nn.annotations import Mark
from wholestep.nn.module import Module, copy_of
from wholestep.nn.parameters import buffers
from wholestep.nn.traversal import ModelWalk
from wholestep.words import type_in_words


class Weights(Module):
    """Named weights, read as attributes, that a function reads from its surroundings: `ws.params(...)` makes them.

    The object is a module, hence a tree that transforms, optimizers and `ws.compile` take. A compiled step trains the
    weights that the loss reads from its surroundings as well as those in its arguments. The object owns its arrays, and
    its `step` updates them in place; a compiled step trains copies, which `step.model` returns.
    """

    __slots__ = ("_optimizer",)

    def __init__(self, **weights: Any) -> None:
        for name, value in weights.items():
            setattr(self, name, as_weight(name, value))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in METHODS:
            raise ParameterError(f"params: {name!r} is a method of weights", hint="give the weight another name")
        super().__setattr__(name, value)

    def __enter__(self) -> Weights:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def __getitem__(self, name: str) -> Any:
        """`weights["w"]` is `weights.w`; raises KeyError for a name that is not there."""
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """The names, so that `dict(weights)` is a dictionary of them."""
        return [*vars(self), *self._ties]

    def items(self) -> list[tuple[str, Any]]:
        """The pairs of name and value.

        >>> import wholestep as ws
        >>> [(name, float(x)) for name, x in ws.params(slope=1.0, offset=2.0).items()]
        [('slope', 1.0), ('offset', 2.0)]
        """
        return [(name, self[name]) for name in self]

    def grad(self, objective: Callable[..., Any], *args: Any) -> Any:
        """The gradient of `objective(*args)`, which reads these weights, in weights of the same names.

        A frozen array has no gradient and stands for itself in the result. Buffers that the objective assigns have
        their new values afterwards. Raises as `ws.grad` does.

        >>> import numpy as np, wholestep as ws
        >>> weights = ws.params(w=np.array([1.0, 2.0]))
        >>> weights.grad(lambda x: np.sum(weights.w * x), np.array([3.0, 4.0])).w.tolist()
        [3.0, 4.0]
        """
        return self.value_and_grad(objective, *args)[1]

    def value_and_grad(self, objective: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        """The value of `objective(*args)`, which reads these weights, and its gradient: see `grad`."""
        before = buffers(self)

        def bound(model: Weights, *args: Any) -> Any:
            with self._bound_to(model):
                return objective(*args), {path: x for path, x in buffers(self).items() if x is not before[path]}

        (value, assigned), gradient = value_and_grad(bound, has_aux=True)(copy_of(self), *args)
        for path, new in assigned.items():
            write(path, before[path], new)
        return value, gradient

    def step(self, grads: Any, lr: float | None = None, *, optimizer: Any = None) -> None:
        """Update the weights by a gradient: by `lr` times it, or by an optimizer, whose state is kept here.

        Raises ParameterError unless one of the two is given, and TreeError for the gradient of other weights.

        >>> import numpy as np, wholestep as ws
        >>> weights = ws.params(w=np.array([1.0, 2.0]))
        >>> weights.step(weights.grad(lambda: np.sum(weights.w**2)), 0.25)
        >>> weights.w.tolist()
        [0.5, 1.0]
        """
        if (lr is None) == (optimizer is None):
            raise ParameterError("weights.step: it takes a learning rate or optimizer=, one of the two")
        own = ModelWalk(self)
        if [p.path for p in own.parameters] != [p.path for p in ModelWalk(grads).parameters]:
            raise TreeError("weights.step: the gradient is not that of these weights", hint="weights.grad gives it")
        if optimizer is None:
            new = tree.map(lambda p, g: (p - wnp.asarray(lr, p.dtype) * g).astype(p.dtype, copy=False), self, grads)
        else:
            known, state = getattr(self, "_optimizer", (None, None))
            state = state if known is optimizer else optimizer.init(self)
            new, state = optimizer.update(grads, state, self)
            self._optimizer = (optimizer, state)
        for place, x in zip(own.parameters, tree.leaves(new), strict=True):
            write(place.path, place.value, x)

    @contextmanager
    def _bound_to(self, model: Any) -> Iterator[None]:
        """A context in which the weights are those of a model of the same structure, filled by a transform."""
        parts = [part for _, part in ModelWalk(self).modules]
        held = [(part, dict(vars(part)), part._sealed, part._inside) for part in parts]
        try:
            for part, (_, filled) in zip(parts, ModelWalk(model).modules, strict=True):
                part._inside = part._sealed = True
                vars(part).update({name: x for name, x in vars(filled).items() if not isinstance(x, Module)})
            yield
        finally:
            for part, fields, sealed, inside in held:
                vars(part).update(fields)
                part._sealed, part._inside = sealed, inside


METHODS = frozenset(name for name in vars(Weights) if not name.startswith("_")) | {"train", "eval", "undecayed"}


def params(**weights: Any) -> Weights:
    """Weights to be read as attributes by the functions around: `with ws.params(w1=..., b1=...) as weights:`.

    A value is an array, a number, `nn.frozen(...)`, `nn.buffer(...)`, `nn.tied("name")`, a module, or a dictionary of
    such, whose items are attributes in turn. Arrays are copied. An objective reads the weights where it is written, at
    each call; an array that was read before the objective is called is a constant there.

    Shapes: floating or complex arrays of any shapes; gradients have those of the weights.
    Raises: DtypeError for an array of integers without a mark, ParameterError for a name that is a method of weights.

    >>> import numpy as np, wholestep as ws
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0, 7.0])
    >>> with ws.params(slope=0.0, line={"offset": 0.0}) as weights:
    ...     def objective():
    ...         return np.mean((weights.slope * x + weights.line.offset - y) ** 2)
    ...     for _ in range(500):
    ...         weights.step(weights.grad(objective), 0.1)
    >>> round(float(weights.slope), 3), round(float(weights.line.offset), 3)
    (2.0, 1.0)
    """
    return Weights(**weights)


def as_weight(name: str, value: Any) -> Any:
    """The value that a field holds for a given one: numbers become arrays, dictionaries weights of their own."""
    if isinstance(value, Mark | Frozen):
        return value
    if isinstance(value, dict):
        return Weights(**value)
    if isinstance(value, Module):
        return copy.deepcopy(value)
    if isinstance(value, list | tuple):
        return type(value)([as_weight(f"{name}[{i}]", x) for i, x in enumerate(value)])
    if isinstance(value, float | complex | np.ndarray | np.generic | Array):
        return value if isinstance(value, Array) else np.array(value)
    raise DtypeError(
        f"params: {name} is {value!r}, {type_in_words(value)}, and a weight is an array or a floating number",
        hint="write 1.0 for 1; what is no weight needs no place here",
    )


def write(path: str, memory: Any, new: Any) -> None:
    """Put a new content into a weight's array; raises DtypeError where it has another type."""
    if type_of(new) is not type_of(memory):
        raise DtypeError(
            f"weights: {path} is turned from {type_of(memory)} into {type_of(new)}",
            hint="cast what is assigned with .astype",
        )
    memory[...] = new
