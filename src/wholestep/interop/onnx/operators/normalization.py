"""Normalizations of ONNX, and its losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import nn, numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axis_within, in_own_dtype
from wholestep.interop.onnx.operators.reductions import in_single
from wholestep.interop.onnx.operators.windows import norm

EPSILON = 1e-5


def in_channels(x: Any, part: Any) -> Any:
    """One number for each channel, to be broadcast with images."""
    return part.reshape(-1, *[1] * (x.ndim - 2))


def batch_norm(node: OnnxNode, x: Any, gain: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Channels normalized by given statistics, or in training by the batch's, which then update the running ones."""
    if not node.get("training_mode", 0):
        return normed(x, gain, bias, mean, var, node.get("epsilon", EPSILON))
    made, average, variance = batch_normed(node, x, gain, bias)
    keep = node.get("momentum", 0.9)
    running = [(old * keep + new * (1 - keep)).astype(old.dtype) for old, new in ((mean, average), (var, variance))]
    return (made, *running)[: node.count]


def batch_normed(node: OnnxNode, x: Any, gain: Any, bias: Any) -> Any:
    """Channels normalized by the statistics of the batch, and these statistics."""
    axes = (0, *range(2, x.ndim))
    average, variance = wnp.mean(in_single(x), axis=axes), wnp.var(in_single(x), axis=axes)
    return normed(x, gain, bias, average, variance, node.get("epsilon", EPSILON)), average, variance


def normed(x: Any, gain: Any, bias: Any, mean: Any, var: Any, epsilon: float) -> Any:
    """Channels without their mean, divided by their deviation, with gain and bias."""
    scale = in_channels(x, gain) / wnp.sqrt(in_channels(x, var) + epsilon)
    return ((x - in_channels(x, mean)) * scale + in_channels(x, bias)).astype(x.dtype, copy=False)


def standard(x: Any, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """x of mean 0 and variance 1 over axes, the mean, and 1 over the deviation."""
    mean = wnp.mean(x, axis=axes, keepdims=True)
    apart = x - mean
    inverse = 1 / wnp.sqrt(wnp.mean(apart * apart, axis=axes, keepdims=True) + epsilon)
    return apart * inverse, mean, inverse


def instance_norm(node: OnnxNode, x: Any, gain: Any, bias: Any) -> Any:
    """Each channel of each sample by itself."""
    made = standard(in_single(x), tuple(range(2, x.ndim)), node.get("epsilon", EPSILON))[0].astype(x.dtype, copy=False)
    return made * in_channels(x, gain) + in_channels(x, bias)


def group_norm(node: OnnxNode, x: Any, gain: Any, bias: Any) -> Any:
    """Groups of channels of each sample; before opset 21 with one gain and bias for each group."""
    groups, channels = node.need("num_groups"), x.shape[1]
    parts = in_single(x).reshape(x.shape[0], groups, channels // groups, *x.shape[2:])
    made = standard(parts, tuple(range(2, parts.ndim)), node.get("epsilon", EPSILON))[0]
    made = made.reshape(x.shape).astype(x.dtype, copy=False)
    if gain.shape[0] != channels:
        gain, bias = wnp.repeat(gain, channels // groups), wnp.repeat(bias, channels // groups)
    return made * in_channels(x, gain) + in_channels(x, bias)


def layer_norm(node: OnnxNode, x: Any, gain: Any, bias: Any = None) -> Any:
    """The last axes of each sample; further outputs are the mean and 1 over the deviation."""
    axes = tuple(range(axis_within(node.get("axis", -1), x.ndim), x.ndim))
    made, mean, inverse = standard(in_single(x), axes, node.get("epsilon", EPSILON))
    made = made.astype(x.dtype, copy=False) * gain
    return (made if bias is None else made + bias, mean, inverse)[: node.count]


def rms_norm(node: OnnxNode, x: Any, gain: Any) -> Any:
    """The last axes of each sample divided by their root mean square."""
    axes, v = tuple(range(axis_within(node.get("axis", -1), x.ndim), x.ndim)), in_single(x)
    made = v / wnp.sqrt(wnp.mean(v * v, axis=axes, keepdims=True) + node.get("epsilon", EPSILON))
    return made.astype(x.dtype, copy=False) * gain


def mean_variance_norm(node: OnnxNode, x: Any) -> Any:
    """Axes of mean 0 and variance 1."""
    axes = tuple(node.ints("axes", [0, 2, 3]) or ())
    apart = x - wnp.mean(x, axis=axes, keepdims=True)
    return apart / (wnp.sqrt(wnp.mean(apart * apart, axis=axes, keepdims=True)) + 1e-9)


def lp_norm(node: OnnxNode, x: Any) -> Any:
    """An axis divided by its norm, where that is not 0."""
    size = norm(x, (axis_within(node.get("axis", -1), x.ndim),), node.get("p", 2), True)
    return wnp.where(size == 0, 0, x / wnp.where(size == 0, 1, size)).astype(x.dtype, copy=False)


def local_response_norm(node: OnnxNode, x: Any) -> Any:
    """Elements divided by a power of the squares of channels around them."""
    size = node.need("size")
    before = (size - 1) // 2
    squares = wnp.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
    around = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x / (node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * around) ** node.get("beta", 0.75)


def negative_log_likelihood(node: OnnxNode, x: Any, labels: Any, weights: Any = None) -> Any:
    """Minus the entry of each label, weighted by its class, and reduced."""
    ignored = node.get("ignore_index")
    keep = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    safe = wnp.where(keep, labels, 0).astype(np.int64)
    entries = -wnp.take_along_axis(x, wnp.expand_dims(safe, 1), 1)[:, 0]
    each = keep.astype(x.dtype) if weights is None else weights[safe] * keep.astype(x.dtype)
    lost, how = wnp.where(keep, entries, 0) * each, node.get("reduction", "mean")
    if how not in ("none", "sum", "mean"):
        raise ModelError(f"the reduction is {how!r}")
    return lost if how == "none" else wnp.sum(lost) if how == "sum" else wnp.sum(lost) / wnp.sum(each)


def softmax_cross_entropy(node: OnnxNode, x: Any, labels: Any, weights: Any = None) -> Any:
    """The negative log-likelihood of the softmax over classes; a further output is its logarithm."""
    logs = nn.log_softmax(x, axis=1)
    return (negative_log_likelihood(node, logs, labels, weights), logs)[: node.count]


TABLE: Mapping[str, Handler] = {
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "MeanVarianceNormalization": in_own_dtype(mean_variance_norm),
    "LpNormalization": lp_norm,
    "LRN": in_own_dtype(local_response_norm),
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
