"""GPT-2: a decoder with learned positions, norms in front, and a head tied to the table of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, overload

import numpy as np

from wholestep import numpy as wnp
from wholestep.ir.graph import NDArray
from wholestep.nn.annotations import tied
from wholestep.nn.attention_layer import MultiHeadAttention
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.models.configurations import activation_named, activation_word, refuse_parts
from wholestep.nn.models.transformer_parts import AssembledBlock, check_places, dense, table
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import FeedForward


class UnturnedLinear(Linear):
    """A dense layer whose weight is [in, out] in the file too."""

    torch_turned: ClassVar[Any] = ()


class GPT2Block(AssembledBlock):
    """A block of GPT-2."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention_norm": "ln_1",
        "feed_forward_norm": "ln_2",
        "attention.qkv": "attn.c_attn",
        "attention.out": "attn.c_proj",
        "feed_forward.up": "mlp.c_fc",
        "feed_forward.down": "mlp.c_proj",
    }


class GPT2(Module):
    """GPT-2 by its sizes; the tensors of a published one have the names that `nn.from_torch` expects.

    The call takes token numbers and returns scores of the token after each; with a `cache` of `init_cache` it returns
    (scores, cache), as `nn.generate` requires. Dropout acts where GPT-2 has it and needs a `key` in training. `key`
    draws the weights.

    There are `vocabulary` tokens, a sequence has `places` at most, and `depth` blocks of `heads` heads are `width`
    wide, with `hidden` numbers between their dense layers, 4 * width if not given. `activation`, the function between
    these, has its name in published configurations, `eps` is that of `nn.LayerNorm`, and `dropout` a probability.

    Shapes: tokens integers [batch, time]; float32 [batch, time, vocabulary].
    Raises: ShapeError for more tokens than places, IndexError for a token that the vocabulary does not have,
    ParameterError for no blocks.
    Source: Radford et al., "Language models are unsupervised multitask learners", 2019.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.GPT2(vocabulary=50, places=16, width=8, heads=2, depth=1, key=0)
    >>> model(np.array([[1, 2, 3]])).shape
    (1, 3, 50)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "tokens": "transformer.wte",
        "places": "transformer.wpe",
        "blocks[*]": "transformer.h.{}",
        "norm": "transformer.ln_f",
        "head": "lm_head.weight",
    }

    _draws = True

    def __init__(
        self,
        vocabulary: int = 50257,
        places: int = 1024,
        width: int = 768,
        heads: int = 12,
        depth: int = 12,
        *,
        key: Any = None,
        hidden: int | None = None,
        activation: str = "gelu_new",
        eps: float = 1e-5,
        dropout: float = 0.0,
    ) -> None:
        sized("GPT2", depth=depth)
        first, second, *others = keys_from(key, 2 + depth)
        self.tokens, self.places = table(vocabulary, width, first), table(places, width, second)
        self.head = tied(self.tokens.weight)
        self.dropout, self.norm = Dropout(dropout), LayerNorm(width, eps=eps)
        self.blocks = [
            block_of(width, heads, hidden or 4 * width, k, activation=activation, eps=eps, dropout=dropout)
            for k in others
        ]

    @overload
    def __call__(self, tokens: Any, *, cache: None = ..., position: Any = ..., key: Any = ...) -> NDArray: ...
    @overload
    def __call__(
        self, tokens: Any, *, cache: list[Any], position: Any = ..., key: Any = ...
    ) -> tuple[NDArray, list[Any]]: ...
    def __call__(
        self, tokens: Any, *, cache: Any = None, position: Any = 0, key: Any = None
    ) -> NDArray | tuple[NDArray, list[Any]]:
        ids = check_places("GPT2", tokens, position, len(self.places.weight))
        keys = [None] * (1 + len(self.blocks)) if key is None else list(keys_from(key, 1 + len(self.blocks)))
        x = self.tokens(ids) + self.places(position + wnp.arange(ids.shape[1]))
        x, caches = self.dropout(x, key=keys[0]), list[Any]()
        for i, block in enumerate(self.blocks):
            x = block(x, cache=None if cache is None else cache[i], position=position, key=keys[i + 1])
            if cache is not None:
                x, held = x
                caches.append(held)
        scores = self.norm(x) @ self.head.T
        return scores if cache is None else (scores, caches)

    def init_cache(self, batch: int, length: int, dtype: Any = np.float32) -> list[dict[str, Any]]:
        """A cache for `batch` sequences of at most `length` positions."""
        return [block.init_cache(batch, length, dtype) for block in self.blocks]

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> GPT2:
        """The model of a published configuration; raises ModelError for unsupported options."""
        dropout = config.get("resid_pdrop", 0.1)
        parts = {
            "embd_pdrop": config.get("embd_pdrop", 0.1) != dropout,
            "attn_pdrop": config.get("attn_pdrop", 0.1) != dropout,
            "scale_attn_weights": not config.get("scale_attn_weights", True),
            "scale_attn_by_inverse_layer_idx": config.get("scale_attn_by_inverse_layer_idx", False),
        }
        refuse_parts("GPT2", parts)
        return cls(
            config["vocab_size"],
            config["n_positions"],
            config["n_embd"],
            config["n_head"],
            config["n_layer"],
            key=key,
            hidden=config.get("n_inner"),
            activation=config.get("activation_function", "gelu_new"),
            eps=config.get("layer_norm_epsilon", 1e-5),
            dropout=dropout,
        )

    def config(self) -> dict[str, Any]:
        """The configuration in the published form."""
        first = self.blocks[0]
        return {
            "vocab_size": len(self.tokens.weight),
            "n_positions": len(self.places.weight),
            "n_embd": self.tokens.weight.shape[1],
            "n_head": first.attention.heads,
            "n_layer": len(self.blocks),
            "n_inner": first.feed_forward.up.weight.shape[1],
            "activation_function": activation_word(first.feed_forward),
            "layer_norm_epsilon": self.norm.eps,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), self.dropout.p),
        }


def block_of(
    width: int, heads: int, hidden: int, key: Any, *, activation: str, eps: float, dropout: float
) -> GPT2Block:
    """One block."""
    one, two, three, four = keys_from(key, 4)
    attention = MultiHeadAttention(width, heads, key=one, causal=True, dropout=dropout)
    forward = FeedForward(width, hidden, key=three, activation=activation_named(activation, "GPT2"))
    attention.qkv, attention.out = unturned(width, 3 * width, one), unturned(width, width, two)
    forward.up, forward.down = unturned(width, hidden, three), unturned(hidden, width, four)
    norms = LayerNorm(width, eps=eps), LayerNorm(width, eps=eps)
    return GPT2Block(attention, forward, norms, norm_first=True, dropout=dropout)


def unturned(inputs: int, outputs: int, key: Any) -> UnturnedLinear:
    """A dense layer of GPT-2."""
    drawn, layer = dense(inputs, outputs, key), UnturnedLinear(inputs, outputs, key=key)
    layer.weight, layer.bias = drawn.weight, drawn.bias
    return layer
