"""Vision transformers: patches of an image as a sequence, with one token more that the head reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from wholestep import numpy as wnp
from wholestep.errors import ModelError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.activations import gelu
from wholestep.nn.conv_layers import Conv2d
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.models.configurations import (
    activation_named,
    activation_word,
    check_layout,
    hidden_ratio,
    label_count,
    refuse_parts,
    square_side,
)
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import TransformerBlock
from wholestep.nn.windows import type_text

PUBLISHED = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
"""The width, the number of blocks and that of heads of the published sizes."""
ARGUMENTS = ("img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "in_chans")
"""The sizes that a configuration of timm may say beside the name of a vision transformer."""
SIZES = (
    "image_size",
    "patch_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "num_channels",
)
"""The sizes that a configuration of transformers says."""


class ViTBlock(TransformerBlock):
    """A block with the names of torchvision's."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention_norm": "ln_1",
        "attention": "self_attention",
        "feed_forward_norm": "ln_2",
        "feed_forward.up": "mlp.0",
        "feed_forward.down": "mlp.3",
    }


class ViT(Module):
    """A vision transformer; with the names of torchvision's, which `nn.from_torch` reads.

    Images have `size` by `size` points, patches `patch` by `patch`. The default sizes are those of ViT-B/16. The head
    reads the row of the class token, or, with `pooler`, the tanh of a dense layer of that width over it; with 0
    `classes` there is no head, and a call returns the features before it. `encoded` returns the rows of all tokens, the
    class token first. `load_folder` reads the folders of timm and of transformers, and `save_folder` writes those of
    `layout`, "timm" or "transformers"; with the second no dropout acts between dense layers, as in that library.
    Dropout needs a `key` in training; `key` draws the weights. `width`, `heads`, `depth`, `hidden`, `activation`, `eps`
    and `dropout` are as in `GPT2`.

    Shapes: x floats [n, channels, size, size]; [n, classes], of `encoded` [n, 1 + patches, width].
    Raises: ParameterError for patches that do not divide an image and for no blocks, ShapeError for images of another
    size.
    Source: Dosovitskiy et al., "An image is worth 16x16 words", 2021.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.ViT(size=8, patch=4, width=8, heads=2, depth=1, hidden=16, classes=10, key=0)
    >>> model(np.ones((2, 3, 8, 8), np.float32)).shape
    (2, 10)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "patches": "conv_proj",
        "places": "encoder.pos_embedding",
        "blocks[*]": "encoder.layers.encoder_layer_{}",
        "norm": "encoder.ln",
        "pooler": "heads.pre_logits",
        "head": "heads.head",
    }

    published_names: ClassVar = {
        "timm": (
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
        ),
        "transformers": (
            ("class_token", "vit.embeddings.cls_token"),
            ("encoder.pos_embedding", "vit.embeddings.position_embeddings"),
            ("conv_proj.", "vit.embeddings.patch_embeddings.projection."),
            ("encoder.layers.encoder_layer_", "vit.encoder.layer."),
            (".ln_1.", ".layernorm_before."),
            (".self_attention.in_proj_", [f".attention.attention.{word}." for word in ("query", "key", "value")]),
            (".self_attention.out_proj.", ".attention.output.dense."),
            (".ln_2.", ".layernorm_after."),
            (".mlp.0.", ".intermediate.dense."),
            (".mlp.3.", ".output.dense."),
            ("encoder.ln.", "vit.layernorm."),
            ("heads.pre_logits.", "vit.pooler.dense."),
            ("heads.head.", "classifier."),
        ),
    }
    """Parts of torchvision's names, and their counterparts in a library's folders: a list for a tensor in pieces."""

    optional_parts = ("pooler",)
    """The fields that are None where a folder has no tensors for them."""

    _draws = True

    def __init__(
        self,
        *,
        key: Any = None,
        size: int = 224,
        patch: int = 16,
        width: int = 768,
        heads: int = 12,
        depth: int = 12,
        hidden: int = 3072,
        classes: int = 1000,
        channels: int = 3,
        dropout: float = 0.0,
        pooler: int = 0,
        activation: str = "gelu",
        eps: float = 1e-6,
        layout: str = "timm",
    ) -> None:
        sized("ViT", size=size, patch=patch, depth=depth)
        if size % patch:
            raise ParameterError(f"ViT: patches of {patch} do not divide images of {size}")
        check_layout(type(self), layout)
        first, second, last, *others = keys_from(key, 3 + depth)
        (between,) = keys_from(last, 1)
        self.size, self.dropout, self.layout = size, Dropout(dropout), layout
        self.patches = Conv2d(channels, width, patch, key=first, stride=patch)
        self.class_token = init.zeros((1, 1, width))
        self.places = init.normal(second, (1, (size // patch) ** 2 + 1, width), std=0.02)
        options: dict[str, Any] = {"hidden": hidden, "dropout": dropout}
        options["activation"] = activation_named(activation, "ViT")
        self.blocks = [ViTBlock(width, heads, key=k, **options) for k in others]
        for block in self.blocks:
            block.attention_norm.eps = block.feed_forward_norm.eps = eps
            if layout == "transformers":
                block.feed_forward.dropout = Dropout(0.0)
        self.norm = LayerNorm(width, eps=eps)
        self.pooler = Linear(width, pooler, key=between) if pooler else None
        self.head = Linear(pooler or width, classes, key=last) if classes else None

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        x = self.norm(self.through_blocks(x, key)[:, 0])
        x = x if self.pooler is None else wnp.tanh(self.pooler(x))
        return x if self.head is None else self.head(x)

    def encoded(self, x: Any, *, key: Any = None) -> NDArray:
        """The rows of all tokens, that of the class first."""
        return self.norm(self.through_blocks(x, key))

    def through_blocks(self, x: Any, key: Any) -> NDArray:
        """The rows of all tokens before the last norm."""
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
        return x

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> ViT:
        """The model of a configuration of timm or transformers; raises ModelError for unsupported options."""
        return cls(key=key, **(vit_of_timm(config) if "architecture" in config else vit_of_transformers(config)))

    def config(self) -> dict[str, Any]:
        """The configuration that the library in `layout` reads; raises ModelError for options that it lacks."""
        width, channels, patch, _ = self.patches.weight.shape
        net = self.blocks[0].feed_forward
        classes = 0 if self.head is None else self.head.weight.shape[1]
        if self.layout == "transformers":
            refuse_parts("ViT", {"pooler in front of its head": self.pooler is not None and self.head is not None})
            hidden = net.up.weight.shape[1]
            sizes = (self.size, patch, width, len(self.blocks), self.blocks[0].attention.heads, hidden, channels)
            return {
                **dict(zip(SIZES, sizes, strict=True)),
                **({"num_labels": classes} if classes else {}),
                **({} if self.pooler is None else {"pooler_output_size": self.pooler.weight.shape[1]}),
                "hidden_act": activation_word(net),
                "layer_norm_eps": self.norm.eps,
                **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), self.dropout.p),
            }
        there = {
            "pooler": self.pooler is not None,
            "eps": self.norm.eps != 1e-6,
            "activation": net.activation is not gelu,
        }
        refuse_parts("ViT", there)
        ratio = hidden_ratio(net, width)
        nearest = min(PUBLISHED, key=lambda word: abs(PUBLISHED[word][0] - width))
        arguments = (self.size, patch, width, len(self.blocks), self.blocks[0].attention.heads, ratio, channels)
        return {
            "architecture": f"vit_{nearest}_patch16_224",
            "num_classes": classes,
            "num_features": width,
            "global_pool": "token",
            "pretrained_cfg": {"input_size": [channels, self.size, self.size], "num_classes": classes},
            "model_args": dict(zip(ARGUMENTS, arguments, strict=True)),
        }


def vit_of_timm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a vision transformer that a configuration of timm describes."""
    word, given = str(config["architecture"]), dict(config.get("model_args") or {})
    known = re.fullmatch(r"vit_([a-z]+)_patch(\d+)_(\d+)", word)
    if known is None or known[1] not in PUBLISHED:
        raise ModelError(f"ViT: the architecture {word!r} is not known")
    classes = given.pop("num_classes", config.get("num_classes", 1000))
    pooled = given.pop("global_pool", config.get("global_pool", "token"))
    refuse_parts("ViT", {"global_pool": pooled != "token", **{name: name not in ARGUMENTS for name in given}})
    width, depth, heads = PUBLISHED[known[1]]
    width = given.get("embed_dim", width)
    return {
        "size": square_side("ViT", given.get("img_size", int(known[3]))),
        "patch": given.get("patch_size", int(known[2])),
        "width": width,
        "heads": given.get("num_heads", heads),
        "depth": given.get("depth", depth),
        "hidden": int(given.get("mlp_ratio", 4.0) * width),
        "classes": classes,
        "channels": given.get("in_chans", 3),
    }


def vit_of_transformers(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a vision transformer that a configuration of transformers describes; ViTModel has no head."""
    dropout = config.get("hidden_dropout_prob", 0.0)
    classes = label_count(config, "ViTModel")
    parts = {
        "attention_probs_dropout_prob": config.get("attention_probs_dropout_prob", 0.0) != dropout,
        "qkv_bias": not config.get("qkv_bias", True),
        "pooler_act": config.get("pooler_act", "tanh") != "tanh",
    }
    refuse_parts("ViT", parts)
    size, patch, width, depth, heads, hidden, channels = [config[name] for name in SIZES]
    return {
        "size": square_side("ViT", size),
        "patch": square_side("ViT", patch),
        "width": width,
        "heads": heads,
        "depth": depth,
        "hidden": hidden,
        "channels": channels,
        "classes": classes,
        "pooler": 0 if classes else config.get("pooler_output_size") or width,
        "activation": config.get("hidden_act", "gelu"),
        "eps": config.get("layer_norm_eps", 1e-12),
        "dropout": dropout,
        "layout": "transformers",
    }
