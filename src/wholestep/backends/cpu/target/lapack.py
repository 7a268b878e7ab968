"""LAPACK calls: internal operations that run one routine for each matrix of a stack, column-major."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep import dtypes
from wholestep.ir.graph import Value
from wholestep.ir.types import Type
from wholestep.lower.legalize.internal_ops import InternalOp

PREFIX = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


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
    """The argument that reports success; `message` is the error of a failure, None to ignore it."""

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


lapack = LapackOp("lapack")


def lapack_call(routine: str, *arguments: LapackArgument, of: Sequence[Value]) -> tuple[Value, ...]:
    """One routine call for each matrix of a stack; `{}` in its name stands for the letter of the dtype."""
    name = "lapack." + routine.format(PREFIX[dtypes.short(of[0].dtype)])
    return lapack(*of, routine=name, count=math.prod(of[0].shape[:-2]), arguments=arguments)
