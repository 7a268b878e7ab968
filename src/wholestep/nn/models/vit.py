"""Vision transformers: patches of an image as a sequence, with one token more that the head reads."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import TransformerBlock
from wholestep.nn.windows import type_text


class ViTBlock(TransformerBlock):
    """A block with the names of torchvision's."""

    torch_names = {  # noqa: RUF012  # that of Module says that it is the class's
        "attention_norm": "ln_1",
        "attention": "self_attention",
        "feed_forward_norm": "ln_2",
        "feed_forward.up": "mlp.0",
        "feed_forward.down": "mlp.3",
    }


class ViT(Module):
    """A vision transformer; with the names of torchvision's, whose weights `nn.from_torch` reads.

    Images have `size` by `size` points, patches `patch` by `patch`. The sizes that are preset are those of ViT-B/16.
    Dropout needs a `key` in training; `key` draws the weights.

    Shapes: x floats [n, channels, size, size]; [n, classes].
    Raises: ParameterError for patches that do not divide an image, ShapeError for images of another size.
    Source: Dosovitskiy et al., "An image is worth 16x16 words", 2021.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.ViT(size=8, patch=4, width=8, heads=2, depth=1, hidden=16, classes=10, key=0)
    >>> model(np.ones((2, 3, 8, 8), np.float32)).shape
    (2, 10)
    """

    torch_names = {  # noqa: RUF012  # that of Module says that it is the class's
        "patches": "conv_proj",
        "places": "encoder.pos_embedding",
        "blocks[*]": "encoder.layers.encoder_layer_{}",
        "norm": "encoder.ln",
        "head": "heads.head",
    }

    def __init__(
        self,
        *,
        key: Any,
        size: int = 224,
        patch: int = 16,
        width: int = 768,
        heads: int = 12,
        depth: int = 12,
        hidden: int = 3072,
        classes: int = 1000,
        channels: int = 3,
        dropout: float = 0.0,
    ) -> None:
        if size % patch:
            raise ParameterError(f"ViT: patches of {patch} do not divide images of {size}")
        first, second, last, *others = keys_from(key, 3 + depth)
        self.size, self.dropout = size, Dropout(dropout)
        self.patches = Conv2d(channels, width, patch, key=first, stride=patch)
        self.class_token = init.zeros((1, 1, width))
        self.places = init.normal(second, (1, (size // patch) ** 2 + 1, width), std=0.02)
        options: dict[str, Any] = {"hidden": hidden, "dropout": dropout}
        self.blocks = [ViTBlock(width, heads, key=k, **options) for k in others]
        for block in self.blocks:
            block.attention_norm.eps = block.feed_forward_norm.eps = 1e-6
        self.norm, self.head = LayerNorm(width, eps=1e-6), Linear(width, classes, key=last)

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        x = wnp.asarray(x)
        if x.ndim != 4 or x.shape[2:] != (self.size, self.size):
            raise ShapeError(f"ViT: images are {type_text(x)}; they are [n, channels, {self.size}, {self.size}]")
        keys = [None] * (1 + len(self.blocks)) if key is None else list(keys_from(key, 1 + len(self.blocks)))
        x = self.patches(x)
        n, width = x.shape[:2]
        x = wnp.swapaxes(x.reshape(n, width, -1), 1, 2)
        x = wnp.concatenate([wnp.broadcast_to(self.class_token, (n, 1, width)), x], axis=1) + self.places
        x = self.dropout(x, key=keys[0])
        for block, k in zip(self.blocks, keys[1:], strict=True):
            x = block(x, key=k)
        return self.head(self.norm(x[:, 0]))
