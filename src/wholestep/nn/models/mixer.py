"""MLP-Mixer: patches of an image, mixed by dense layers along the places and along the channels in turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ModelError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.models.configurations import hidden_ratio, refuse_parts, square_side
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import FeedForward
from wholestep.nn.windows import type_text

PRESETS = {"s": (8, 512), "b": (12, 768), "l": (24, 1024)}
"""The number of blocks and the width of the published sizes."""
ARGUMENTS = ("img_size", "mlp_ratio", "in_chans")
"""The sizes that a configuration of timm may say beside the name of an MLP-Mixer."""


class MixerBlock(Module):
    """Two feed-forward nets behind a norm each, one along the places and one along the channels."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "place_norm": "norm1",
        "along_places.up": "mlp_tokens.fc1",
        "along_places.down": "mlp_tokens.fc2",
        "channel_norm": "norm2",
        "along_channels.up": "mlp_channels.fc1",
        "along_channels.down": "mlp_channels.fc2",
    }

    def __init__(self, places: int, width: int, hidden: tuple[int, int], *, key: Any) -> None:
        one, two = keys_from(key, 2)
        self.place_norm, self.channel_norm = LayerNorm(width, eps=1e-6), LayerNorm(width, eps=1e-6)
        self.along_places = FeedForward(places, hidden[0], key=one)
        self.along_channels = FeedForward(width, hidden[1], key=two)

    def __call__(self, x: Any) -> NDArray:
        x = x + wnp.swapaxes(self.along_places(wnp.swapaxes(self.place_norm(x), 1, 2)), 1, 2)
        return x + self.along_channels(self.channel_norm(x))


class MLPMixer(Module):
    """An MLP-Mixer; with the names of timm's, whose weights `nn.from_torch` and `load_folder` read.

    Images have `size` by `size` points, patches `patch` by `patch`; there are `depth` blocks, and `hidden` are the
    widths inside the nets along the places and along the channels, half of `width` and four times it if not given. The
    sizes that are preset are those of Mixer-S/16. `key` draws the weights.

    Shapes: x floats [n, channels, size, size]; [n, classes].
    Raises: ParameterError for patches that do not divide an image and for no blocks, ShapeError for images of another
    size.
    Source: Tolstikhin et al., "MLP-Mixer: an all-MLP architecture for vision", 2021.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.MLPMixer(size=8, patch=4, width=8, depth=1, classes=10, key=0)
    >>> model(np.ones((2, 3, 8, 8), np.float32)).shape
    (2, 10)
    """

    torch_names = {"patches": "stem.proj"}  # noqa: RUF012  # a ClassVar by its annotation in Module

    _draws = True

    def __init__(
        self,
        *,
        key: Any = None,
        size: int = 224,
        patch: int = 16,
        width: int = 512,
        depth: int = 8,
        hidden: tuple[int, int] | None = None,
        classes: int = 1000,
        channels: int = 3,
    ) -> None:
        sized("MLPMixer", size=size, patch=patch, depth=depth)
        if size % patch:
            raise ParameterError(f"MLPMixer: patches of {patch} do not divide images of {size}")
        first, last, *others = keys_from(key, 2 + depth)
        self.size, inside = size, hidden or (width // 2, 4 * width)
        self.patches = Conv2d(channels, width, patch, key=first, stride=patch)
        self.blocks = [MixerBlock((size // patch) ** 2, width, inside, key=k) for k in others]
        self.norm, self.head = LayerNorm(width, eps=1e-6), Linear(width, classes, key=last)

    def __call__(self, x: Any) -> NDArray:
        x = wnp.asarray(x)
        if x.ndim != 4 or x.shape[2:] != (self.size, self.size):
            raise ShapeError(f"MLPMixer: images are {type_text(x)}; they are [n, channels, {self.size}, {self.size}]")
        x = self.patches(x)
        x = wnp.swapaxes(x.reshape(*x.shape[:2], -1), 1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(wnp.mean(self.norm(x), axis=1))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> MLPMixer:
        """The model of a configuration of timm; raises ModelError for unsupported options."""
        word, given = str(config["architecture"]), dict(config.get("model_args") or {})
        known = re.fullmatch(r"mixer_([sbl])(16|32)_224", word)
        if known is None:
            raise ModelError(f"MLPMixer: the architecture {word!r} is not known")
        classes = given.pop("num_classes", config.get("num_classes", 1000))
        pooled = given.pop("global_pool", config.get("global_pool", "avg"))
        refuse_parts("MLPMixer", {"global_pool": pooled != "avg", **{name: name not in ARGUMENTS for name in given}})
        depth, width = PRESETS[known[1]]
        along_places, along_channels = [int(r * width) for r in given.get("mlp_ratio", (0.5, 4.0))]
        return cls(
            key=key,
            size=square_side("MLPMixer", given.get("img_size", 224)),
            patch=int(known[2]),
            width=width,
            depth=depth,
            hidden=(along_places, along_channels),
            classes=classes,
            channels=given.get("in_chans", 3),
        )

    def config(self) -> dict[str, Any]:
        """The configuration that timm reads; raises ModelError for sizes without a name in timm."""
        width, channels, patch, _ = self.patches.weight.shape
        word = {sizes: word for word, sizes in PRESETS.items()}.get((len(self.blocks), width))
        if word is None or patch not in (16, 32):
            raise ModelError(
                f"MLPMixer: timm has no name for {len(self.blocks)} blocks of width {width} and patches of {patch}",
                hint="nn.save writes any model",
            )
        nets = self.blocks[0].along_places, self.blocks[0].along_channels
        sizes = (self.size, [hidden_ratio(net, width) for net in nets], channels)
        return {
            "architecture": f"mixer_{word}{patch}_224",
            "num_classes": self.head.weight.shape[1],
            "num_features": width,
            "pretrained_cfg": {
                "input_size": [channels, self.size, self.size],
                "num_classes": self.head.weight.shape[1],
            },
            "model_args": dict(zip(ARGUMENTS, sizes, strict=True)),
        }
