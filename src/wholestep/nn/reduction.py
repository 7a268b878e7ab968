"""The common part of all losses: operands of one shape in, one number or one for each sample out."""

from __future__ import annotations

import numbers
from typing import Any, Literal

from wholestep import dtypes, numpy as wnp
from wholestep.errors import AxisError, DtypeError, ParameterError, ShapeError
from wholestep.frontend.tracing import type_of
from wholestep.numpy.conditions import where_holds

Reduction = Literal["mean", "sum", "none"]

REDUCTIONS = ("mean", "sum", "none")

ROUNDING = 2.0**-7
"""The most by which a mixture of numbers between 0 and 1 is rounded beyond them, in bfloat16."""


def reduce_losses(name: str, like: Any, losses: Any, reduction: str, weights: Any = None, units: Any = None) -> Any:
    """The losses, their sum, or their mean, each loss times its weight, in the dtype of `like`.

    The mean divides by the total of the weights. `units` is a further weight of each loss, already a factor of it, such
    as the weight of its class; None stands for 1.
    """
    if reduction not in REDUCTIONS:
        raise ParameterError(f"{name}: reduction is {reduction!r}; it is one of {', '.join(map(repr, REDUCTIONS))}")
    if weights is not None:
        weights = align_weights(name, weights, losses)
        losses = losses * weights
    if reduction == "none":
        total = losses
    elif reduction == "sum":
        total = wnp.sum(losses)
    elif weights is None and units is None:
        total = wnp.mean(losses)
    else:
        counts = units if weights is None else weights if units is None else weights * units
        total = wnp.sum(losses) / wnp.sum(wnp.broadcast_to(counts, losses.shape))
    return total.astype(narrow(like, losses), copy=False)


def narrow(like: Any, losses: Any) -> Any:
    """The dtype of losses that were computed in single precision for operands in half: that of the operands."""
    given = wnp.asarray(like).dtype
    return given if dtypes.compute_dtype(given) == losses.dtype else losses.dtype


def align_weights(name: str, weights: Any, losses: Any) -> Any:
    """Weights in the dtype of the losses, one for each, or one for all that share their leading indices."""
    array = real_numbers(name, weights, "weights")
    if array.shape != losses.shape[: array.ndim]:
        raise ShapeError(
            f"{name}: weights are {type_of(array)}, and the losses {type_of(losses)}",
            hint="weights have the shape of the losses (reduction='none' shows it), or of its first axes",
        )
    return array.reshape(array.shape + (1,) * (losses.ndim - array.ndim)).astype(losses.dtype, copy=False)


def paired_operands(name: str, predictions: Any, targets: Any, what: str = "targets") -> tuple[Any, Any]:
    """Predictions and targets as arrays of one shape, integer and boolean targets in the predictions' dtype."""
    x, t = real_floating(name, predictions, "predictions"), real_numbers(name, targets, what)
    if x.shape != t.shape:
        raise ShapeError(
            f"{name}: predictions are {type_of(x)}, and {what} {type_of(t)}",
            hint="give both the same shape; broadcasting here would compare every sample with every other",
        )
    return x, t.astype(dtypes.compute_dtype(t.dtype) if dtypes.is_inexact(t.dtype) else x.dtype, copy=False)


def paired_signs(name: str, predictions: Any, targets: Any) -> tuple[Any, Any]:
    """Predictions and targets of -1 and 1 as arrays of one shape and dtype; other targets are an error.

    Raises ParameterError where they are known, and BoundsError when a program runs.
    """
    x, t = paired_operands(name, predictions, targets)
    said = f"{name}: there are targets other than -1 and 1\n2 * t - 1 makes them of targets t of 0 and 1"
    return x, where_holds(t, wnp.abs(t) == 1, said)


def paired_chances(name: str, predictions: Any, targets: Any) -> tuple[Any, Any]:
    """Predictions and targets between 0 and 1 as arrays of one shape and dtype; other targets are an error.

    Raises ParameterError where they are known, and BoundsError when a program runs.
    """
    x, t = paired_operands(name, predictions, targets)
    return x, check_chances(name, "targets", t, "(t + 1) / 2 makes them of targets t of -1 and 1")


def check_chances(name: str, what: str, chances: Any, way_out: str) -> Any:
    """Numbers between 0 and 1, up to their rounding, or NaN; others are an error, as in `paired_signs`."""
    out = (chances < -ROUNDING) | (chances > 1 + ROUNDING)
    return where_holds(chances, ~out, f"{name}: there are {what} outside [0, 1]\n{way_out}")


def real_numbers(name: str, x: Any, what: str) -> Any:
    """An operand as an array of real numbers or booleans; raises DtypeError for any other."""
    array = wnp.asarray(x)
    if not dtypes.is_supported(array.dtype) or dtypes.is_complex(array.dtype):
        raise DtypeError(f"{name}: {what} are {array.dtype}, not real numbers", hint="give an array of real numbers")
    return array


def real_floating(name: str, x: Any, what: str) -> Any:
    """An operand as real floating-point numbers, half precisions in single; raises DtypeError for any other."""
    array = wnp.asarray(x)
    if not dtypes.is_inexact(array.dtype) or dtypes.is_complex(array.dtype):
        raise DtypeError(
            f"{name}: {what} are {type_of(array)}, not real floating-point numbers", hint="cast them with .astype"
        )
    return array.astype(dtypes.compute_dtype(array.dtype), copy=False)


def check_axis(name: str, x: Any, axis: int) -> None:
    """Raise AxisError where an array has no such axis."""
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(f"{name}: there is no axis {axis} in {type_of(x)}")


def loss_setting(
    name: str, field: str, value: Any, least: float = 0.0, most: float = float("inf"), *, positive: bool = False
) -> Any:
    """A setting of a loss, checked where it is a plain number; raises ParameterError outside [least, most]."""
    if isinstance(value, numbers.Real) and (not least <= float(value) <= most or (positive and not value)):
        bound = f"in [{least:g}, {most:g}]" if most < float("inf") else f"{least:g} or more"
        raise ParameterError(f"{name}: {field} is {value:g}; it must be {'more than 0' if positive else bound}")
    return value
