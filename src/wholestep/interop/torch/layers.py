"""Layers of PyTorch that are operators: normalisations, softmax, attention and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import nn, numpy as wnp, random
from wholestep.frontend.custom import custom_jvp
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import cast
from wholestep.nn.normalization import apply_gain_and_bias, mean_and_variance
from wholestep.numpy.working_precision import working_array

LAYERS = Handlers()
entry = LAYERS.entry


@entry("_safe_softmax")
def safe_softmax(x: Any, axis: int, dtype: Any = None) -> Any:
    """A softmax in which rows of -inf alone, which see nothing, are 0."""
    hidden = wnp.all(x == -np.inf, axis=axis, keepdims=True)
    made = softmax(wnp.where(hidden, wnp.zeros_like(x), x), axis, dtype)
    return wnp.where(hidden, wnp.zeros_like(made), made)


@entry("_softmax", "softmax")
def softmax(x: Any, axis: int, dtype: Any = None) -> Any:
    a = x if dtype in (None, False, True) else cast(x, dtype)
    return nn.softmax(a, axis=axis) if wnp.ndim(a) else wnp.ones_like(a)


@entry("_log_softmax", "log_softmax")
def log_softmax(x: Any, axis: int, dtype: Any = None) -> Any:
    a = x if dtype in (None, False, True) else cast(x, dtype)
    return nn.log_softmax(a, axis=axis) if wnp.ndim(a) else wnp.zeros_like(a)


def on_channels(x: Any, part: Any) -> Any:
    """One number for each channel, as it stands along axis 1 of x."""
    return None if part is None else working_array(part).reshape(1, -1, *[1] * (x.ndim - 2))


def normalized(x: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    """x with a mean of 0 and a variance of 1, and the reciprocal of the standard deviation."""
    scale = 1 / wnp.sqrt(var + cast(eps, var.dtype))
    return (x - mean) * scale, scale


@entry("native_layer_norm")
def native_layer_norm(x: Any, shape: Sequence[Any], gain: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    wide = working_array(x)
    mean, var = mean_and_variance(wide, axes)
    made, scale = normalized(wide, mean, var, eps)
    return apply_gain_and_bias(made, gain, bias).astype(x.dtype), mean, scale


@entry("layer_norm")
def layer_norm(
    x: Any, shape: Sequence[Any], gain: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Any:
    return native_layer_norm(x, shape, gain, bias, eps)[0]


@entry("rms_norm")
def rms_norm(x: Any, shape: Sequence[Any], gain: Any = None, eps: float | None = None) -> Any:
    wide = working_array(x)
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    least = np.finfo(wide.dtype).eps if eps is None else eps
    scale = 1 / wnp.sqrt(wnp.mean(wide * wide, axis=axes, keepdims=True) + cast(float(least), wide.dtype))
    return apply_gain_and_bias(wide * scale, gain, None).astype(x.dtype)


@entry("native_group_norm")
def native_group_norm(
    x: Any, gain: Any, bias: Any, n: Any, channels: Any, places: Any, groups: int, eps: float
) -> tuple[Any, ...]:
    wide = working_array(x).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    mean, var = mean_and_variance(wide, tuple(range(2, wide.ndim)))
    made, scale = normalized(wide, mean, var, eps)
    y = apply_gain_and_bias(made.reshape(x.shape), on_channels(x, gain), on_channels(x, bias))
    return y.astype(x.dtype), mean.reshape(mean.shape[:2]), scale.reshape(mean.shape[:2])


@entry("group_norm")
def group_norm(x: Any, groups: int, gain: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True) -> Any:
    return native_group_norm(x, gain, bias, None, None, None, groups, eps)[0]


def by_given_statistics(x: Any, gain: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    """A batch norm by running statistics."""
    made, _ = normalized(working_array(x), on_channels(x, mean), on_channels(x, var), eps)
    return apply_gain_and_bias(made, on_channels(x, gain), on_channels(x, bias)).astype(x.dtype)


@entry("_native_batch_norm_legit_no_training")
def batch_norm_by_statistics(
    x: Any, gain: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> tuple[Any, ...]:
    none = wnp.zeros((0,), np.float32)
    return by_given_statistics(x, gain, bias, mean, var, eps), none, none


@entry("_native_batch_norm_legit_functional")
def batch_norm_by_batch(
    x: Any, gain: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    if not training:
        return (*batch_norm_by_statistics(x, gain, bias, mean, var, momentum, eps), mean, var)
    made, found, spread, scale = batch_norm_of(x, gain, bias, eps)
    count = x.size // x.shape[1]
    unbiased = spread * cast(count / max(count - 1, 1), spread.dtype) if isinstance(count, int) else spread
    return made, found, scale, moved(mean, found, momentum), moved(var, unbiased, momentum)


@entry("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: Any, gain: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    made, found, _, scale = batch_norm_of(x, gain, bias, eps)
    return made, found, scale


def batch_norm_of(x: Any, gain: Any, bias: Any, eps: float) -> tuple[Any, Any, Any, Any]:
    """A batch norm by the batch: its values, means, biased variances and inverse deviations."""
    wide = working_array(x)
    mean, var = mean_and_variance(wide, (0, *range(2, x.ndim)))
    made, scale = normalized(wide, mean, var, eps)
    y = apply_gain_and_bias(made, on_channels(x, gain), on_channels(x, bias)).astype(x.dtype)
    return y, mean.reshape(-1), var.reshape(-1), scale.reshape(-1)


def moved(held: Any, found: Any, momentum: float) -> Any:
    """A running statistic after one more batch."""
    return held * cast(1 - momentum, held.dtype) + found.astype(held.dtype) * cast(momentum, held.dtype)


@entry("scaled_dot_product_attention")
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    p: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    key: Any = None,
) -> Any:
    options = {"mask": mask, "causal": causal, "p": p, "scale": scale, "key": key if p else None}
    if q.ndim == 2:
        return nn.scaled_dot_product_attention(q[None], k[None], v[None], **options)[0]
    lead = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3]) if enable_gqa else lead_of(q, k, v)
    spread = [x if x.shape[: len(lead)] == lead else wnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (q, k, v)]
    return nn.scaled_dot_product_attention(*(spread if not enable_gqa else (q, k, v)), **options)


def lead_of(*xs: Any) -> tuple[int, ...]:
    """The common leading axes of operands of attention."""
    if len({x.shape[:-2] for x in xs}) == 1:
        return tuple(xs[0].shape[:-2])
    return np.broadcast_shapes(*[x.shape[:-2] for x in xs])


@entry("native_dropout")
def native_dropout(x: Any, p: float, training: bool | None = True, *, key: Any = None) -> tuple[Any, Any]:
    if training is False or p == 0:
        return x, wnp.ones(x.shape, np.bool_)
    made = nn.dropout(wnp.ones(x.shape, x.dtype), p, key)
    return x * made, made != 0


@entry("dropout")
def dropout(x: Any, p: float, training: bool, *, key: Any = None) -> Any:
    return nn.dropout(x, p, key) if training and p else x


@entry("feature_dropout")
def feature_dropout(x: Any, p: float, training: bool, *, key: Any = None) -> Any:
    return nn.channel_dropout(x, p, key) if training and p else x


@entry("alpha_dropout")
def alpha_dropout(x: Any, p: float, training: bool, *, key: Any = None) -> Any:
    if not training or not p:
        return x
    low = -1.7580993408473766
    kept = nn.dropout(wnp.ones(x.shape, x.dtype), p, key) != 0
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    return wnp.where(kept, x, cast(low, x.dtype)) * cast(a, x.dtype) + cast(-a * low * p, x.dtype)


@entry("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(x: Any, target: Any, weight: Any, reduction: int, ignored: int = -100) -> tuple[Any, Any]:
    axis = 0 if x.ndim == 1 else 1
    kept = target != ignored
    safe = wnp.where(kept, target, 0)
    taken = -wnp.squeeze(wnp.take_along_axis(x, wnp.expand_dims(safe, axis), axis=axis), axis=axis)
    each = kept.astype(x.dtype) if weight is None else wnp.where(kept, wnp.take(weight, safe), 0)
    total = wnp.sum(each)
    losses = wnp.where(kept, taken * each, 0)
    if reduction == 0:
        return losses, wnp.zeros_like(total)
    return (wnp.sum(losses) / total if reduction == 1 else wnp.sum(losses)), total


REDUCED = {0: lambda x: x, 1: wnp.mean, 2: wnp.sum}
"""The reductions of a loss, by PyTorch's numbers for them."""


@entry("mse_loss")
def mse_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    return REDUCED[reduction]((x - target) ** 2)


@entry("smooth_l1_loss")
def smooth_l1_loss(x: Any, target: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    return REDUCED[reduction](huber(wnp.abs(x - target), beta) / beta if beta else wnp.abs(x - target))


@entry("huber_loss")
def huber_loss(x: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    return REDUCED[reduction](huber(wnp.abs(x - target), delta))


def huber(off: Any, delta: float) -> Any:
    """Half the square of small distances, a line for large ones."""
    bound = cast(delta, off.dtype)
    return wnp.where(off < bound, off * off / 2, bound * (off - bound / 2))


@custom_jvp
def bernoulli_loss(x: Any, target: Any) -> Any:
    """The negative logarithm of a probability, with logarithms of at least -100."""
    success, failure = bounded_logarithms(x)
    return (target - 1) * failure - target * success


def slope_in_probability(dx: Any, _: Any, x: Any, target: Any) -> Any:
    """A tangent of the loss that is finite at 0 and 1 too, by PyTorch's bound on the divisor."""
    return dx * (x - target) / wnp.maximum((1 - x) * x, cast(1e-12, x.dtype))


def slope_in_target(dtarget: Any, _: Any, x: Any, target: Any) -> Any:
    """The tangent of the loss, which is linear in the target."""
    success, failure = bounded_logarithms(x)
    return dtarget * (failure - success)


bernoulli_loss.defjvps(slope_in_probability, slope_in_target)


def bounded_logarithms(x: Any) -> tuple[Any, Any]:
    """The logarithms of a probability and of its complement, at least -100."""
    least, inside = cast(-100.0, x.dtype), (x != 0) & (x != 1)
    safe = wnp.where(inside, x, cast(0.5, x.dtype))
    success, failure = (wnp.maximum(made, least) for made in (wnp.log(safe), wnp.log1p(-safe)))
    success = wnp.where(inside, success, wnp.where(x == 0, least, 0))
    return success, wnp.where(inside, failure, wnp.where(x == 1, least, 0))


@entry("binary_cross_entropy")
def binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    each = bernoulli_loss(x, target)
    return REDUCED[reduction](each if weight is None else each * weight)


@entry("soft_margin_loss")
def soft_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    return REDUCED[reduction](wnp.log1p(wnp.exp(-target * x)))


@entry("_weight_norm_interface")
def weight_norm(v: Any, g: Any, axis: int = 0) -> tuple[Any, Any]:
    others = tuple(i for i in range(v.ndim) if i != axis)
    size = wnp.sqrt(wnp.sum(v * v, axis=others, keepdims=True))
    return v * (g / size), size


@entry("multilabel_margin_loss")
def multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    places = np.arange(x.shape[-1])
    listed = wnp.cumsum(target < 0, axis=-1) == 0  # the classes before the first negative number
    at = wnp.where(listed, target, 0)
    named = wnp.any(wnp.expand_dims(listed, -1) & (wnp.expand_dims(at, -1) == places), axis=-2)
    gaps = 1 - wnp.expand_dims(wnp.take_along_axis(x, at, axis=-1), -1) + wnp.expand_dims(x, -2)
    counted = wnp.expand_dims(listed, -1) & ~wnp.expand_dims(named, -2)
    losses = wnp.sum(wnp.where(counted, wnp.maximum(gaps, 0), 0), axis=(-2, -1)) / np.asarray(x.shape[-1], x.dtype)
    return REDUCED[reduction](losses)


@entry("rrelu")
def randomized_relu(x: Any, low: float = 1 / 8, high: float = 1 / 3, training: bool = False, *, key: Any = None) -> Any:
    slope = random.uniform(key, x.shape, x.dtype, low, high) if training else cast((low + high) / 2, x.dtype)
    return wnp.where(x > 0, x, x * slope)
