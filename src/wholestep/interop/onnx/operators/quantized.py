"""Quantized operators of ONNX: numbers as integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axis_within
from wholestep.interop.onnx.operators.windows import conv


def along_blocks(node: OnnxNode, x: Any, part: Any) -> Any:
    """A scale or a zero point for each element: one for all, one for each place of an axis, or one for each block."""
    if part is None or part.size == 1:
        return part if part is None else part.reshape(())
    axis = axis_within(node.get("axis", 1), x.ndim)
    block = node.get("block_size", 0)
    if block:
        index = np.arange(x.shape[axis]) // block
        return wnp.take(part, index, axis=axis)
    return part.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def quantize(node: OnnxNode, x: Any, scale: Any, zero: Any = None) -> Any:
    """round(x / scale) + zero, within the integers."""
    dtype = node.dtype("output_dtype", np.uint8 if zero is None else zero.dtype)
    wide = node.dtype("precision", x.dtype if dtypes.is_float(x.dtype) else scale.dtype)
    made = wnp.rint(x.astype(wide) / along_blocks(node, x, scale).astype(wide))
    return saturated(made, along_blocks(node, x, zero), dtype)


def saturated(made: Any, zero: Any, dtype: Any) -> Any:
    """Whole numbers moved by the zero point, within the integers of a dtype."""
    if not dtypes.is_integer(dtype):
        raise ModelError(f"a number quantized as {dtype.name}")
    wide = made if made.dtype.itemsize >= 4 else made.astype(np.float32)
    moved = wide if zero is None else wide + zero.astype(wide.dtype)
    ends = np.iinfo(dtype)
    return wnp.clip(moved, ends.min, ends.max).astype(dtype)


def dequantize(node: OnnxNode, x: Any, scale: Any, zero: Any = None) -> Any:
    """(x - zero) scale."""
    dtype = node.dtype("output_dtype", scale.dtype)
    wide = x.astype(np.int32)
    if zero is not None:
        wide = wide - along_blocks(node, x, zero).astype(np.int32)
    return (wide.astype(dtype) * along_blocks(node, x, scale).astype(dtype)).astype(dtype, copy=False)


def dynamic_quantize(node: OnnxNode, x: Any) -> Any:
    """x quantized by its own range, which includes 0; the scale and the zero point."""
    high, low = wnp.maximum(wnp.max(x), 0), wnp.minimum(wnp.min(x), 0)
    scale = ((high - low) / 255).astype(x.dtype)
    zero = wnp.clip(wnp.rint(-low / scale), 0, 255).astype(np.uint8)
    return saturated(wnp.rint(x / scale), zero, np.dtype(np.uint8)), wnp.asarray(scale), wnp.asarray(zero)


def less_zero(x: Any, zero: Any, axis: int) -> Any:
    """An integer array without its zero point, of which there is one, or one for each place of an axis, as int32."""
    if zero is None:
        return x.astype(np.int32)
    moved = zero.astype(np.int32)
    if moved.ndim == 1 and moved.size > 1:
        moved = moved.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return x.astype(np.int32) - (moved.reshape(()) if moved.size == 1 else moved)


def matmul_integer(node: OnnxNode, x: Any, y: Any, x_zero: Any = None, y_zero: Any = None) -> Any:
    """A product of matrices without their zero points, as int32."""
    return wnp.matmul(less_zero(x, x_zero, -2), less_zero(y, y_zero, -1))


def qlinear_matmul(
    node: OnnxNode, x: Any, x_scale: Any, x_zero: Any, y: Any, y_scale: Any, y_zero: Any, scale: Any, zero: Any
) -> Any:
    """A product of quantized matrices, quantized again."""
    product = matmul_integer(node, x, y, x_zero, y_zero).astype(np.float32)
    rows = x_scale.reshape(-1, 1) if x_scale.ndim == 1 and x_scale.size > 1 else x_scale
    factor = rows.astype(np.float32) * y_scale.astype(np.float32) / scale.astype(np.float32)
    return saturated(wnp.rint(product * factor), zero, zero.dtype)


def conv_integer(node: OnnxNode, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    """A convolution without zero points, as int32."""
    return conv(node, less_zero(x, x_zero, 1), less_zero(w, w_zero, 0)).astype(np.int32)


def qlinear_conv(
    node: OnnxNode, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, scale: Any, zero: Any,
    bias: Any = None,
) -> Any:  # fmt: skip
    """A convolution of quantized images, quantized again."""
    made = conv_integer(node, x, w, x_zero, w_zero)
    if bias is not None:
        made = made + bias.reshape(-1, *[1] * (x.ndim - 2))
    each = w_scale.reshape(-1, *[1] * (x.ndim - 2)) if w_scale.size > 1 else w_scale.reshape(())
    factor = x_scale.reshape(()).astype(np.float32) * each / scale.reshape(())
    return saturated(wnp.rint(made.astype(np.float32) * factor), zero.reshape(()), zero.dtype)


TABLE: Mapping[str, Handler] = {
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
}
