"""The precision of a step: its effects on the loss and the state, and the combinations that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import DtypeError
from wholestep.frontend.precision import autocast
from wholestep.frontend.tracing import LEAVES, type_of
from wholestep.ir.types import Type
from wholestep.transforms.autocast import HALVES

WORKING = {"float32": (np.float32, np.complex64), "float64": (np.float64, np.complex128)}
"""The dtypes to which floating and complex arrays are converted, by precision."""

PRECISIONS = ("float32", "float64", *HALVES)


def loss_in_precision(loss: Callable[..., Any], precision: str | None) -> Callable[..., Any]:
    """The loss in a precision: with contractions in half precision, or with its arguments after the first converted.

    With None the loss is unchanged.
    """
    if precision in HALVES:
        return autocast(loss, precision)  # type: ignore[arg-type]
    if precision in WORKING:
        return lambda params, *rest, **named: loss(params, *[convert_floats(x, precision) for x in rest], **named)
    return loss


def convert_floats(held: Any, precision: str | None) -> Any:
    """A tree with its floating and complex arrays in the dtypes of a precision, where that is one of `WORKING`."""
    if precision not in WORKING:
        return held
    real, both = WORKING[precision]

    def one(x: Any) -> Any:
        if not isinstance(x, LEAVES) or not dtypes.is_inexact(type_of(x).dtype):
            return x
        dtype = both if dtypes.is_complex(type_of(x).dtype) else real
        return x.astype(dtype, copy=False) if hasattr(x, "astype") else x

    return tree.map(one, held)


def check_no_doubles(precision: str | None, arrays: Iterable[tuple[str, Type]]) -> None:
    """Raise DtypeError for a double with half precision, since all values computed from it would be double."""
    for path, t in arrays if precision in HALVES else ():
        if t.dtype in (np.dtype(np.float64), np.dtype(np.complex128)):
            raise DtypeError(
                f"compile: {path} is {t}, and precision {precision!r} keeps its masters in float32",
                hint="convert it with .astype(np.float32)",
            )
