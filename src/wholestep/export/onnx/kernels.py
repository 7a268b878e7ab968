"""Kernels of ONNX Runtime's CPU: the dtypes of each operator, and the dtypes in which others are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes

FLOATS, NUMBERS = "f32 f64", "f32 f64 i32 i64"
KERNELS: Mapping[str, str] = {
    **dict.fromkeys("Add Sub Mul Div Neg Less LessOrEqual ReduceSum CumSum Pow".split(), NUMBERS),
    **dict.fromkeys("Exp Log Sqrt Sin Cos Tanh Floor Ceil Round".split(), FLOATS),
    **dict.fromkeys("Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Erf Conv ConvTranspose".split(), "f32"),
    "Abs": "f16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64",
    "Sign": "f32 f64 i8 i16 i32 i64 u8 u16 u32 u64",
    "Sigmoid": FLOATS,
    "IsNaN": FLOATS,
    "IsInf": FLOATS,
    "Equal": f"{NUMBERS} bool",
    "Max": f"{NUMBERS} u32 u64",
    "Min": f"{NUMBERS} u32 u64",
    "Mod": "f32 f64 i8 i16 i32 i64 u8 u16 u32 u64",
    "Where": f"{NUMBERS} u8",
    "MatMul": f"{NUMBERS} u32 u64",
    "ReduceProd": "f32 i32 i64",
    "ReduceMax": f"{NUMBERS} i8 u8",
    "ReduceMin": f"{NUMBERS} i8 u8",
    "ArgMax": "f32 f64 i8 i32 u8",
    "TopK": NUMBERS,
    "Pad": f"{NUMBERS} i8 u8 u32 u64 bool",
    "ScatterND": f"{NUMBERS}",
    "BitShift": "u8 u32 u64",
}
"""Dtypes of operators that do not have all; measured with ONNX Runtime 1.32 by the law of tests/export."""


def takes(kind: str, dtype: Any) -> bool:
    """True if there is a kernel of an operator for a dtype."""
    return kind not in KERNELS or dtypes.short(dtype) in KERNELS[kind].split()


def wider(kind: str, like: Any) -> np.dtype[Any] | None:
    """The dtype in which an operator is computed whose dtype has no kernel; None where there is none."""
    dtype: np.dtype[Any] = np.dtype(like)
    if dtypes.is_complex(dtype):
        return None
    if takes(kind, dtype):
        return dtype
    exact = {"f": ("f32", "f64"), "b": ("u8", "i32", "i64"), "i": ("i32", "i64"), "u": ("i64",)}
    family = "f" if dtypes.is_float(dtype) else dtype.kind
    for short in exact[family]:
        found = dtypes.from_short(short)
        if found.itemsize > dtype.itemsize or family in "ub":
            if takes(kind, found):
                return found
    return None
