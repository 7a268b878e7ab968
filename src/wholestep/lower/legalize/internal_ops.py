"""Internal operations: nodes that only lowering creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wholestep.ir.graph import Value
from wholestep.ir.types import Type, array_type
from wholestep.kernel.lang import I64, DType, Var
from wholestep.primitives.family import Loops, Primitive


class InternalOp(Primitive):
    """An operation that is not entered in the registry."""

    def __init__(self, name: str) -> None:
        self.name = name


class ScalarOp(Loops, InternalOp):
    """A scalar function given by its kernel code and result dtype."""

    kind = "elementwise"

    def __init__(self, name: str, code: Callable[..., Any], dtype: Callable[[DType], DType]) -> None:
        super().__init__(name)
        self.code: Callable[..., Var] = code
        self.dtype = dtype

    def type(self, x: Type) -> Type:
        return array_type(x.shape, self.dtype(x.dtype))


class ArgsortOp(InternalOp):
    """The stable sorting order of unsigned integers along the last axis."""

    kind = "order"

    def type(self, keys: Type) -> Type:
        return array_type(keys.shape, I64)


class OutArg(NamedTuple):
    """An output argument; `start` is the input whose copy it holds when the routine begins."""

    type: Type
    start: int | None = None


class InArg(NamedTuple):
    """A read-only input argument."""

    input: int


class ScratchArg(NamedTuple):
    """A workspace argument."""

    nbytes: int


class StatusArg(NamedTuple):
    """The argument that reports success; `message` is the error otherwise, None to go on."""

    message: str | None = None


LapackArgument = str | int | None | OutArg | InArg | ScratchArg | StatusArg
"""A letter, a number, the null pointer, or memory; each is passed by address, as in Fortran."""


class LapackOp(InternalOp):
    """One LAPACK routine for each matrix of a stack, column-major; the outputs are those among the arguments.

    All operands and results have the leading axes of the stack, `count` matrices in all.
    """

    kind = "linalg"
    multiple = True

    def __call__(self, *inputs: Value, **params: Any) -> tuple[Value, ...]:  # type: ignore[override]
        made: Any = super().__call__(*inputs, **params)
        return tuple(made)

    def type(self, *inputs: Type, routine: str, count: int, arguments: tuple[LapackArgument, ...]) -> tuple[Type, ...]:
        return tuple([a.type for a in arguments if isinstance(a, OutArg)])


class RequireOp(Loops, InternalOp):
    """x itself if all truth values hold; otherwise the program is left with an error."""

    kind = "check"

    def type(self, x: Type, holds: Type, *, kind: str, message: str, hint: str) -> Type:
        return x


class PivotPermutationOp(InternalOp):
    """0, 1, ..., m - 1 along the last axis after the row exchanges of pivots."""

    kind = "order"

    def type(self, pivots: Type, *, size: int) -> Type:
        return array_type((*pivots.shape[:-1], size), I64)


class TriangularRootOp(InternalOp):
    """The square root of upper triangular matrices.

    The operands are the matrices, the roots of their diagonals, and the reciprocals of the sums of any two of those
    roots.
    """

    kind = "linalg"

    def type(self, t: Type, roots: Type, shares: Type) -> Type:
        return t


argsort = ArgsortOp("argsort")
lapack = LapackOp("lapack")
require = RequireOp("require")
pivot_permutation = PivotPermutationOp("exchanged")
triangular_root = TriangularRootOp("triangular_root")
