"""Quantisation of PyTorch's programs: numbers as small integers and back, and the rounding that training pretends."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import FLOAT, cast

QUANTIZED = Handlers()
entry = QUANTIZED.entry


@entry("quantize_per_tensor")
def quantize(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any, **options: Any) -> Any:
    inverse = 1 / cast(scale, FLOAT)
    return wnp.clip(wnp.rint(x * inverse) + cast(zero, FLOAT), low, high).astype(dtype)


@entry("dequantize_per_tensor")
def dequantize(
    x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any, *, out_dtype: Any = None, **options: Any
) -> Any:
    made = (x.astype(FLOAT) - cast(zero, FLOAT)) * cast(scale, FLOAT)
    return made if out_dtype is None else made.astype(out_dtype)


def on_axis(x: Any, part: Any, axis: int) -> Any:
    """One number for each place along an axis of x."""
    return cast(part, FLOAT).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


@entry("quantize_per_channel")
def quantize_channels(x: Any, scales: Any, zeros: Any, axis: int, low: int, high: int, dtype: Any) -> Any:
    inverse = 1 / on_axis(x, scales, axis)
    return wnp.clip(wnp.rint(x * inverse) + on_axis(x, zeros, axis), low, high).astype(dtype)


@entry("dequantize_per_channel")
def dequantize_channels(
    x: Any, scales: Any, zeros: Any, axis: int, low: int, high: int, dtype: Any, *, out_dtype: Any = None
) -> Any:
    found = x.astype(FLOAT)
    made = (found if zeros is None else found - on_axis(x, zeros, axis)) * on_axis(x, scales, axis)
    return made if out_dtype is None else made.astype(out_dtype)


@entry("choose_qparams")
def choose_qparams(x: Any, low: int, high: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    least, most = wnp.minimum(wnp.min(x), 0), wnp.maximum(wnp.max(x), 0)
    scale = wnp.maximum((most - least) / np.float32(high - low), np.float32(eps))
    zero = wnp.clip(low - wnp.rint(least / scale), low, high)
    return scale.astype(np.float64), zero.astype(np.int64)


def pretended(x: Any, scale: Any, zero: Any, low: int, high: int) -> tuple[Any, Any]:
    """x quantized and dequantized, with the derivative of x at unclipped elements, and the mask of these."""
    places = wnp.rint(stop_gradient(x) * (1 / scale)) + zero
    inside = (places >= low) & (places <= high)
    rounded = (wnp.clip(places, low, high) - zero) * scale
    return wnp.where(inside, rounded + (x - stop_gradient(x)), rounded), inside


@entry("fake_quantize_per_tensor_affine_cachemask", "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize(x: Any, scale: Any, zero: Any, *bounds: Any) -> tuple[Any, Any]:
    low, high = bounds[-2:]
    return pretended(x, cast(scale, x.dtype), cast(zero, x.dtype), low, high)


@entry("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels(x: Any, scale: Any, zero: Any, axis: int, low: int, high: int) -> tuple[Any, Any]:
    return pretended(x, on_axis(x, scale, axis), on_axis(x, zero, axis), low, high)


@entry("_int_mm")
def int_mm(x: Any, y: Any) -> Any:
    return wnp.matmul(x.astype(np.int32), y.astype(np.int32))
