"""Elementwise operators of ONNX: arithmetic, comparisons, bits, functions of one number, and casts."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, in_own_dtype, plain
from wholestep.scipy import special


def divide(node: OnnxNode, x: Any, y: Any) -> Any:
    """Division; of integers towards zero."""
    if not dtypes.is_integer(x.dtype):
        return wnp.divide(x, y)
    if x.dtype.kind == "u":
        return wnp.floor_divide(x, wnp.where(y == 0, 1, y).astype(y.dtype))
    safe = wnp.where(y == 0, 1, y).astype(y.dtype)
    quotient = wnp.floor_divide(x, safe)
    up = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return quotient + up.astype(x.dtype)


def largest(node: OnnxNode, *xs: Any) -> Any:
    """The largest of several."""
    return functools.reduce(wnp.maximum, xs)


def smallest(node: OnnxNode, *xs: Any) -> Any:
    """The smallest of several."""
    return functools.reduce(wnp.minimum, xs)


def add_all(node: OnnxNode, *xs: Any) -> Any:
    """The sum of several."""
    return functools.reduce(operator.add, xs)


def mean_of(node: OnnxNode, *xs: Any) -> Any:
    """The mean of several."""
    return functools.reduce(operator.add, xs) / len(xs)


def power(node: OnnxNode, x: Any, y: Any) -> Any:
    """x to the power y in the dtype of x; one of another kind is computed in the wider of both."""
    if x.dtype == y.dtype and dtypes.is_float(x.dtype):
        return wnp.power(x, y)
    if dtypes.is_float(x.dtype):
        exponent = wnp.asarray(y)
        if not isinstance(y, np.ndarray | np.generic) or exponent.ndim:
            return wnp.power(x, y.astype(x.dtype))
        return x * x if exponent == 2 else wnp.power(x, exponent.astype(x.dtype))
    if dtypes.is_integer(y.dtype):
        wide = wnp.power(x.astype(np.int64), wnp.maximum(y.astype(np.int64), 0))
        return wide.astype(x.dtype)
    return wnp.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def modulo(node: OnnxNode, x: Any, y: Any) -> Any:
    """The remainder, of the sign of y, or with `fmod` of the sign of x."""
    return wnp.fmod(x, y) if node.get("fmod", 0) else wnp.remainder(x, y)


def shift(node: OnnxNode, x: Any, y: Any) -> Any:
    """Bits moved left or right."""
    return wnp.left_shift(x, y) if node.need("direction") == "LEFT" else wnp.right_shift(x, y)


def clip_to(node: OnnxNode, x: Any, low: Any = None, high: Any = None) -> Any:
    """Numbers within two bounds, the upper one stronger."""
    low, high = (node.get(name) if x is None else x for name, x in (("min", low), ("max", high)))
    return wnp.clip(x, *[None if bound is None else wnp.asarray(bound).astype(x.dtype) for bound in (low, high)])


def cast(node: OnnxNode, x: Any) -> Any:
    """The same numbers in another dtype."""
    node.need("to")
    return converted(x, node.dtype("to", np.float32))


def cast_like(node: OnnxNode, x: Any, target: Any) -> Any:
    """The same numbers in the dtype of another array."""
    return converted(x, target.dtype)


def converted(x: Any, dtype: np.dtype[Any]) -> Any:
    """A cast; a number that is not finite has no integer, and NumPy is not asked to warn of it."""
    if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype):
        raise ModelError(f"a cast from {x.dtype.name} to {dtype.name}")
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(dtype)


def is_infinite(node: OnnxNode, x: Any) -> Any:
    """True for infinite numbers of the signs that are asked for."""
    above, below = wnp.equal(x, np.inf), wnp.equal(x, -np.inf)
    if not node.get("detect_positive", 1):
        return below if node.get("detect_negative", 1) else wnp.zeros(x.shape, bool)
    return above | below if node.get("detect_negative", 1) else above


def unary(f: Any) -> Handler:
    """A function of one number, in its own dtype: half precision and bfloat16 are computed in single."""
    return lambda node, x: f(x).astype(x.dtype, copy=False)


def reciprocal(node: OnnxNode, x: Any) -> Any:
    """1 / x."""
    return wnp.divide(1, x).astype(x.dtype, copy=False)


TABLE: Mapping[str, Handler] = {
    "Add": plain(wnp.add),
    "Sub": plain(wnp.subtract),
    "Mul": plain(wnp.multiply),
    "Div": divide,
    "Pow": power,
    "Mod": modulo,
    "Max": largest,
    "Min": smallest,
    "Sum": add_all,
    "Mean": in_own_dtype(mean_of),
    "Neg": plain(wnp.negative),
    "Abs": plain(wnp.abs),
    "Sign": plain(wnp.sign),
    "Reciprocal": reciprocal,
    "Equal": plain(wnp.equal),
    "Less": plain(wnp.less),
    "LessOrEqual": plain(wnp.less_equal),
    "Greater": plain(wnp.greater),
    "GreaterOrEqual": plain(wnp.greater_equal),
    "And": plain(wnp.logical_and),
    "Or": plain(wnp.logical_or),
    "Xor": plain(wnp.logical_xor),
    "Not": plain(wnp.logical_not),
    "BitwiseAnd": plain(wnp.bitwise_and),
    "BitwiseOr": plain(wnp.bitwise_or),
    "BitwiseXor": plain(wnp.bitwise_xor),
    "BitwiseNot": plain(wnp.invert),
    "BitShift": shift,
    "Where": plain(wnp.where),
    "Clip": clip_to,
    "Cast": cast,
    "CastLike": cast_like,
    "IsNaN": plain(wnp.isnan),
    "IsInf": is_infinite,
    "Identity": plain(lambda x: x),
    "Exp": unary(wnp.exp),
    "Log": unary(wnp.log),
    "Sqrt": unary(wnp.sqrt),
    "Sin": unary(wnp.sin),
    "Cos": unary(wnp.cos),
    "Tan": unary(wnp.tan),
    "Asin": unary(wnp.arcsin),
    "Acos": unary(wnp.arccos),
    "Atan": unary(wnp.arctan),
    "Sinh": unary(wnp.sinh),
    "Cosh": unary(wnp.cosh),
    "Tanh": unary(wnp.tanh),
    "Asinh": unary(wnp.arcsinh),
    "Acosh": unary(wnp.arccosh),
    "Atanh": unary(wnp.arctanh),
    "Floor": unary(wnp.floor),
    "Ceil": unary(wnp.ceil),
    "Round": unary(wnp.rint),
    "Erf": unary(special.erf),
    "Sigmoid": unary(special.expit),
}
