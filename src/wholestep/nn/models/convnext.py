"""ConvNeXt: depthwise convolutions and dense layers over channels, with layer norms and scaled residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import gelu
from wholestep.nn.containers import Sequential
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.pooling import global_avg_pool


class ChannelNorm(LayerNorm):
    """A layer norm over the channels of images."""

    def __call__(self, x: Any) -> Any:
        return wnp.moveaxis(super().__call__(wnp.moveaxis(x, 1, -1)), -1, 1)


class ConvNeXtBlock(Module):
    """A depthwise convolution and two dense layers over channels, scaled and added."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "scale": "layer_scale",
        "convolution": "block.0",
        "norm": "block.2",
        "up": "block.3",
        "down": "block.5",
    }
    undecayed = ("scale",)

    def __init__(self, width: int, *, key: Any) -> None:
        one, two, three = keys_from(key, 3)
        self.convolution = Conv2d(width, width, 7, key=one, padding=3, groups=width)
        self.norm = LayerNorm(width, eps=1e-6)
        self.up, self.down = Linear(width, 4 * width, key=two), Linear(4 * width, width, key=three)
        self.scale = np.full((width, 1, 1), 1e-6, np.float32)

    def __call__(self, x: Any) -> Any:
        mixed = wnp.moveaxis(self.convolution(x), 1, -1)
        h = self.down(gelu(self.up(self.norm(mixed))))
        return x + self.scale * wnp.moveaxis(h, -1, 1)


class ConvNeXt(Module):
    """A ConvNeXt; with the names of torchvision's, whose weights `nn.from_torch` reads.

    `blocks` and `widths` are those of each stage; the preset ones are those of ConvNeXt-tiny. There is no stochastic
    depth. `key` draws the weights.

    Shapes: x floats [n, channels, height, width]; [n, classes].
    Raises: ShapeError for images with another number of channels, ParameterError for stages without blocks.
    Source: Liu et al., "A ConvNet for the 2020s", 2022.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.ConvNeXt((1, 1), (4, 8), classes=10, key=0)
    >>> model(np.ones((2, 3, 32, 32), np.float32)).shape
    (2, 10)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "features": "features",
        "norm": "classifier.0",
        "head": "classifier.2",
    }

    _draws = True

    def __init__(
        self,
        blocks: Sequence[int] = (3, 3, 9, 3),
        widths: Sequence[int] = (96, 192, 384, 768),
        *,
        key: Any = None,
        classes: int = 1000,
        channels: int = 3,
    ) -> None:
        sized("ConvNeXt", **{f"blocks[{i}]": count for i, count in enumerate(blocks)})
        last, *keys = keys_from(key, 1 + len(blocks) + sum(blocks))
        rest = iter(keys)
        self.features = Sequential()
        for i, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            if i:
                reduced = Conv2d(widths[i - 1], width, 2, key=next(rest), stride=2)
                self.features.layers.append(Sequential(ChannelNorm(widths[i - 1], eps=1e-6), reduced))
            else:
                stem = Conv2d(channels, width, 4, key=next(rest), stride=4)
                self.features.layers.append(Sequential(stem, ChannelNorm(width, eps=1e-6)))
            self.features.layers.append(Sequential(*[ConvNeXtBlock(width, key=next(rest)) for _ in range(count)]))
        self.norm, self.head = LayerNorm(widths[-1], eps=1e-6), Linear(widths[-1], classes, key=last)

    def __call__(self, x: Any) -> NDArray:
        return self.head(self.norm(global_avg_pool(self.features(x))))
