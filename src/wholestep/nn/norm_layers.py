"""Normalisations as layers: a gain that begins at 1 and a bias that begins at 0, and the statistics of batch norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.batching import pmean, psum
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.annotations import buffer
from wholestep.nn.linears import sized
from wholestep.nn.module import Module
from wholestep.nn.normalization import (
    batch_norm,
    but_channels,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    mean_and_variance,
    rms_norm,
)
from wholestep.nn.windows import type_text
from wholestep.numpy.reductions import traced_count
from wholestep.numpy.working_precision import working_array

GAIN = {"gain": "weight"}


class Normalization(Module):
    """The common part of normalisations: a gain that begins at 1 and a bias that begins at 0, where they are wanted."""

    undecayed = ("gain", "bias")
    torch_names = GAIN

    def begin(self, shape: tuple[int, ...], dtype: Any, *, gain: bool = True, bias: bool = True) -> None:
        """Make both, or None in their place."""
        self.gain = init.ones(shape, dtype) if gain else None
        self.bias = init.zeros(shape, dtype) if bias else None

    def last_axes(self, size: int | Sequence[int]) -> tuple[int, ...]:
        """The sizes of the last axes; raises ParameterError for a size that is not a positive integer."""
        shape = tuple(size) if isinstance(size, Sequence) else (size,)
        sized(type(self).__name__, **{f"size {i}": n for i, n in enumerate(shape)})
        return shape


class LayerNorm(Normalization):
    """`layer_norm` over the last axes, whose sizes are given, with a gain and a bias of its own.

    `eps` is that of `layer_norm`. `bias=False` leaves the bias out, and `dtype` is that of the parameters.

    Shapes: x floats [..., *size]; the same. `gain` and `bias` have shape size.
    Raises: ParameterError for sizes that are not positive integers, and as `layer_norm` does.
    Source: as `layer_norm`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.LayerNorm(2)(np.array([[1.0, 3.0]], np.float32)).round(3).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self, size: int | Sequence[int], *, eps: float = 1e-5, bias: bool = True, dtype: Any = np.float32
    ) -> None:
        self.begin(self.last_axes(size), dtype, bias=bias)
        self.eps = eps

    def __call__(self, x: Any) -> NDArray:
        return layer_norm(x, self.gain, self.bias, self.eps)


class RMSNorm(Normalization):
    """`rms_norm` over the last axes, whose sizes are given, with a gain of its own.

    `eps` is that of `rms_norm`, and `dtype` that of the gain.

    Shapes: x floats [..., *size]; the same. `gain` has shape size.
    Raises: ParameterError for sizes that are not positive integers, and as `rms_norm` does.
    Source: as `rms_norm`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.RMSNorm(2)(np.array([[3.0, 3.0]], np.float32)).round(3).tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, size: int | Sequence[int], *, eps: float = 1e-5, dtype: Any = np.float32) -> None:
        self.gain = init.ones(self.last_axes(size), dtype)
        self.eps = eps

    def __call__(self, x: Any) -> NDArray:
        return rms_norm(x, self.gain, self.eps)


class BatchNorm(Normalization):
    """Batch normalisation of channels: by the batch in training, by running statistics in evaluation.

    In training `mean` and `var` move towards the batch's mean and unbiased variance by `momentum` of the way, and the
    result is normalized by the biased variance; of a single number per channel both variances are 0. `eps` is added to
    the variance, `affine=False` leaves gain and bias out, and `dtype` is that of all arrays.

    `axis_name` names an axis of `vmap` or of a mesh: the batch is then that of all its elements or processes together,
    each of which has as many samples.

    Shapes: x floats [n, channels, ...]; the same. `gain`, `bias` and the buffers `mean` and `var` are [channels].
    Raises: ParameterError for a momentum outside [0, 1], ShapeError for another number of channels, and as `ws.psum`
    does for an axis that is not there.
    Source: as `batch_norm`.

    >>> import numpy as np, wholestep as ws
    >>> norm = ws.nn.BatchNorm(1)
    >>> norm(np.array([[1.0], [3.0]], np.float32)).round(3).tolist()
    [[-1.0], [1.0]]
    >>> norm.mean.round(3).tolist(), norm.var.round(3).tolist()
    ([0.20000000298023224], [1.100000023841858])
    """

    torch_names = GAIN | {"mean": "running_mean", "var": "running_var"}

    def __init__(
        self,
        channels: int,
        *,
        momentum: float = 0.1,
        eps: float = 1e-5,
        affine: bool = True,
        axis_name: str | None = None,
        dtype: Any = np.float32,
    ) -> None:
        sized("BatchNorm", channels=channels)
        if not 0 <= momentum <= 1:
            raise ParameterError(f"BatchNorm: momentum is {momentum}; it must be in [0, 1]")
        self.begin((channels,), dtype, gain=affine, bias=affine)
        self.mean: Any = buffer(init.zeros((channels,), dtype))
        self.var: Any = buffer(init.ones((channels,), dtype))
        self.momentum, self.eps, self.axis_name = momentum, eps, axis_name

    def __call__(self, x: Any) -> NDArray:
        x, channels = wnp.asarray(x), len(self.mean)
        if x.ndim < 2 or x.shape[1] != channels:
            raise ShapeError(f"BatchNorm: x is {type_text(x)}; axis 1 must be the {channels} channels")
        if not self.training:
            return batch_norm(x, self.gain, self.bias, mean=self.mean, var=self.var, eps=self.eps)
        count, wide, axes = x.size // x.shape[1], working_array(x), but_channels(x)
        if self.axis_name is None:
            self.follow(*mean_and_variance(wide, axes), count)
            return batch_norm(x, self.gain, self.bias, eps=self.eps)
        mean = pmean(wnp.mean(wide, axis=axes), self.axis_name)
        centred = wide - mean.reshape(-1, *[1] * (x.ndim - 2))
        var = pmean(wnp.mean(centred * centred, axis=axes), self.axis_name)
        self.follow(mean, var, psum(np.float64(1.0), self.axis_name) * count)
        return batch_norm(x, self.gain, self.bias, mean=mean, var=var, eps=self.eps)

    def follow(self, mean: Any, var: Any, count: Any) -> None:
        """Move the running statistics towards those of a batch with `count` numbers for each channel."""
        found_mean, found_var = [stop_gradient(m).reshape(-1) for m in (mean, var)]
        self.mean = self.toward(self.mean, found_mean)
        self.var = self.toward(self.var, unbiased(found_var, count))

    def toward(self, held: Any, found: Any) -> Any:
        """A running statistic after one more batch, in its own dtype."""
        return ((1 - self.momentum) * held + self.momentum * found.astype(held.dtype)).astype(held.dtype)


def unbiased(var: Any, count: Any) -> Any:
    """The unbiased estimate of a variance from that of `count` numbers; `count` may be a symbolic size."""
    if isinstance(count, int):
        return var * (count / max(count - 1, 1))
    return var * count / wnp.maximum(traced_count(count) - 1, 1)


class GroupNorm(Normalization):
    """`group_norm` of `groups` groups of channels, with a gain and a bias [channels] of its own.

    `eps` is that of `group_norm`. `affine=False` leaves gain and bias out, and `dtype` is that of both.

    Shapes: x floats [n, channels, ...]; the same. `gain` and `bias` are [channels].
    Raises: ParameterError for groups that do not divide the channels, and as `group_norm` does.
    Source: as `group_norm`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.GroupNorm(2, 4)(np.array([[1.0, 3.0, 0.0, 2.0]], np.float32)).round(3).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """

    def __init__(
        self, groups: int, channels: int, *, eps: float = 1e-5, affine: bool = True, dtype: Any = np.float32
    ) -> None:
        sized("GroupNorm", groups=groups, channels=channels)
        if channels % groups:
            raise ParameterError(f"GroupNorm: {groups} groups do not divide {channels} channels")
        self.begin((channels,), dtype, gain=affine, bias=affine)
        self.groups, self.eps = groups, eps

    def __call__(self, x: Any) -> NDArray:
        return group_norm(x, self.groups, self.gain, self.bias, self.eps)


class InstanceNorm(Normalization):
    """`instance_norm`, with a gain and a bias [channels] of its own if `affine`.

    `eps` is that of `instance_norm`, and `dtype` that of gain and bias.

    Shapes: x floats [n, channels, ..., places]; the same. `gain` and `bias` are [channels].
    Raises: ParameterError for channels that are no positive integer, and as `instance_norm` does.
    Source: as `instance_norm`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.InstanceNorm(1)(np.array([[[1.0, 3.0]]], np.float32)).round(3).tolist()
    [[[-1.0, 1.0]]]
    """

    def __init__(self, channels: int, *, eps: float = 1e-5, affine: bool = False, dtype: Any = np.float32) -> None:
        sized("InstanceNorm", channels=channels)
        self.begin((channels,), dtype, gain=affine, bias=affine)
        self.eps = eps

    def __call__(self, x: Any) -> NDArray:
        return instance_norm(x, self.gain, self.bias, self.eps)


class LocalResponseNorm(Module):
    """`local_response_norm` over `size` neighbouring channels.

    Other options are those of `local_response_norm`.

    Shapes: x floats [n, channels, ...]; the same.
    Raises: as `local_response_norm` does.
    Source: as `local_response_norm`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.LocalResponseNorm(1, alpha=3.0, beta=1.0)(np.array([[1.0, 2.0]])).round(4).tolist()
    [[0.25, 0.1538]]
    """

    def __init__(self, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        sized("LocalResponseNorm", size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def __call__(self, x: Any) -> NDArray:
        return local_response_norm(x, self.size, alpha=self.alpha, beta=self.beta, k=self.k)
