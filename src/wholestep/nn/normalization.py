"""Normalisation: subtract a mean, divide by a standard deviation, then a gain and a bias. Which axes makes the kind.

Epsilon is added to the variance, inside the root. Half precisions are computed in float32.
"""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.custom import composite
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single
from wholestep.nn.windows import floating, type_text
from wholestep.numpy.working_precision import working_array


def layer_norm(x: Any, gain: Any = None, bias: Any = None, eps: float = 1e-5) -> NDArray:
    """Mean 0 and variance 1 over the last axes, then a gain and a bias.

    Over as many axes as `gain` has, or `bias`, or the last one. `eps` is added to the variance.

    Shapes: x floats [..., *size], gain and bias of shape size; the shape and dtype of x.
    Raises: ShapeError where they do not fit, DtypeError for an x that is not floating, ParameterError for a negative
    eps.
    Source: Ba, Kiros and Hinton, "Layer normalization", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.layer_norm(np.array([1.0, 3.0])).round(4).tolist()
    [-1.0, 1.0]
    """
    a, axes = over_last("layer_norm", x, eps, gain, bias)
    return in_single(lambda v: apply_gain_and_bias(standardize(v, axes, eps), gain, bias), a)


def rms_norm(x: Any, gain: Any = None, eps: float = 1e-5) -> NDArray:
    """x divided by its root mean square over the last axes, without subtracting a mean, then times a gain.

    `eps` is added to the mean square.

    Shapes: x floats [..., *size], gain of shape size, by default the last axis; the shape and dtype of x.
    Raises: as `layer_norm` does.
    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.rms_norm(np.array([3.0, 3.0])).round(4).tolist()
    [1.0, 1.0]
    """
    a, axes = over_last("rms_norm", x, eps, gain)
    return in_single(
        lambda v: apply_gain_and_bias(v / wnp.sqrt(wnp.mean(v * v, axis=axes, keepdims=True) + eps), gain, None), a
    )


def batch_norm(
    x: Any, gain: Any = None, bias: Any = None, *, mean: Any = None, var: Any = None, eps: float = 1e-5
) -> NDArray:
    """Normalise each channel (axis 1) over the batch and all places.

    With `mean` and `var`, by these instead of the batch's own, as in prediction. The variance of the batch is the
    biased one. `eps` is added to it; `gain` and `bias` then scale and shift each channel.

    Shapes: x floats [n, channels, ...], all others [channels]; the shape and dtype of x.
    Raises: as `layer_norm` does, and ParameterError for one of mean and var without the other.
    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.batch_norm(np.array([[1.0, 5.0], [3.0, 5.0]])).round(4).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    name, a = "batch_norm", check_operand("batch_norm", x, eps, 2)
    if (mean is None) != (var is None):
        raise ParameterError(
            f"{name}: one of mean and var without the other", hint="give both, or none for the batch's"
        )
    each = [on_channels(name, what, a, v) for what, v in zip(PARTS, (gain, bias, mean, var), strict=True)]

    def of(v: Any) -> Any:
        if mean is None:
            return normalized_batch(v, each[0], each[1], eps)
        return apply_gain_and_bias((v - each[2]) / wnp.sqrt(each[3] + eps), *each[:2])

    return in_single(of, a)


def normalized_batch(x: Any, gain: Any, bias: Any, eps: float) -> Any:
    """Each channel by the mean and variance of the batch, with a gain and a bias where there are any.

    The pullback is that of Ioffe and Szegedy, section 3, written so that two sums over all places are all it takes.
    """
    axes = but_channels(x)

    def standard(x: Any) -> tuple[Any, Any]:
        mean, var = mean_and_variance(x, axes)
        root = wnp.sqrt(var + eps)
        return (x - mean) / root, root

    given = [part for part in (gain, bias) if part is not None]

    def forward(x: Any, *parts: Any) -> Any:
        rest = iter(parts)
        return apply_gain_and_bias(standard(x)[0], *[None if part is None else next(rest) for part in (gain, bias)])

    def pullback(args: Any, y: Any, g: Any) -> Any:
        x, *parts = args
        unit, root = standard(x)
        scale = working_array(parts[0]) / root if gain is not None else 1 / root
        centred, along = [wnp.mean(v, axis=axes, keepdims=True) for v in (g, g * unit)]
        gx = scale * (g - centred - unit * along)
        summed = [wnp.sum(v, axis=axes) for v, part in ((g * unit, gain), (g, bias)) if part is not None]
        return gx, *[v.reshape(part.shape) for v, part in zip(summed, parts, strict=True)]

    made = composite(forward, name="batch_norm", narrow=True)
    made.defvjp(pullback)
    return made(x, *given)


PARTS = ("gain", "bias", "mean", "var")


def instance_norm(x: Any, gain: Any = None, bias: Any = None, eps: float = 1e-5) -> NDArray:
    """Normalise each channel (axis 1) of each sample over its places.

    `eps` is added to the variance.

    Shapes: x floats [n, channels, ..., places], gain and bias [channels]; the shape and dtype of x.
    Raises: as `layer_norm` does, and ShapeError for an x without places.
    Source: Ulyanov, Vedaldi and Lempitsky, "Instance normalization: the missing ingredient for fast stylization", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.instance_norm(np.array([[[1.0, 3.0]]])).round(4).tolist()
    [[[-1.0, 1.0]]]
    """
    a = check_operand("instance_norm", x, eps, 3)
    each = [on_channels("instance_norm", what, a, v) for what, v in zip(PARTS, (gain, bias), strict=False)]
    return in_single(lambda v: apply_gain_and_bias(standardize(v, tuple(range(2, v.ndim)), eps), *each), a)


def group_norm(x: Any, groups: int, gain: Any = None, bias: Any = None, eps: float = 1e-5) -> NDArray:
    """Normalise groups of channels (axis 1) of each sample, over their places too.

    `eps` is added to the variance.

    Shapes: x floats [n, channels, ...], gain and bias [channels]; the shape and dtype of x.
    Raises: as `layer_norm` does, and ShapeError for groups that do not divide the channels.
    Source: Wu and He, "Group normalization", 2018.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.group_norm(np.array([[1.0, 3.0, 0.0, 2.0]]), 2).round(4).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    a = check_operand("group_norm", x, eps, 2)
    if groups < 1 or a.shape[1] % groups:
        raise ShapeError(f"group_norm: {groups} groups do not divide the {a.shape[1]} channels of {type_text(a)}")
    each = [on_channels("group_norm", what, a, v) for what, v in zip(PARTS, (gain, bias), strict=False)]

    def of(v: Any) -> Any:
        split = v.reshape(v.shape[0], groups, v.shape[1] // groups, *v.shape[2:])
        return apply_gain_and_bias(standardize(split, tuple(range(2, split.ndim)), eps).reshape(v.shape), *each)

    return in_single(of, a)


def standardize(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    """Mean 0 and variance 1 over some axes."""
    centred = x - wnp.mean(x, axis=axes, keepdims=True)
    return centred / wnp.sqrt(wnp.mean(centred * centred, axis=axes, keepdims=True) + eps)


def mean_and_variance(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and biased variance over some axes, which are kept with size 1."""
    mean = wnp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    return mean, wnp.mean(centred * centred, axis=axes, keepdims=True)


def but_channels(x: Any) -> tuple[int, ...]:
    """All axes but axis 1."""
    return (0, *range(2, x.ndim))


def apply_gain_and_bias(x: Any, gain: Any, bias: Any) -> Any:
    """x with a gain and a bias, where there are any."""
    y = x if gain is None else x * working_array(gain)
    return y if bias is None else y + working_array(bias)


def check_operand(name: str, x: Any, eps: float, least: int) -> Any:
    """A floating array of `least` axes or more; raises DtypeError, ShapeError or ParameterError."""
    a = floating(name, x)
    if a.ndim < least:
        raise ShapeError(f"{name}: x is {type_text(a)}; it must have {least} axes or more")
    if not eps >= 0:
        raise ParameterError(f"{name}: eps is {eps}; it must be 0 or more")
    return a


def over_last(name: str, x: Any, eps: float, *parts: Any) -> tuple[Any, tuple[int, ...]]:
    """The array, and the last axes that gain and bias have; raises ShapeError where they do not fit."""
    a = check_operand(name, x, eps, 1)
    shapes = [wnp.asarray(part).shape for part in parts if part is not None]
    wanted = shapes[0] if shapes else a.shape[-1:]
    if not wanted or any(shape != wanted for shape in shapes) or a.shape[-len(wanted) :] != wanted:
        raise ShapeError(
            f"{name}: gain and bias of shapes {shapes} for x {type_text(a)}", hint="its last axes, both alike"
        )
    return a, tuple(range(-len(wanted), 0))


def on_channels(name: str, what: str, x: Any, part: Any) -> Any:
    """One number for each channel, shaped to stand along axis 1; raises ShapeError for another number of them."""
    if part is None:
        return None
    each = wnp.asarray(part)
    if each.shape != (x.shape[1],):
        raise ShapeError(f"{name}: {what} is {type_text(each)} for x {type_text(x)}; it must be [{x.shape[1]}]")
    return working_array(each).reshape(-1, *[1] * (x.ndim - 2))


def local_response_norm(x: Any, size: int, *, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> NDArray:
    """x / (k + alpha * m)**beta, with m the mean of squares over `size` neighbouring channels, zeros beyond the ends.

    For an even size the window has one more channel before than after.

    Shapes: x floats [n, channels, ...]; the same.
    Raises: ParameterError for a size that is no positive integer, ShapeError and DtypeError for another x.
    Source: Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural networks", 2012,
    with the mean for the sum as in PyTorch.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.local_response_norm(np.array([[1.0, 2.0]]), 1, alpha=3.0, beta=1.0).round(4).tolist()
    [[0.25, 0.1538]]
    """
    a = check_operand("local_response_norm", x, 0.0, 2)
    if not is_integer(size) or size < 1:
        raise ParameterError(f"local_response_norm: size is {size!r}; it must be a positive integer")
    channels = a.shape[1]

    def of(v: Any) -> Any:
        around = [(0, 0)] * v.ndim
        around[1] = (size // 2, (size - 1) // 2)
        squares = wnp.pad(v * v, around)
        total = sum(squares[:, i : i + channels] for i in range(1, size)) + squares[:, :channels]
        return v / (k + alpha / size * total) ** beta

    return in_single(of, a)
