"""Transformers: a language model, a reader of images, and one block over a long sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep_tools.bench.draws import Arrays, labels, normal
from wholestep_tools.bench.real.losses import Classifier
from wholestep_tools.bench.real.operations import Operations


def block_parameters(rng: np.random.Generator, width: int, i: int) -> Arrays:
    """The parameters of a block, with a feed-forward net four times as wide."""
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    scale = width**-0.5
    return {
        f"attention_gain{i}": ones,
        f"attention_bias{i}": zeros,
        f"qkv{i}": normal(rng, (width, 3 * width), scale),
        f"projection{i}": normal(rng, (width, width), scale),
        f"feed_gain{i}": ones,
        f"feed_bias{i}": zeros,
        f"up{i}": normal(rng, (width, 4 * width), scale),
        f"up_bias{i}": np.zeros(4 * width, np.float32),
        f"down{i}": normal(rng, (4 * width, width), scale / 2),
        f"down_bias{i}": zeros,
    }


def block(on: Operations, p: Any, i: int, x: Any, heads: int, causal: bool) -> Any:
    """One block over [batch, time, width]: attention, then a feed-forward net, each behind a norm and beside a skip."""
    n, time, width = x.shape
    qkv = on.layer_norm(x, p[f"attention_gain{i}"], p[f"attention_bias{i}"]) @ p[f"qkv{i}"]
    q, k, v = on.transpose(qkv.reshape(n, time, 3, heads, width // heads), 2, 0, 3, 1, 4)
    mixed = on.transpose(on.attention(q, k, v, causal), 0, 2, 1, 3).reshape(n, time, width)
    x = x + mixed @ p[f"projection{i}"]
    h = on.gelu(on.layer_norm(x, p[f"feed_gain{i}"], p[f"feed_bias{i}"]) @ p[f"up{i}"] + p[f"up_bias{i}"])
    return x + h @ p[f"down{i}"] + p[f"down_bias{i}"]


@dataclass(frozen=True)
class LanguageModel(Classifier):
    """A GPT; where its head is tied, its scores come from the table of its embedding."""

    width: int = 768
    heads: int = 12
    layers: int = 4
    vocabulary: int = 8192
    time: int = 256
    rows: int = 4
    tied: bool = False

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Tables of tokens and positions, blocks, the last norm, and a head unless it is tied."""
        params = {
            "tokens": normal(rng, (self.vocabulary, self.width), 0.02),
            "positions": normal(rng, (self.time, self.width), 0.02),
            "gain": np.ones(self.width, np.float32),
            "bias": np.zeros(self.width, np.float32),
        }
        if not self.tied:
            params["head"] = normal(rng, (self.width, self.vocabulary), self.width**-0.5)
        for i in range(self.layers):
            params |= block_parameters(rng, self.width, i)
        return params

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Random sequences of tokens, and the target tokens."""
        shape = self.rows, self.time
        return {"x": labels(rng, self.vocabulary, shape), "y": labels(rng, self.vocabulary, shape)}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, time, vocabulary]."""
        h = on.embedding(p["tokens"], x) + p["positions"]
        for i in range(self.layers):
            h = block(on, p, i, h, self.heads, causal=True)
        h = on.layer_norm(h, p["gain"], p["bias"])
        return h @ (p["tokens"].T if self.tied else p["head"])


@dataclass(frozen=True)
class VisionTransformer(Classifier):
    """ViT-tiny: images of 224 by 224 in pieces of 16 by 16, with a token that gathers the class."""

    rows: int = 8
    width: int = 192
    heads: int = 3
    layers: int = 12
    classes: int = 1000

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The embedding of pieces, positions, the token of the class, blocks, the last norm and the head."""
        params = {
            "pieces": normal(rng, (768, self.width), 768**-0.5),
            "positions": normal(rng, (197, self.width), 0.02),
            "token": normal(rng, (1, 1, self.width), 0.02),
            "gain": np.ones(self.width, np.float32),
            "bias": np.zeros(self.width, np.float32),
            "head": normal(rng, (self.width, self.classes), self.width**-0.5),
        }
        for i in range(self.layers):
            params |= block_parameters(rng, self.width, i)
        return params

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Images as [rows, 196 pieces of 16 by 16 by 3], and their classes."""
        return {"x": normal(rng, (self.rows, 196, 768)), "y": labels(rng, self.classes, (self.rows,))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, classes]."""
        tokens = on.broadcast_to(p["token"], (x.shape[0], 1, self.width))
        h = on.concatenate([tokens, x @ p["pieces"]], 1) + p["positions"]
        for i in range(self.layers):
            h = block(on, p, i, h, self.heads, causal=False)
        return on.layer_norm(h, p["gain"], p["bias"])[:, 0] @ p["head"]


@dataclass(frozen=True)
class LongBlock:
    """One causal block over one long sequence."""

    time: int = 2048
    width: int = 512
    heads: int = 8

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Those of the block."""
        return block_parameters(rng, self.width, 0)

    def batch(self, rng: np.random.Generator) -> Arrays:
        """One sequence of vectors."""
        return {"x": normal(rng, (1, self.time, self.width))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """The sequence after the block."""
        return block(on, p, 0, x, self.heads, causal=True)

    def loss(self, on: Operations, p: Any, batch: Any) -> Any:
        """The mean of squares."""
        return on.mean(self.forward(on, p, batch["x"]) ** 2, (0, 1, 2))
