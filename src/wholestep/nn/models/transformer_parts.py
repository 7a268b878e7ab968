"""Parts of published transformers: blocks put together of parts, and attention whose projections are three layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError, ShapeError
from wholestep.nn import init
from wholestep.nn.activations import gelu, relu, silu
from wholestep.nn.attention import split_heads
from wholestep.nn.attention_layer import MultiHeadAttention
from wholestep.nn.dropouts import Dropout
from wholestep.nn.embeddings import Embedding
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.transformer import FeedForward, TransformerBlock
from wholestep.nn.windows import type_text

SPREAD = 0.02
"""The standard deviation of the initial weights of GPT-2, BERT and Llama."""


def gelu_tanh(x: Any) -> Any:
    """`gelu` by its approximation with tanh, as GPT-2 was trained."""
    return gelu(x, approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
}
"""Activations by the words of published configurations."""


def activation_named(word: str, model: str) -> Callable[[Any], Any]:
    """The activation that a configuration names; raises ModelError for one that is not known."""
    if word not in ACTIVATIONS:
        raise ModelError(f"{model}: the activation {word!r} is not known", hint=f"{', '.join(ACTIVATIONS)} are")
    return ACTIVATIONS[word]


def refuse_parts(model: str, parts: Mapping[str, bool]) -> None:
    """Raise ModelError for those parts of a configuration that are there and not built here."""
    refused = [name for name, there in parts.items() if there]
    if refused:
        raise ModelError(f"{model}: not built here with this {', '.join(refused)}")


def hidden_ratio(net: FeedForward, width: int) -> float:
    """A number whose product with the width has the hidden width of a net for its whole part."""
    hidden: int = net.down.weight.shape[0]
    exact = hidden / width
    return exact if int(exact * width) == hidden else (hidden + 0.5) / width


def dense(inputs: int, outputs: int, key: Any, *, bias: bool = True) -> Linear:
    """A layer whose weight is drawn from a normal distribution of small spread, and whose bias begins at 0."""
    layer = Linear(inputs, outputs, key=key, bias=bias)
    layer.weight = init.normal(key, (inputs, outputs), std=SPREAD)
    layer.bias = init.zeros((outputs,)) if bias else None
    return layer


def table(count: int, width: int, key: Any) -> Embedding:
    """An embedding drawn from a normal distribution of small spread."""
    made = Embedding(count, width, key=key)
    made.weight = init.normal(key, (count, width), std=SPREAD)
    return made


class SeparateAttention(MultiHeadAttention):
    """Self-attention with one layer each for queries, keys and values."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any,
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
