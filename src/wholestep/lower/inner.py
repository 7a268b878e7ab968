"""Inner operations: nodes that lowering makes for itself, and no user's program has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wholestep.ir.graph import Value
from wholestep.ir.types import Type, array_type
from wholestep.kernel.lang import I64, DType, Var
from wholestep.primitives.family import Primitive


class Inner(Primitive):
    """An operation that is not entered in the registry: no program names it."""

    def __init__(self, name: str) -> None:
        self.name = name


class Scalar(Inner):
    """A scalar function of kernels, given by its code and the dtype of its result."""

    kind = "elementwise"

    def __init__(self, name: str, code: Callable[..., Any], dtype: Callable[[DType], DType]) -> None:
        super().__init__(name)
        self.code: Callable[..., Var] = code
        self.dtype = dtype

    def type(self, x: Type) -> Type:
        return array_type(x.shape, self.dtype(x.dtype))


class Argsort(Inner):
    """The order that sorts unsigned integers along the last axis, stable."""

    kind = "order"

    def type(self, keys: Type) -> Type:
        return array_type(keys.shape, I64)


class Out(NamedTuple):
    """An argument that is an output; `start` says which input it holds a copy of when the routine begins."""

    type: Type
    start: int | None = None


class In(NamedTuple):
    """An argument that is an input, only read."""

    input: int


class Scratch(NamedTuple):
    """An argument that is memory to work in."""

    nbytes: int


class Status(NamedTuple):
    """The argument that says whether a matrix could be dealt with; `message` is the error otherwise, None to go on."""

    message: str | None = None


Argument = str | int | None | Out | In | Scratch | Status
"""A letter, a number, the null pointer, or memory; each is passed by its address, as Fortran has it."""


class Lapack(Inner):
    """One routine of LAPACK for each matrix of a stack, column-major; the outputs are those among the arguments.

    All operands and results have the leading axes of the stack, `count` matrices in all.
    """

    kind = "linalg"
    multiple = True

    def __call__(self, *inputs: Value, **params: Any) -> tuple[Value, ...]:  # type: ignore[override]
        made: Any = super().__call__(*inputs, **params)
        return tuple(made)

    def type(self, *inputs: Type, routine: str, count: int, arguments: tuple[Argument, ...]) -> tuple[Type, ...]:
        return tuple([a.type for a in arguments if isinstance(a, Out)])


class Require(Inner):
    """x itself, once all truths hold: otherwise the program is left with the message of an error."""

    kind = "check"

    def type(self, x: Type, holds: Type, *, kind: str, message: str, hint: str) -> Type:
        return x


class Exchanged(Inner):
    """0, 1, ..., m - 1 along the last axis after the exchanges that pivots say, one after another."""

    kind = "order"

    def type(self, pivots: Type, *, size: int) -> Type:
        return array_type((*pivots.shape[:-1], size), I64)


class TriangularRoot(Inner):
    """The square root of upper triangular matrices.

    Takes them, the roots of their diagonals, and the reciprocals of the sums of any two of those roots.
    """

    kind = "linalg"

    def type(self, t: Type, roots: Type, shares: Type) -> Type:
        return t


argsort = Argsort("argsort")
lapack = Lapack("lapack")
require = Require("require")
exchanged = Exchanged("exchanged")
triangular_root = TriangularRoot("triangular_root")
