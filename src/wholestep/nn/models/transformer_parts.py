"""Parts of published transformers: blocks put together of parts, and attention whose projections are three layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ShapeError
from wholestep.nn import init
from wholestep.nn.attention import split_heads
from wholestep.nn.attention_layer import MultiHeadAttention
from wholestep.nn.dropouts import Dropout
from wholestep.nn.embeddings import Embedding
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.transformer import TransformerBlock
from wholestep.nn.windows import type_text

SPREAD = 0.02
"""The standard deviation of the initial weights of GPT-2, BERT and Llama."""


def dense(inputs: int, outputs: int, key: Any, *, bias: bool = True) -> Linear:
    """A layer whose weight is drawn from a normal distribution of small spread, and whose bias begins at 0."""
    layer = Linear(inputs, outputs, key=key, bias=bias)
    layer.weight = init.normal(key, (inputs, outputs), std=SPREAD)
    layer.bias = init.zeros((outputs,)) if bias else None
    return layer


def table(count: int, width: int, key: Any, padding: int | None = None) -> Embedding:
    """An embedding drawn from a normal distribution of small spread; the row `padding` is 0 and stays 0."""
    made = Embedding(count, width, key=key, padding_idx=padding)
    weight = init.normal(key, (count, width), std=SPREAD)
    if padding is not None:
        weight[padding] = 0
    made.weight = weight
    return made


class SeparateAttention(MultiHeadAttention):
    """Self-attention with one layer each for queries, keys and values."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any = None,
        kv_heads: int | None = None,
        causal: bool = False,
        rope: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(width, heads, key=key, kv_heads=kv_heads, causal=causal, rope=rope, dropout=dropout, bias=bias)
        few = self.kv_heads * (width // heads)
        sizes = {"query": width, "keys": few, "values": few, "out": width}
        made = {
            name: dense(width, size, k, bias=bias)
            for (name, size), k in zip(sizes.items(), keys_from(key, 4), strict=True)
        }
        self.qkv = None
        self.query, self.keys, self.values, self.out = made.values()

    def projected(self, x: Any, context: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values by heads."""
        if context is not None:
            raise ShapeError(f"{type(self).__name__}: a context of {type_text(context)} for self-attention")
        assert self.query is not None
        q, k, v = self.query(x), self.keys(x), self.values(x)
        return split_heads(q, self.heads), split_heads(k, self.kv_heads), split_heads(v, self.kv_heads)

    def _torch_rows(self, path: str) -> tuple[int, int] | None:
        return None


class AssembledBlock(TransformerBlock):
    """A transformer block of given parts."""

    def __init__(
        self, attention: Any, feed_forward: Any, norms: tuple[Any, Any], *, norm_first: bool, dropout: float
    ) -> None:
        self.attention_norm, self.feed_forward_norm = norms
        self.attention, self.feed_forward = attention, feed_forward
        self.dropout, self.norm_first = Dropout(dropout), norm_first


def check_places(model: str, ids: Any, position: Any, places: int) -> Any:
    """Token numbers as an array; raises ShapeError for more of them in a row than a model has places."""
    ids = wnp.asarray(ids)
    last = ids.shape[-1] + (position if isinstance(position, int | np.integer) else 0) if ids.ndim == 2 else 0
    if ids.ndim != 2 or last > places:
        raise ShapeError(
            f"{model}: token numbers are {type_text(ids)}; they are [batch, time] with at most {places} places",
            hint="give a batch of one as ids[None], and of a longer text the last places",
        )
    return ids
