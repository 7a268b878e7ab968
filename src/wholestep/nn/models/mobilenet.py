"""MobileNet-v3: inverted residuals with depthwise convolutions, gates over channels and hard activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import NDArray
from wholestep.nn.activations import hardsigmoid, hardswish, relu
from wholestep.nn.containers import Sequential
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import BatchNorm
from wholestep.nn.pooling import global_avg_pool


class Inverted(NamedTuple):
    """The sizes of an inverted residual: its window, the channels inside and out, gate, hard activation, stride."""

    size: int
    inside: int
    outputs: int
    gated: bool
    hard: bool
    stride: int


SMALL = (
    Inverted(3, 16, 16, True, False, 2),
    Inverted(3, 72, 24, False, False, 2),
    Inverted(3, 88, 24, False, False, 1),
    Inverted(5, 96, 40, True, True, 2),
    Inverted(5, 240, 40, True, True, 1),
    Inverted(5, 240, 40, True, True, 1),
    Inverted(5, 120, 48, True, True, 1),
    Inverted(5, 144, 48, True, True, 1),
    Inverted(5, 288, 96, True, True, 2),
    Inverted(5, 576, 96, True, True, 1),
    Inverted(5, 576, 96, True, True, 1),
)
"""The inverted residuals of MobileNet-v3 small."""


class ChannelGate(Module):
    """Channels times a function of all channels' means."""

    torch_names = {"down": "fc1", "up": "fc2"}  # noqa: RUF012  # a ClassVar by its annotation in Module

    def __init__(self, channels: int, *, key: Any) -> None:
        one, two = keys_from(key, 2)
        inner = by_eight(channels // 4)
        self.down, self.up = Conv2d(channels, inner, 1, key=one), Conv2d(inner, channels, 1, key=two)

    def __call__(self, x: Any) -> Any:
        means = global_avg_pool(x)[:, :, None, None]
        return x * hardsigmoid(self.up(relu(self.down(means))))


class InvertedResidual(Module):
    """A depthwise convolution between two 1x1 convolutions, with a residual connection where the shapes are equal."""

    torch_names = {"layers": "block"}  # noqa: RUF012  # a ClassVar by its annotation in Module

    def __init__(self, inputs: int, sizes: Inverted, *, key: Any) -> None:
        one, two, three, four = keys_from(key, 4)
        window, inside, activation = sizes.size, sizes.inside, hardswish if sizes.hard else relu
        layers: list[Any] = [] if inside == inputs else [normed(inputs, inside, 1, key=one, activation=activation)]
        layers.append(
            normed(inside, inside, window, key=two, stride=sizes.stride, groups=inside, activation=activation)
        )
        layers += [ChannelGate(inside, key=three)] if sizes.gated else []
        self.layers = Sequential(*layers, normed(inside, sizes.outputs, 1, key=four, activation=None))
        self.added = sizes.stride == 1 and inputs == sizes.outputs

    def __call__(self, x: Any) -> Any:
        return x + self.layers(x) if self.added else self.layers(x)


class MobileNetV3(Module):
    """A MobileNet-v3; with the names of torchvision's, whose weights `nn.from_torch` reads.

    `residuals` are tuples (window, channels inside, channels out, gated, hard activation, stride); the preset sizes are
    those of MobileNet-v3 small. The head has a layer `hidden` wide and `dropout`, a probability, in front of the last
    one, which needs a `key` in training; `key` draws the weights.

    Shapes: x floats [n, channels, height, width]; [n, classes].
    Raises: ShapeError for images with another number of channels.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.MobileNetV3([(3, 16, 16, True, False, 2)], hidden=8, classes=10, key=0).eval()
    >>> model(np.ones((2, 3, 32, 32), np.float32)).shape
    (2, 10)
    """

    torch_names = {"head": "classifier"}  # noqa: RUF012  # a ClassVar by its annotation in Module

    _draws = True

    def __init__(
        self,
        residuals: Sequence[Sequence[Any]] = SMALL,
        *,
        key: Any = None,
        hidden: int = 1024,
        classes: int = 1000,
        channels: int = 3,
        dropout: float = 0.2,
    ) -> None:
        first, before, one, two, *keys = keys_from(key, 4 + len(residuals))
        layers: list[Any] = [normed(channels, 16, 3, key=first, stride=2, activation=hardswish)]
        inputs = 16
        for sizes, k in zip([Inverted(*sizes) for sizes in residuals], keys, strict=True):
            layers.append(InvertedResidual(inputs, sizes, key=k))
            inputs = sizes.outputs
        width = 6 * inputs
        self.features = Sequential(*layers, normed(inputs, width, 1, key=before, activation=hardswish))
        self.head = Sequential(
            Linear(width, hidden, key=one), hardswish, Dropout(dropout), Linear(hidden, classes, key=two)
        )

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        return self.head(global_avg_pool(self.features(x)), key=key)


def normed(
    inputs: int, outputs: int, size: int, *, key: Any, activation: Any, stride: int = 1, groups: int = 1
) -> Sequential:
    """A convolution, its batch norm and an activation, if any."""
    convolution = Conv2d(inputs, outputs, size, key=key, stride=stride, padding=size // 2, groups=groups, bias=False)
    norm = BatchNorm(outputs, eps=0.001, momentum=0.01)
    return Sequential(convolution, norm) if activation is None else Sequential(convolution, norm, activation)


def by_eight(count: int) -> int:
    """`count` channels rounded to a multiple of eight, at least 8 and at least nine tenths of `count`."""
    rounded = max(8, (count + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * count else rounded
