"""The GPT of `wholestep train text` in PyTorch by hand, with a cache of keys and values that is written in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

EPS = 1e-5
BASE = 10000.0
Step = Callable[..., Any]


class Decoder:
    """The weights, and the angles of all positions."""

    def __init__(self, params: Mapping[str, Any], heads: int, places: int) -> None:
        self.p = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in params.items()}
        self.heads = heads
        self.layers = 1 + max(int(name.split("[")[1].split("]")[0]) for name in self.p if name.startswith("blocks["))
        self.width = self.p["embedding.weight"].shape[1]
        # Dense layers of PyTorch multiply by the transpose, which is how its products of one row are quickest.
        self.dense = {name: x.T.contiguous() for name, x in self.p.items() if x.ndim == 2 and "embedding" not in name}
        half = self.width // heads // 2
        angles = torch.arange(places, dtype=torch.float64)[:, None] * BASE ** -(torch.arange(half) / half).double()
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def cache(self, batch: int, places: int) -> list[Any]:
        """Keys and values of every layer."""
        shape = (batch, self.heads, places, self.width // self.heads)
        return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(self.layers)]

    def turned(self, x: Any, at: int, time: int) -> Any:
        """Queries or keys with their positions turned into them."""
        cos, sin = self.cos[at : at + time], self.sin[at : at + time]
        p, q = x.chunk(2, -1)
        return torch.cat([p * cos - q * sin, q * cos + p * sin], -1)

    def scores(self, tokens: Any, cache: list[Any], at: int) -> Any:
        """The logits after the last of some tokens, whose positions begin at `at`."""
        (batch, time), w = tokens.shape, self.dense
        x = F.embedding(tokens, self.p["embedding.weight"])
        for i, (keys, values) in enumerate(cache):
            name = f"blocks[{i}]"
            h = F.rms_norm(x, (self.width,), self.p[f"{name}.attention_norm.gain"], EPS)
            qkv = F.linear(h, w[f"{name}.attention.qkv.weight"]).view(batch, time, 3, self.heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            keys[:, :, at : at + time] = self.turned(k, at, time)
            values[:, :, at : at + time] = v
            seen = (keys[:, :, : at + time], values[:, :, : at + time])
            mixed = F.scaled_dot_product_attention(self.turned(q, at, time), *seen, is_causal=time > 1)
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, time, -1), w[f"{name}.attention.out.weight"])
            h = F.rms_norm(x, (self.width,), self.p[f"{name}.feed_forward_norm.gain"], EPS)
            h = F.gelu(F.linear(h, w[f"{name}.feed_forward.up.weight"]))
            x = x + F.linear(h, w[f"{name}.feed_forward.down.weight"])
        return F.linear(F.rms_norm(x[:, -1], (self.width,), self.p["norm.gain"], EPS), w["head.weight"])


def chosen(scores: Any, temperature: float | None, top_k: int | None, top_p: float | None) -> Any:
    """The token of each row: that of the highest score, or drawn."""
    if temperature is None:
        return scores.argmax(-1, keepdim=True)
    scores = scores / temperature
    if top_k is not None:
        scores = scores.masked_fill(scores < scores.topk(top_k).values[:, -1:], -math.inf)
    if top_p is not None:
        falling, order = scores.sort(descending=True)
        shares = falling.softmax(-1)
        falling = falling.masked_fill(shares.cumsum(-1) - shares >= top_p, -math.inf)
        scores = torch.empty_like(scores).scatter_(1, order, falling)
    return scores.softmax(-1).multinomial(1)


def writer(
    params: Mapping[str, Any],
    prompt: Any,
    count: int,
    heads: int,
    *,
    compiled: bool,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Any:
    """A call that goes on from prompts [batch, time] for `count` tokens; [batch, time + count]."""
    batch, time = prompt.shape
    decoder, given = Decoder(params, heads, time + count), torch.from_numpy(np.asarray(prompt))

    def next_of(tokens: Any, cache: list[Any], at: int) -> Any:
        return chosen(decoder.scores(tokens, cache, at), temperature, top_k, top_p)

    step: Step = torch.compile(next_of, dynamic=True) if compiled else next_of

    def call() -> Any:
        made, cache = torch.empty((batch, time + count), dtype=given.dtype), decoder.cache(batch, time + count)
        made[:, :time] = given
        made[:, time : time + 1] = next_of(given, cache, 0)
        for at in range(time, time + count - 1):
            made[:, at + 1 : at + 2] = step(made[:, at : at + 1], cache, at)
        return made.numpy()

    return torch.inference_mode()(call)
