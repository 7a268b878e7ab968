"""Random convolutional networks at the sizes of real layers: compiled results and gradients are the reference's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn

NETWORKS, PARTS = 48, 8
CHANNELS = (8, 16, 17, 24, 32, 48, 64, 96, 128)
MOST_ELEMENTS = 200_000

Array = np.ndarray[Any, Any]
Layer = Callable[[list[Any], Any], Any]


class Network:
    """Layers drawn one after the other, their parameters, and the shape that the last one gives."""

    def __init__(self, seed: int) -> None:
        self.draw, self.rng = random.Random(seed), np.random.default_rng(seed)
        side = self.draw.choice((7, 8, 12, 14, 20, 28))
        self.shape: tuple[int, ...] = (self.draw.choice((1, 2, 3)), self.draw.choice(CHANNELS), side, side)
        self.x = self.drawn(*self.shape)
        self.layers: list[Layer] = []
        self.params: list[Array] = []
        self.words: list[str] = []
        for _ in range(self.draw.randint(2, 5)):
            last = len(self.shape) == 4 and self.words.count("channels last") % 2
            kinds = (self.linear, self.norm, self.gelu) if last else (self.convolution, self.convolution, self.scale)
            self.draw.choice((*kinds, self.move, self.gelu, self.center))(1 if not last else 3)
            if np.prod(self.shape) > MOST_ELEMENTS:
                break

    def drawn(self, *shape: int) -> Array:
        return self.rng.normal(size=shape).astype(np.float32)

    def add(self, word: str, layer: Callable[..., Any], *params: Array) -> None:
        """A layer, which gets its own parameters behind its input."""
        first = len(self.params)
        self.params += params
        self.words.append(word)
        self.layers.append(lambda p, x: layer(x, *p[first : first + len(params)]))

    def convolution(self, channels: int) -> None:
        n, c, side, _ = self.shape
        groups = self.draw.choice([g for g in (1, 1, 2, 4, c, c) if c % g == 0])
        out = groups * self.draw.choice((1, 1, 2) if groups == c else (4, 8, 16, 17, 32))
        size, stride = self.draw.choice((1, 2, 3, 3, 5, 7)), self.draw.choice((1, 1, 1, 2))
        padding = self.draw.choice((0, 3))
        if size > side + 2 * padding:
            return
        weight = self.drawn(out, c // groups, size, size) / np.float32((c // groups * size**2) ** 0.5)
        self.add(
            f"convolution {weight.shape} by {stride}, {groups} groups",
            lambda x, w: nn.conv2d(x, w, stride=stride, padding=padding, groups=groups),
            weight,
        )
        side = (side + 2 * padding - size) // stride + 1
        self.shape = (n, out, side, side)

    def linear(self, channels: int) -> None:
        out = self.draw.choice(CHANNELS)
        weight = self.drawn(self.shape[3], out) / np.float32(self.shape[3] ** 0.5)
        self.add(f"linear {weight.shape}", lambda x, w: x @ w, weight)
        self.shape = (*self.shape[:3], out)

    def move(self, channels: int) -> None:
        other = 4 - channels
        self.add("channels last", lambda x: np.moveaxis(x, channels, other))
        self.shape = tuple(np.moveaxis(np.empty(self.shape), channels, other).shape)

    def scale(self, channels: int) -> None:
        self.add("scale", lambda x, w: x * w[:, None, None], self.drawn(self.shape[1]))

    def center(self, channels: int) -> None:
        self.add("center", lambda x: x - 0.5 * np.mean(x, channels, keepdims=True))

    def norm(self, channels: int) -> None:
        self.add("norm", lambda x, w: x / np.sqrt(np.var(x, -1, keepdims=True) + 0.1) * w, self.drawn(self.shape[3]))

    def gelu(self, channels: int) -> None:
        self.add("gelu", lambda x: nn.gelu(x))

    def __call__(self, params: list[Any], x: Any) -> Any:
        for layer in self.layers:
            x = layer(params, x)
        return x


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled_networks_are_those_of_the_reference(part: int) -> None:
    for seed in range(part, NETWORKS, PARTS):
        net = Network(seed)
        weights = net.drawn(*net.shape)

        def loss(params: Any, x: Any, net: Network = net, weights: Array = weights) -> Any:
            return np.sum(net(params, x) * weights)

        for f in (net, ws.grad(loss, (0, 1))):
            found, expected = [
                ws.tree.leaves(ws.jit(f, device=device)(net.params, net.x)) for device in ("cpu", "reference")
            ]
            largest = max(np.abs(b).max() for b in expected)
            for a, b in zip(found, expected, strict=True):
                assert np.abs(a - b).max() <= 5e-4 * max(np.abs(b).max(), 1e-2 * largest), net.words
