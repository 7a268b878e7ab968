"""The precision that a step computes in: what it does to the loss, to the state, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import DtypeError
from wholestep.frontend.precision import autocast
from wholestep.frontend.scope import LEAVES, type_of
from wholestep.ir.types import Type
from wholestep.transforms.autocast import HALVES

PRECISIONS = ("float32", "bfloat16", "float16", "float64")


def computed(loss: Callable[..., Any], precision: str) -> Callable[..., Any]:
    """The loss in a precision: with contractions in a half, or with all but its first argument in float64.

    "float32" takes arrays in the dtypes that they have.
    """
    if precision in HALVES:
        return autocast(loss, precision)  # type: ignore[arg-type]
    if precision == "float64":
        return lambda params, *rest, **named: loss(params, *[widened(x) for x in rest], **named)
    return loss


def widened(held: Any) -> Any:
    """A tree with its floating and complex arrays in double precision."""

    def wide(x: Any) -> Any:
        if not isinstance(x, LEAVES) or not dtypes.is_inexact(type_of(x).dtype):
            return x
        double = np.complex128 if dtypes.is_complex(type_of(x).dtype) else np.float64
        return x.astype(double, copy=False) if hasattr(x, "astype") else x

    return tree.map(wide, held)


def check_single(precision: str, arrays: Iterable[tuple[str, Type]]) -> None:
    """Raise DtypeError for a double where half precision was asked for: it would make all that it meets double."""
    for path, t in arrays if precision in HALVES else ():
        if t.dtype in (np.dtype(np.float64), np.dtype(np.complex128)):
            raise DtypeError(
                f"compile: {path} is {t}, and precision {precision!r} keeps its masters in float32",
                hint="convert it with .astype(np.float32)",
            )
