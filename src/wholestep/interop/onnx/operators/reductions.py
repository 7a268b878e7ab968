"""Operators of ONNX that reduce or accumulate along axes, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axes_of, axis_within, integer, plain
from wholestep.nn.exponentials import safe_sqrt

Reduction = Callable[[Any, tuple[int, ...], bool], Any]


def reducer(f: Reduction) -> Handler:
    """A reduction over the axes of a node: by default all axes, or none with `noop_with_empty_axes`."""

    def reduced(node: OnnxNode, x: Any, axes: Any = None) -> Any:
        found, keep = axes_of(node, axes, x.ndim), bool(node.get("keepdims", 1))
        if not found:
            if node.get("noop_with_empty_axes", 0):
                return f(wnp.expand_dims(x, x.ndim), (x.ndim,), False).astype(x.dtype, copy=False)
            found = tuple(range(x.ndim))
        return f(x, found, keep).astype(x.dtype, copy=False)

    return reduced


def total(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The sum."""
    return wnp.sum(x, axis=axes, keepdims=keep)


def mean(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The mean; of integers without a fraction."""
    return wnp.mean(x, axis=axes, keepdims=keep)


def bound(largest: bool) -> Reduction:
    """The largest or the smallest element; without elements the identity of the reduction."""

    def found(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        if dtypes.is_bool(x.dtype):
            return (wnp.any if largest else wnp.all)(x, axis=axes, keepdims=keep)
        if not math.prod([x.shape[axis] for axis in axes]):
            end = lowest_of(x.dtype) if largest else -lowest_of(x.dtype) if dtypes.is_float(x.dtype) else None
            fill = np.iinfo(x.dtype).max if end is None else end
            return (
                wnp.max(x, axis=axes, keepdims=keep, initial=fill)
                if largest
                else wnp.min(x, axis=axes, keepdims=keep, initial=fill)
            )
        return (wnp.max if largest else wnp.min)(x, axis=axes, keepdims=keep)

    return found


def lowest_of(dtype: np.dtype[Any]) -> Any:
    """A number that none of a dtype is below."""
    return -np.inf if dtypes.is_float(dtype) else np.iinfo(dtype).min


def log_sum_exp(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """log(sum(exp(x))), without overflow."""
    if not math.prod([x.shape[axis] for axis in axes]):
        return wnp.log(wnp.sum(wnp.exp(x), axis=axes, keepdims=keep))
    wide = x if dtypes.is_float(x.dtype) else x.astype(np.float64)
    top = wnp.max(wide, axis=axes, keepdims=True)
    top = wnp.where(wnp.isfinite(top), top, 0)
    found = wnp.log(wnp.sum(wnp.exp(wide - top), axis=axes, keepdims=True)) + top
    return found if keep else wnp.squeeze(found, axes)


def extreme_place(f: Callable[..., Any]) -> Handler:
    """The place of the largest or smallest element: the first one, or with `select_last_index` the last."""

    def place(node: OnnxNode, x: Any) -> Any:
        axis = axis_within(node.get("axis", 0), x.ndim)
        if node.get("select_last_index", 0):
            found = x.shape[axis] - 1 - f(wnp.flip(x, axis), axis=axis)
        else:
            found = f(x, axis=axis)
        found = wnp.asarray(found).astype(np.int64)
        return wnp.expand_dims(found, axis) if node.get("keepdims", 1) else found

    return place


def running(f: Callable[..., Any], neutral: int) -> Handler:
    """A running sum or product along an axis, from the end with `reverse`, without the element itself if exclusive."""

    def along(node: OnnxNode, x: Any, where: Any) -> Any:
        axis = axis_within(integer(where, "the axis"), x.ndim)
        turned = wnp.flip(x, axis) if node.get("reverse", 0) else x
        found = f(turned, axis=axis).astype(x.dtype, copy=False)
        if node.get("exclusive", 0):
            lead = (slice(None),) * axis
            first = np.full([1 if i == axis else n for i, n in enumerate(x.shape)], neutral, x.dtype)
            found = wnp.concatenate([first, found[(*lead, slice(0, max(x.shape[axis] - 1, 0)))]], axis=axis)
        return wnp.flip(found, axis) if node.get("reverse", 0) else found

    return along


def matmul(node: OnnxNode, x: Any, y: Any) -> Any:
    """NumPy's matrix product, in the dtype of its operands."""
    return wnp.matmul(x, y).astype(x.dtype, copy=False)


def gemm(node: OnnxNode, x: Any, y: Any, c: Any = None) -> Any:
    """alpha x y + beta c, each matrix transposed where that is asked for."""
    x, y = (m.T if node.get(name, 0) else m for m, name in ((x, "transA"), (y, "transB")))
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    made = x @ y
    if alpha != 1:
        made = (alpha * made).astype(made.dtype)
    if c is None:
        return made
    return made + (c if beta == 1 else (beta * c).astype(c.dtype))


def in_single(x: Any) -> Any:
    """Half precision as single."""
    return x.astype(np.float32) if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4 else x


def einsum(node: OnnxNode, *xs: Any) -> Any:
    """Einstein's sum."""
    made = wnp.einsum(node.need("equation").replace(" ", ""), *[in_single(x) for x in xs])
    return made.astype(xs[0].dtype, copy=False)


TABLE: Mapping[str, Handler] = {
    "ReduceSum": reducer(total),
    "ReduceMean": reducer(mean),
    "ReduceMax": reducer(bound(True)),
    "ReduceMin": reducer(bound(False)),
    "ReduceProd": reducer(lambda x, axes, keep: wnp.prod(x, axis=axes, keepdims=keep)),
    "ReduceL1": reducer(lambda x, axes, keep: total(abs(x), axes, keep)),
    "ReduceL2": reducer(lambda x, axes, keep: safe_sqrt(total(x * x, axes, keep))),
    "ReduceSumSquare": reducer(lambda x, axes, keep: total(x * x, axes, keep)),
    "ReduceLogSum": reducer(lambda x, axes, keep: np.log(total(x, axes, keep))),
    "ReduceLogSumExp": reducer(log_sum_exp),
    "ArgMax": extreme_place(wnp.argmax),
    "ArgMin": extreme_place(wnp.argmin),
    "CumSum": running(wnp.cumsum, 0),
    "CumProd": running(wnp.cumprod, 1),
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
    "Det": plain(wnp.linalg.det),
}
