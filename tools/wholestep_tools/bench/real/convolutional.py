"""Convolutional networks: ResNet-18, a MobileNet, a U-Net and a WaveNet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep_tools.bench.draws import Arrays, labels, normal
from wholestep_tools.bench.real.losses import Classifier, Regressor
from wholestep_tools.bench.real.operations import Operations


def kernel(rng: np.random.Generator, out: int, into: int, *size: int) -> Any:
    """The kernel [out, into, *size] of a convolution before a ReLU."""
    return normal(rng, (out, into, *size), (2 / (into * np.prod(size))) ** 0.5)


def normalized(rng: np.random.Generator, name: str, out: int, into: int, size: int) -> Arrays:
    """A kernel, and the gain and bias of the norm behind it."""
    weights = kernel(rng, out, into, size, size)
    return {name: weights, f"{name}_gain": np.ones(out, np.float32), f"{name}_bias": np.zeros(out, np.float32)}


def convolved(on: Operations, p: Any, name: str, x: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    """A convolution and its norm."""
    h = on.conv2d(x, p[name], stride, padding, groups)
    return on.batch_norm(h, p[f"{name}_gain"], p[f"{name}_bias"])


@dataclass(frozen=True)
class ResNet18(Classifier):
    """ResNet-18; images of 32 by 32 enter by a 3x3 kernel, larger ones by one of 7x7 and a pool."""

    size: int
    rows: int
    classes: int

    def blocks(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, channels in, channels out and stride of each block."""
        into = 64
        for stage, out in enumerate((64, 128, 256, 512)):
            for k in range(2):
                yield f"block{stage}{k}", into, out, 2 if stage and not k else 1
                into = out

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The first kernel, those of the blocks with their shortcuts, and the head."""
        params = normalized(rng, "first", 64, 3, 3 if self.size < 64 else 7)
        for name, into, out, _ in self.blocks():
            params |= normalized(rng, f"{name}a", out, into, 3) | normalized(rng, f"{name}b", out, out, 3)
            if into != out:
                params |= normalized(rng, f"{name}c", out, into, 1)
        return params | {"head": normal(rng, (512, self.classes), 512**-0.5)}

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Images and their classes."""
        return {"x": normal(rng, (self.rows, 3, self.size, self.size)), "y": labels(rng, self.classes, (self.rows,))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, classes]."""
        if self.size < 64:
            h = on.relu(convolved(on, p, "first", x, 1, 1))
        else:
            h = on.max_pool2d(on.relu(convolved(on, p, "first", x, 2, 3)), 3, 2, 1)
        for name, into, out, stride in self.blocks():
            inner = on.relu(convolved(on, p, f"{name}a", h, stride, 1))
            inner = convolved(on, p, f"{name}b", inner, 1, 1)
            h = on.relu(inner + (h if into == out else convolved(on, p, f"{name}c", h, stride)))
        return on.mean(h, on.image.places) @ p["head"]


@dataclass(frozen=True)
class MobileNet(Classifier):
    """Depthwise convolutions of 3x3, each followed by one of 1x1, with a norm and a ReLU behind each."""

    size: int = 64
    rows: int = 16
    classes: int = 100
    layers: tuple[tuple[int, int, int], ...] = (
        (32, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    )
    """Channels in, channels out and stride."""

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The first kernel, two for each layer, and the head."""
        params = normalized(rng, "first", 32, 3, 3)
        for i, (into, out, _) in enumerate(self.layers):
            params |= normalized(rng, f"depth{i}", into, 1, 3) | normalized(rng, f"point{i}", out, into, 1)
        return params | {"head": normal(rng, (512, self.classes), 512**-0.5)}

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Images and their classes."""
        return {"x": normal(rng, (self.rows, 3, self.size, self.size)), "y": labels(rng, self.classes, (self.rows,))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, classes]."""
        h = on.relu(convolved(on, p, "first", x, 2, 1))
        for i, (into, _, stride) in enumerate(self.layers):
            h = on.relu(convolved(on, p, f"depth{i}", h, stride, 1, into))
            h = on.relu(convolved(on, p, f"point{i}", h))
        return on.mean(h, on.image.places) @ p["head"]


@dataclass(frozen=True)
class UNet(Regressor):
    """A U-Net of three scales from images to images, with 32, 64 and 128 channels."""

    size: int = 128
    rows: int = 2
    channels: int = 32

    def stages(self) -> Iterator[tuple[str, int, int]]:
        """Name, channels in and channels out of each pair of convolutions."""
        c = self.channels
        yield from (("down0", 3, c), ("down1", c, 2 * c), ("down2", 2 * c, 4 * c))
        yield from (("up1", 6 * c, 2 * c), ("up0", 3 * c, c))

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Two kernels for each stage, and the last one."""
        params = {"last": kernel(rng, 1, self.channels, 1, 1)}
        for name, into, out in self.stages():
            params |= {f"{name}a": kernel(rng, out, into, 3, 3), f"{name}b": kernel(rng, out, out, 3, 3)}
        return params

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Images of three channels, and those of one that are asked for."""
        return {
            "x": normal(rng, (self.rows, 3, self.size, self.size)),
            "y": normal(rng, (self.rows, 1, self.size, self.size)),
        }

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Images of one channel."""

        def stage(name: str, h: Any) -> Any:
            h = on.relu(on.conv2d(h, p[f"{name}a"], 1, 1))
            return on.relu(on.conv2d(h, p[f"{name}b"], 1, 1))

        wide = stage("down0", x)
        half = stage("down1", on.max_pool2d(wide, 2, 2))
        low = stage("down2", on.max_pool2d(half, 2, 2))
        h = stage("up1", on.concatenate([on.upsample2d(low), half], on.image.channels))
        h = stage("up0", on.concatenate([on.upsample2d(h), wide], on.image.channels))
        return on.conv2d(h, p["last"])


@dataclass(frozen=True)
class WaveNet(Regressor):
    """Gated causal convolutions, each looking back twice as far, with a sum of skips."""

    time: int = 4096
    rows: int = 4
    channels: int = 64
    layers: int = 10

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The first and the last kernel, and three for each layer."""
        c = self.channels
        params = {"first": kernel(rng, c, 1, 1), "last": kernel(rng, 1, c, 1)}
        for i in range(self.layers):
            params |= {f"filter{i}": kernel(rng, c, c, 2), f"gate{i}": kernel(rng, c, c, 2)}
            params[f"skip{i}"] = kernel(rng, c, c, 1)
        return params

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Signals, and those that are asked for."""
        shape = self.rows, 1, self.time
        return {"x": normal(rng, shape), "y": normal(rng, shape)}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Signals."""
        h = on.causal_conv1d(x, p["first"], 1)
        skips = []
        for i in range(self.layers):
            gate = on.sigmoid(on.causal_conv1d(h, p[f"gate{i}"], 2**i))
            skips.append(on.causal_conv1d(on.tanh(on.causal_conv1d(h, p[f"filter{i}"], 2**i)) * gate, p[f"skip{i}"], 1))
            h = h + skips[-1]
        return on.causal_conv1d(on.relu(sum(skips)), p["last"], 1)
