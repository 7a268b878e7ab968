"""Annotations of arrays that are no ordinary parameters: frozen, buffers, undecayed, or tied to another one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from wholestep import containers
from wholestep.errors import DtypeError
from wholestep.frontend.array import Array
from wholestep.frontend.frozen import Frozen

T = TypeVar("T")

FROZEN, BUFFER, UNDECAYED, TIED = "frozen", "buffer", "undecayed", "tied"
FROZEN_UNDECAYED = "frozen undecayed"
"""The mark of an undecayed parameter while it is frozen."""
KEPT = (FROZEN, FROZEN_UNDECAYED, BUFFER)
"""The marks of arrays that are no parameters."""


class Mark:
    """A value to be assigned to a field of a module, and the kind of the field: frozen, buffer, undecayed or tied."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value = kind, value

    def __repr__(self) -> str:
        return f"nn.{self.kind}({self.value!r})"


def frozen(x: T) -> T:
    """Mark an array that is never trained, or every parameter of a module or a container.

    It may be of any dtype. In a field of a module the array itself is kept; in a plain tree of parameters the leaf is a
    read-only view of it, usable as any array. No transform differentiates, maps or updates it. The result for a module
    is a copy with the same arrays; a module made without a key is frozen when it is drawn. `unfrozen` is the way back.

    Shapes: x an array of any shape and dtype, or a module or container of them; the same.
    Raises: DtypeError for a value that is not an array.

    >>> import numpy as np, wholestep as ws
    >>> params = {"w": np.ones(2), "table": ws.nn.frozen(np.array([3, 4]))}
    >>> ws.grad(lambda p: np.sum(p["w"] * p["table"]))(params)["w"].tolist()
    [3.0, 4.0]
    """
    made: Any = frozen_form(x)  # a mark, until the module that it is assigned to has taken it
    return made


def frozen_form(x: Any) -> Any:
    """The mark, the read-only view or the copy of a module that `frozen` returns."""
    if isinstance(x, Array):
        return Mark(FROZEN, x)
    if getattr(type(x), "_is_module", False):
        return x._frozen()
    level = None if isinstance(x, np.ndarray) else containers.one_level(x)
    if level is None or x is None:
        return Frozen(array_to_mark("frozen", x))
    return containers.rebuild(type(x), level.metadata, [frozen_form(child) for child in level.children])


def buffer(x: Any) -> Mark:
    """Mark an array that is no parameter and that the forward may assign anew: `self.mean = 0.9 * self.mean + ...`.

    It belongs in a field of a module. It may be of any dtype, and keeps shape and dtype inside compiled steps.

    Shapes: x an array of any shape and dtype; a mark, read from the field as the array.
    Raises: DtypeError for a value that is not an array.

    >>> import numpy as np, wholestep as ws
    >>> class Counter(ws.nn.Module):
    ...     def __init__(self):
    ...         self.calls = ws.nn.buffer(np.zeros((), np.int64))
    ...     def __call__(self, x):
    ...         self.calls = self.calls + 1
    ...         return x
    >>> counter = Counter()
    >>> counter(0.0), int(counter.calls)
    (0.0, 1)
    """
    return Mark(BUFFER, x if isinstance(x, Array) else array_to_mark("buffer", x))


def no_decay(x: Any) -> Mark:
    """Mark a parameter that weight decay leaves alone, as the biases and gains of the layers here are.

    It belongs in a field of a module. A class says the same of its fields with `undecayed = ("bias",)`.

    Shapes: x a floating or complex array of any shape; a mark, read from the field as the array.
    Raises: DtypeError for a value that is not an array.

    >>> import numpy as np, wholestep as ws
    >>> class Scale(ws.nn.Module):
    ...     def __init__(self):
    ...         self.gain = ws.nn.no_decay(np.ones(3))
    >>> ws.nn.decay_flags(Scale())
    {'gain': False}
    """
    return Mark(UNDECAYED, x if isinstance(x, Array) else array_to_mark("no_decay", x))


def tied(x: T) -> T:
    """Mark a field as another name for an array or a module that this module already holds.

    `x` is that array or module, or its path from this module, such as `"embedding.weight"`. Reading the field reads
    that path, also after a later assignment to it. (Assigning the same array to two fields ties them as well, until one
    of them is assigned anew.)

    Shapes: an array or module of any shape and dtype, or a path; a mark, read from the field as the array or module.
    Raises: TreeError, in the assignment, if this module holds no such array or module.

    >>> import numpy as np, wholestep as ws
    >>> class Echo(ws.nn.Module):
    ...     def __init__(self):
    ...         self.embedding = np.eye(3)
    ...         self.head = ws.nn.tied(self.embedding)
    ...     def __call__(self, ids):
    ...         return self.embedding[ids] @ self.head.T
    >>> model = Echo()
    >>> list(ws.nn.named_parameters(model)), model.head is model.embedding
    (['embedding'], True)
    """
    made: Any = Mark(TIED, x)
    return made


def array_to_mark(what: str, x: Any) -> Any:
    """An array to be marked; raises DtypeError for a value that is not an array of numbers."""
    if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind not in "biufcV":
        raise DtypeError(f"nn.{what}: {x!r} is no array of numbers", hint="convert it with np.asarray")
    return np.asarray(x) if isinstance(x, np.generic) else x
