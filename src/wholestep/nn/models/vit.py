"""Vision transformers: patches of an image as a sequence, with one token more that the head reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ModelError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.models.transformer_parts import hidden_ratio, refuse_parts
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import TransformerBlock
from wholestep.nn.windows import type_text

PUBLISHED = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
"""The width, the number of blocks and that of heads of the published sizes."""
ARGUMENTS = ("img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "in_chans")
"""The sizes that a configuration of timm may say beside the name of a vision transformer."""


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
    """A vision transformer; with the names of torchvision's, which `nn.from_torch` reads; `load_folder` reads timm's.

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

    published_names = (
        ("class_token", "cls_token"),
        ("encoder.pos_embedding", "pos_embed"),
        ("conv_proj.", "patch_embed.proj."),
        ("encoder.layers.encoder_layer_", "blocks."),
        (".ln_1.", ".norm1."),
        (".self_attention.in_proj_", ".attn.qkv."),
        (".self_attention.out_proj.", ".attn.proj."),
        (".ln_2.", ".norm2."),
        (".mlp.0.", ".mlp.fc1."),
        (".mlp.3.", ".mlp.fc2."),
        ("encoder.ln.", "norm."),
        ("heads.head.", "head."),
    )
    """Parts of names in torchvision and in timm; those that begin with a point may stand anywhere, others begin."""

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

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> ViT:
        """The model of a configuration of timm; raises ModelError for what is not built here."""
        word, given = str(config["architecture"]), dict(config.get("model_args") or {})
        known = re.fullmatch(r"vit_([a-z]+)_patch(\d+)_(\d+)", word)
        if known is None or known[1] not in PUBLISHED:
            raise ModelError(f"ViT: the architecture {word!r} is not known")
        classes = given.pop("num_classes", config.get("num_classes", 1000))
        pooled = given.pop("global_pool", config.get("global_pool", "token"))
        refuse_parts("ViT", {"global_pool": pooled != "token", **{name: name not in ARGUMENTS for name in given}})
        width, depth, heads = PUBLISHED[known[1]]
        sides = given.get("img_size", int(known[3]))
        high, wide = (sides, sides) if isinstance(sides, int) else sides
        if high != wide:
            raise ModelError(f"ViT: images of {high} by {wide} points; they are square here")
        width = given.get("embed_dim", width)
        return cls(
            key=key,
            size=high,
            patch=given.get("patch_size", int(known[2])),
            width=width,
            heads=given.get("num_heads", heads),
            depth=given.get("depth", depth),
            hidden=int(given.get("mlp_ratio", 4.0) * width),
            classes=classes,
            channels=given.get("in_chans", 3),
        )

    def config(self) -> dict[str, Any]:
        """The configuration that timm reads."""
        width, channels, patch, _ = self.patches.weight.shape
        ratio = hidden_ratio(self.blocks[0].feed_forward, width)
        sizes = (self.size, patch, width, len(self.blocks), self.blocks[0].attention.heads, ratio, channels)
        nearest = min(PUBLISHED, key=lambda word: abs(PUBLISHED[word][0] - width))
        return {
            "architecture": f"vit_{nearest}_patch16_224",
            "num_classes": self.head.weight.shape[1],
            "num_features": width,
            "global_pool": "token",
            "pretrained_cfg": {
                "input_size": [channels, self.size, self.size],
                "num_classes": self.head.weight.shape[1],
            },
            "model_args": dict(zip(ARGUMENTS, sizes, strict=True)),
        }
