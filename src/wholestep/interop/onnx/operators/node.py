"""A node of a model as its handler gets it: attributes with defaults, and inputs whose values must be known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wholestep import dtypes
from wholestep.errors import ModelError, UnsupportedError, ValueDependentError
from wholestep.export.onnx.schema import ELEMENTS, OTHER_ELEMENTS
from wholestep.frontend.array import Array
from wholestep.ir.graph import NDArray

LARGEST = 1 << 31
"""A shape of more elements than this, which a model says rather than has data for, is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """One node: its operator, the version of the operator set, attributes, and the names of its inputs and outputs."""

    op: str
    opset: int
    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("",)

    @property
    def count(self) -> int:
        """The number of outputs up to the last one with a name."""
        return max((i + 1 for i, name in enumerate(self.outputs) if name), default=1)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default where it is not given."""
        return self.attributes.get(name, default)

    def need(self, name: str) -> Any:
        """An attribute that must be there; raises ModelError where it is not."""
        if name not in self.attributes:
            raise ModelError(f"the attribute {name} is missing")
        return self.attributes[name]

    def ints(self, name: str, default: Any = None) -> list[int] | None:
        """An attribute of integers."""
        found = self.attributes.get(name, default)
        return None if found is None else [int(n) for n in found]

    def each(self, name: str, default: int, n: int) -> list[int]:
        """An attribute of one integer for each of n axes."""
        found = self.ints(name, [default] * n) or [default] * n
        if len(found) != n:
            raise ModelError(f"{name} has {len(found)} numbers, for {n} axes")
        return found

    def dtype(self, name: str, default: Any) -> np.dtype[Any]:
        """The dtype that an attribute names by its number."""
        number = self.attributes.get(name)
        if number is None:
            given: np.dtype[Any] = np.dtype(default)
            return given
        if number not in ELEMENTS:
            what = OTHER_ELEMENTS.get(number, f"element type {number}")
            raise UnsupportedError(f"{name} is {what}, which is not covered", hint="16 bits and more are, and int8")
        found: np.dtype[Any] = np.dtype(dtypes.check(ELEMENTS[number]))
        return found


Handler: TypeAlias = Callable[..., Any]
"""`handler(node, *inputs)`: the output, or a tuple of them; an input that is left out is None."""


def is_known(x: Any) -> bool:
    """True if the elements of a value are known while the program is being written."""
    return not isinstance(x, Array) or x.held() is not None


def known(x: Any, what: str) -> NDArray:
    """The elements of an input that must be known, such as axes; raises ValueDependentError if they are traced."""
    if not isinstance(x, Array):
        return np.asarray(x)
    if not is_known(x):
        raise ValueDependentError(
            f"{what} is computed from what is traced, {x.type}, and must be known while the program is being written",
            hint="close over the inputs that it depends on, instead of passing them to what is compiled",
        )
    return np.broadcast_to(x.known(what), x.shape)


def integers(x: Any, what: str) -> list[int]:
    """The known integers that an input holds."""
    found = known(x, what)
    if found.dtype.kind not in "iu":
        raise ModelError(f"{what} is {found.dtype.name}, and must be integers")
    return [int(n) for n in found.reshape(-1)]


def integer(x: Any, what: str) -> int:
    """The one known integer that an input holds."""
    return integers(x, what)[0] if np.size(known(x, what)) == 1 else one_only(what)


def number(x: Any, what: str) -> float:
    """The one known number that an input holds."""
    found = known(x, what)
    return float(found.reshape(-1)[0]) if found.size == 1 else one_only(what)


def one_only(what: str) -> Any:
    """Raise ModelError for an input that must be one number."""
    raise ModelError(f"{what} must be one number")


def axis_within(axis: int, ndim: int) -> int:
    """An axis counted from the front; raises ModelError for one that is not there."""
    if not -ndim <= axis < max(ndim, 1):
        raise ModelError(f"axis {axis} of an array with {ndim} axes")
    return axis % max(ndim, 1)


def within_limits(sizes: Any) -> tuple[int, ...]:
    """A shape as a model says it; raises ModelError for a negative one, or one too large to be meant."""
    total, made = 1, tuple([int(n) for n in sizes])
    for n in made:
        total *= n
        if n < 0:
            raise ModelError(f"a shape is {made}")
    if total > LARGEST:
        raise ModelError(f"a shape of {total:,} elements, {made}")
    return made


def axes_of(node: OnnxNode, given: Any, ndim: int) -> tuple[int, ...] | None:
    """The axes of a node: an input in newer operator sets, an attribute in older ones; None where there are none."""
    found = node.ints("axes") if given is None else integers(given, "axes")
    if found is None:
        return None
    return tuple([axis_within(axis, ndim) for axis in found])


def in_own_dtype(f: Handler) -> Handler:
    """A handler whose floating results have the dtype of its first input, also where NumPy widens bfloat16."""

    def cast_back(node: OnnxNode, x: Any, *more: Any) -> Any:
        made = f(node, x, *more)
        parts = [
            p if not dtypes.is_float(p.dtype) else p.astype(x.dtype, copy=False)
            for p in (made if type(made) is tuple else (made,))
        ]
        return tuple(parts) if type(made) is tuple else parts[0]

    return cast_back


def plain(f: Callable[..., Any]) -> Handler:
    """A handler that ignores the node."""
    return lambda node, *xs: f(*xs)
