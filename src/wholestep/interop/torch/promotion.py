"""Promotion as PyTorch has it: arrays with axes come before arrays without, and these before Python's numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp

KINDS = "biufc"
FLOAT = np.dtype(np.float32)
"""PyTorch's default dtype of floating numbers."""
PLAIN = {bool: np.dtype(bool), int: np.dtype(np.int64), float: FLOAT, complex: np.dtype(np.complex64)}
"""The default dtypes of Python's numbers."""


def kind_of(dtype: np.dtype[Any]) -> int:
    """The rank of a dtype's kind: booleans, integers, floating, complex."""
    if dtypes.is_bool(dtype):
        return 0
    return 1 if dtypes.is_integer(dtype) else 2 if dtypes.is_float(dtype) else 3


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of two that count alike; integers take that of the floating ones."""
    low, high = sorted((a, b), key=kind_of)
    if kind_of(low) < 2 <= kind_of(high):
        return high
    if kind_of(low) == 2 and kind_of(high) == 3:
        return np.promote_types(high, dtypes.complex_of(low))
    if a != b and {a.name, b.name} == {"float16", "bfloat16"}:
        return FLOAT
    return np.promote_types(a, b)


def over(high: np.dtype[Any] | None, low: np.dtype[Any] | None) -> np.dtype[Any] | None:
    """The promoted dtype, where the operands of dtype `low` count only if their kind is higher than that of `high`."""
    if high is None or low is None:
        return low if high is None else high
    if kind_of(low) <= kind_of(high):
        return high
    return dtypes.complex_of(high) if kind_of(low) == 3 and kind_of(high) == 2 else low


def common_dtype(*operands: Any) -> np.dtype[Any]:
    """The dtype in which PyTorch computes with operands, arrays and numbers."""
    ranks: list[list[np.dtype[Any]]] = [[], [], []]
    for x in operands:
        if type(x) in PLAIN:
            ranks[2].append(PLAIN[type(x)])
        elif x is not None:
            array = x if hasattr(x, "dtype") else np.asarray(x)
            ranks[0 if array.ndim else 1].append(array.dtype)
    found = [functools.reduce(promote, rank) if rank else None for rank in ranks]
    return over(found[0], over(found[1], found[2])) or FLOAT


def cast(x: Any, dtype: Any) -> Any:
    """An operand as an array of a dtype."""
    a = wnp.asarray(x, dtype) if type(x) in PLAIN else wnp.asarray(x)
    if a.dtype == dtype:
        return a
    return (a.real if a.dtype.kind == "c" and not dtypes.is_complex(dtype) else a).astype(dtype)


def alike(*operands: Any) -> list[Any]:
    """Operands in their common dtype."""
    dtype = common_dtype(*operands)
    return [cast(x, dtype) for x in operands]


def inexact(*operands: Any) -> list[Any]:
    """Operands in their common dtype, or PyTorch's default one where that is an integer or boolean."""
    dtype = common_dtype(*operands)
    return [cast(x, FLOAT if kind_of(dtype) < 2 else dtype) for x in operands]
