"""Transformer blocks: attention and a feed-forward net, each with a norm and a residual connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.frontend.source.entrance import followed
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import gelu
from wholestep.nn.attention_layer import MultiHeadAttention
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm, RMSNorm

NORMS = {"layer": LayerNorm, "rms": RMSNorm}


class FeedForward(Module):
    """Two dense layers with `hidden` numbers and an activation between, applied to each place.

    With `gated` the first layer has twice as many outputs, and one half is multiplied by the activation of the other:
    with silu that is SwiGLU. `dropout`, a probability, acts on the input of the second layer. `key`, `bias` and `dtype`
    are those of `Linear`.

    Shapes: x floats [..., width]; the same.
    Raises: as `Linear` does, and ParameterError in training for dropout without a key.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.3; Shazeer, "GLU variants improve transformer",
    2020, for `gated`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.FeedForward(8, 32, key=0, activation=ws.nn.silu, gated=True)(np.ones((2, 8), np.float32)).shape
    (2, 8)
    """

    _draws = True

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        key: Any = None,
        activation: Callable[[Any], Any] = gelu,
        gated: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        first, second = keys_from(key, 2)
        self.up = Linear(width, hidden * (1 + gated), key=first, bias=bias, dtype=dtype)
        self.down = Linear(hidden, width, key=second, bias=bias, dtype=dtype)
        self.activation = activation
        self.gated, self.dropout = gated, Dropout(dropout)

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        h = self.up(x)
        if self.gated:
            value, gate = wnp.split(h, 2, axis=-1)
            h = value * followed(self.activation)(gate)
        else:
            h = followed(self.activation)(h)
        return self.down(self.dropout(h, key=key))


class TransformerBlock(Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)); or with `norm_first=False` the norms after the sums.

    `hidden` is 4 * width if not given, `norm` "layer" or "rms". `heads`, `kv_heads`, `causal`, `rope`, `blocks`, `key`,
    `bias` and `dtype` are those of `MultiHeadAttention`; `activation` and `gated` those of `FeedForward`. `dropout`
    acts on the weights of attention, between the dense layers, and on both terms that are added to x; it needs a `key`
    in training. `cache` and `position` decode step by step, as in `MultiHeadAttention`.

    Shapes: x floats [batch, time, width]; the same.
    Raises: ParameterError for another norm, and as `MultiHeadAttention` does.
    Source: Vaswani et al., "Attention is all you need", 2017; Xiong et al., "On layer normalization in the transformer
    architecture", 2020, for `norm_first`.

    >>> import numpy as np, wholestep as ws
    >>> block = ws.nn.TransformerBlock(16, 4, key=0, causal=True, dropout=0.1)
    >>> block(np.ones((2, 5, 16), np.float32), key=1).shape
    (2, 5, 16)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention": "self_attn",
        "attention_norm": "norm1",
        "feed_forward_norm": "norm2",
        "feed_forward.up": "linear1",
        "feed_forward.down": "linear2",
    }

    _draws = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any = None,
        hidden: int | None = None,
        activation: Callable[[Any], Any] = gelu,
        gated: bool = False,
        norm: str = "layer",
        norm_first: bool = True,
        kv_heads: int | None = None,
        causal: bool = False,
        rope: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        blocks: Any = None,
        dtype: Any = np.float32,
    ) -> None:
        if norm not in NORMS:
            raise ParameterError(f"TransformerBlock: norm is {norm!r}", hint=f"{', '.join(NORMS)} are known")
        first, second = keys_from(key, 2)
        options: dict[str, Any] = {"dropout": dropout, "bias": bias, "dtype": dtype}
        self.attention_norm, self.feed_forward_norm = NORMS[norm](width, dtype=dtype), NORMS[norm](width, dtype=dtype)
        self.attention = MultiHeadAttention(
            width, heads, key=first, kv_heads=kv_heads, causal=causal, rope=rope, blocks=blocks, **options
        )
        self.feed_forward = FeedForward(
            width, hidden or 4 * width, key=second, activation=activation, gated=gated, **options
        )
        self.dropout, self.norm_first = Dropout(dropout), norm_first

    @overload
    def __call__(
        self, x: Any, *, mask: Any = ..., cache: None = ..., position: Any = ..., key: Any = ...
    ) -> NDArray: ...
    @overload
    def __call__(
        self, x: Any, *, mask: Any = ..., cache: dict[str, Any], position: Any = ..., key: Any = ...
    ) -> tuple[NDArray, dict[str, Any]]: ...
    def __call__(
        self, x: Any, *, mask: Any = None, cache: Any = None, position: Any = 0, key: Any = None
    ) -> NDArray | tuple[NDArray, dict[str, Any]]:
        keys = [None] * 4 if key is None else list(keys_from(key, 4))
        h = self.attention_norm(x) if self.norm_first else x
        mixed = self.attention(h, mask=mask, cache=cache, position=position, key=keys[0])
        mixed, cache = mixed if cache is not None else (mixed, None)
        x = x + self.dropout(mixed, key=keys[1])
        x = x if self.norm_first else self.attention_norm(x)
        h = self.feed_forward_norm(x) if self.norm_first else x
        x = x + self.dropout(self.feed_forward(h, key=keys[2]), key=keys[3])
        x = x if self.norm_first else self.feed_forward_norm(x)
        return x if cache is None else (x, cache)

    def init_cache(self, batch: int, length: int, dtype: Any = np.float32) -> dict[str, Any]:
        """A cache for `batch` sequences of at most `length` positions."""
        return self.attention.init_cache(batch, length, dtype)


class TransformerDecoderBlock(Module):
    """A transformer block that also attends to a context: self-attention, cross-attention, feed-forward net.

    Each part is added to x behind a norm, or with `norm_first=False` normalized after the sum. `context` is the width
    of the context, that of x if not given. All other arguments are those of `TransformerBlock`; self-attention is
    causal unless `causal=False`. In training, dropout needs a `key`.

    Shapes: x floats [batch, time, width] and context [batch, places, width of the context]; as x. `mask` is that of
    self-attention, `context_mask` that of the context, as in `scaled_dot_product_attention`.
    Raises: as `TransformerBlock` does.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.1; Xiong et al., "On layer normalization in the
    transformer architecture", 2020, for `norm_first`.

    >>> import numpy as np, wholestep as ws
    >>> block = ws.nn.TransformerDecoderBlock(16, 4, key=0)
    >>> block(np.ones((2, 5, 16), np.float32), np.ones((2, 7, 16), np.float32)).shape
    (2, 5, 16)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention": "self_attn",
        "cross_attention": "multihead_attn",
        "attention_norm": "norm1",
        "cross_attention_norm": "norm2",
        "feed_forward_norm": "norm3",
        "feed_forward.up": "linear1",
        "feed_forward.down": "linear2",
    }

    _draws = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any = None,
        context: int | None = None,
        hidden: int | None = None,
        activation: Callable[[Any], Any] = gelu,
        norm: str = "layer",
        norm_first: bool = True,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        if norm not in NORMS:
            raise ParameterError(f"TransformerDecoderBlock: norm is {norm!r}", hint=f"{', '.join(NORMS)} are known")
        own, cross, last = keys_from(key, 3)
        options: dict[str, Any] = {"dropout": dropout, "bias": bias, "dtype": dtype}
        self.attention_norm, self.cross_attention_norm, self.feed_forward_norm = [
            NORMS[norm](width, dtype=dtype) for _ in range(3)
        ]
        self.attention = MultiHeadAttention(width, heads, key=own, causal=causal, **options)
        self.cross_attention = MultiHeadAttention(width, heads, key=cross, context=context or width, **options)
        self.feed_forward = FeedForward(width, hidden or 4 * width, key=last, activation=activation, **options)
        self.dropout, self.norm_first = Dropout(dropout), norm_first

    def __call__(self, x: Any, context: Any, *, mask: Any = None, context_mask: Any = None, key: Any = None) -> NDArray:
        keys = [None] * 6 if key is None else list(keys_from(key, 6))
        parts: list[tuple[Any, Callable[[Any, Any], Any]]] = [
            (self.attention_norm, lambda h, k: self.attention(h, mask=mask, key=k)),
            (self.cross_attention_norm, lambda h, k: self.cross_attention(h, context, mask=context_mask, key=k)),
            (self.feed_forward_norm, lambda h, k: self.feed_forward(h, key=k)),
        ]
        for (norm, part), for_part, for_sum in zip(parts, keys[:3], keys[3:], strict=True):
            added = self.dropout(part(norm(x) if self.norm_first else x, for_part), key=for_sum)
            x = x + added if self.norm_first else norm(x + added)
        return x
