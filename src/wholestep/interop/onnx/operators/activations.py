"""Activations of ONNX, in the dtype of their argument."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import nn, numpy as wnp
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axis_within, in_own_dtype
from wholestep.scipy import special


def exponential_below(x: Any) -> Any:
    """exp(x) - 1 for negative x, and 0 elsewhere, without overflow."""
    return wnp.expm1(wnp.where(x > 0, 0, x))


def relu(node: OnnxNode, x: Any) -> Any:
    """max(x, 0), of floats and of integers."""
    return nn.relu(x)


def leaky_relu(node: OnnxNode, x: Any) -> Any:
    """x, or alpha x below 0."""
    return wnp.where(x > 0, x, node.get("alpha", 0.01) * x)


def thresholded_relu(node: OnnxNode, x: Any) -> Any:
    """x above alpha, and 0 elsewhere."""
    return wnp.where(x > node.get("alpha", 1.0), x, 0)


def prelu(node: OnnxNode, x: Any, slope: Any) -> Any:
    """x, or slope x below 0."""
    return wnp.where(x > 0, x, slope * x)


def elu(node: OnnxNode, x: Any) -> Any:
    """x, or alpha (exp(x) - 1) below 0."""
    return wnp.where(x > 0, x, node.get("alpha", 1.0) * exponential_below(x))


def celu(node: OnnxNode, x: Any) -> Any:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    alpha = node.get("alpha", 1.0)
    return wnp.where(x > 0, x, alpha * exponential_below(x / alpha))


def selu(node: OnnxNode, x: Any) -> Any:
    """elu with the alpha and the gamma that keep mean and variance."""
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return gamma * wnp.where(x > 0, x, alpha * exponential_below(x))


def hard_sigmoid(node: OnnxNode, x: Any) -> Any:
    """alpha x + beta within 0 and 1."""
    return wnp.clip(node.get("alpha", 0.2) * x + node.get("beta", 0.5), 0, 1)


def hard_swish(node: OnnxNode, x: Any) -> Any:
    """x times a hard sigmoid of slope 1/6."""
    return x * wnp.clip(x / 6 + 0.5, 0, 1)


def shrink(node: OnnxNode, x: Any) -> Any:
    """x moved by bias towards 0 outside of [-lambd, lambd], and 0 inside."""
    edge, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    return wnp.where(x < -edge, x + bias, wnp.where(x > edge, x - bias, 0)).astype(x.dtype)


def softplus(node: OnnxNode, x: Any) -> Any:
    """log(1 + exp(x))."""
    return wnp.logaddexp(x, 0).astype(x.dtype, copy=False)


def softsign(node: OnnxNode, x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (1 + wnp.abs(x))


def mish(node: OnnxNode, x: Any) -> Any:
    """x tanh(softplus(x))."""
    return x * wnp.tanh(softplus(node, x))


def gelu(node: OnnxNode, x: Any) -> Any:
    """x times the normal distribution function, or its approximation by tanh."""
    if node.get("approximate", "none") == "tanh":
        return 0.5 * x * (1 + wnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + special.erf(x * math.sqrt(0.5)))


def swish(node: OnnxNode, x: Any) -> Any:
    """x sigmoid(alpha x)."""
    return x * special.expit(node.get("alpha", 1.0) * x)


def swiglu(node: OnnxNode, gate: Any, x: Any) -> Any:
    """swish(gate) x."""
    return swish(node, gate) * x


def along_axis(node: OnnxNode, x: Any, f: Any) -> Any:
    """f along an axis; before opset 13 along that and all later axes together."""
    if node.opset >= 13:
        return f(x, axis_within(node.get("axis", -1), x.ndim))
    axis = node.get("axis", 1) % max(x.ndim, 1)
    flat = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return f(flat, 1).reshape(x.shape)


def softmax(node: OnnxNode, x: Any) -> Any:
    """exp(x) divided by its sum."""
    return along_axis(node, x, lambda v, axis: nn.softmax(v, axis=axis))


def log_softmax(node: OnnxNode, x: Any) -> Any:
    """The logarithm of softmax."""
    return along_axis(node, x, lambda v, axis: nn.log_softmax(v, axis=axis))


def hardmax(node: OnnxNode, x: Any) -> Any:
    """1 at the first largest element, and 0 elsewhere."""

    def of(v: Any, axis: int) -> Any:
        places = np.arange(v.shape[axis]).reshape([-1 if i == axis else 1 for i in range(v.ndim)])
        return (wnp.expand_dims(wnp.argmax(v, axis=axis), axis) == places).astype(v.dtype)

    return along_axis(node, x, of)


ALL: Mapping[str, Handler] = {
    "Relu": relu,
    "LeakyRelu": leaky_relu,
    "ThresholdedRelu": thresholded_relu,
    "PRelu": prelu,
    "Elu": elu,
    "Celu": celu,
    "Selu": selu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "Shrink": shrink,
    "Softplus": softplus,
    "Softsign": softsign,
    "Mish": mish,
    "Gelu": gelu,
    "Swish": swish,
    "SwiGLU": swiglu,
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
}
TABLE: Mapping[str, Handler] = {op: in_own_dtype(handler) for op, handler in ALL.items()}
