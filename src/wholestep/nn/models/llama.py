"""Llama and models of its architecture: rotary positions, root-mean-square norms, gated layers, groups of heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.nn.activations import silu
from wholestep.nn.annotations import tied
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import linear, sized
from wholestep.nn.models.configurations import refuse_parts
from wholestep.nn.models.transformer_parts import AssembledBlock, SeparateAttention, check_places, dense, table
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import RMSNorm


class GatedFeedForward(Module):
    """silu(gate(x)) * up(x), then down."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "gate": "gate_proj",
        "up": "up_proj",
        "down": "down_proj",
    }

    def __init__(self, width: int, hidden: int, *, key: Any) -> None:
        one, two, three = keys_from(key, 3)
        self.gate, self.up = dense(width, hidden, one, bias=False), dense(width, hidden, two, bias=False)
        self.down = dense(hidden, width, three, bias=False)

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        return self.down(silu(self.gate(x)) * self.up(x))


class LlamaBlock(AssembledBlock):
    """A block of Llama."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention_norm": "input_layernorm",
        "feed_forward_norm": "post_attention_layernorm",
        "attention.query": "self_attn.q_proj",
        "attention.keys": "self_attn.k_proj",
        "attention.values": "self_attn.v_proj",
        "attention.out": "self_attn.o_proj",
        "feed_forward": "mlp",
    }


class Llama(Module):
    """Llama by its sizes; the tensors of a published one have the names that `nn.from_torch` expects.

    The call takes token numbers and returns scores of the token after each; with a `cache` of `init_cache` also that,
    as `nn.generate` wants it. `kv_heads` is `heads` if not given, `rope` the base of the rotations; `tie` makes the
    head the table of tokens. The row `padding` of the table gets no gradient where it is looked up. `key` draws the
    weights. `places`, `width`, `depth` and `hidden` are those of `GPT2`, and `eps` is that of `nn.RMSNorm`.

    Shapes: tokens integers [batch, time]; float32 [batch, time, vocabulary].
    Raises: ShapeError for more tokens than places, IndexError for a token that the vocabulary does not have,
    ParameterError for no blocks.
    Source: Touvron et al., "LLaMA: open and efficient foundation language models", 2023.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.Llama(50, 16, 8, 2, 1, hidden=16, kv_heads=1, key=0)
    >>> model(np.array([[1, 2, 3]])).shape
    (1, 3, 50)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "tokens": "model.embed_tokens",
        "blocks[*]": "model.layers.{}",
        "norm": "model.norm",
        "head": "lm_head.weight",
    }

    _draws = True

    def __init__(
        self,
        vocabulary: int,
        places: int,
        width: int,
        heads: int,
        depth: int,
        *,
        hidden: int,
        key: Any = None,
        kv_heads: int | None = None,
        rope: float = 10000.0,
        eps: float = 1e-6,
        tie: bool = False,
        padding: int | None = None,
    ) -> None:
        sized("Llama", depth=depth)
        first, last, *others = keys_from(key, 2 + depth)
        self.tokens, self.norm = table(vocabulary, width, first, padding), RMSNorm(width, eps=eps)
        self.head = tied(self.tokens.weight) if tie else table(vocabulary, width, last).weight
        self.places, self.tie = places, tie
        self.blocks = list[LlamaBlock]()
        for k in others:
            one, two = keys_from(k, 2)
            attention = SeparateAttention(width, heads, key=one, kv_heads=kv_heads, causal=True, rope=rope, bias=False)
            norms = RMSNorm(width, eps=eps), RMSNorm(width, eps=eps)
            forward = GatedFeedForward(width, hidden, key=two)
            self.blocks.append(LlamaBlock(attention, forward, norms, norm_first=True, dropout=0.0))

    @overload
    def __call__(self, tokens: Any, *, cache: None = ..., position: Any = ...) -> NDArray: ...
    @overload
    def __call__(self, tokens: Any, *, cache: list[Any], position: Any = ...) -> tuple[NDArray, list[Any]]: ...
    def __call__(self, tokens: Any, *, cache: Any = None, position: Any = 0) -> NDArray | tuple[NDArray, list[Any]]:
        x, caches = self.tokens(check_places("Llama", tokens, position, self.places)), list[Any]()
        for i, block in enumerate(self.blocks):
            x = block(x, cache=None if cache is None else cache[i], position=position)
            if cache is not None:
                x, held = x
                caches.append(held)
        scores = linear(self.norm(x), self.head.T)
        return scores if cache is None else (scores, caches)

    def init_cache(self, batch: int, length: int, dtype: Any = np.float32) -> list[dict[str, Any]]:
        """A cache for `batch` sequences of at most `length` positions."""
        return [block.init_cache(batch, length, dtype) for block in self.blocks]

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> Llama:
        """The model of a published configuration; raises ModelError for unsupported options."""
        rotary = config.get("rope_parameters") or config.get("rope_scaling") or {}
        width, heads = config["hidden_size"], config["num_attention_heads"]
        parts = {
            "rope_scaling": rotary.get("rope_type", rotary.get("type", "default")) != "default",
            "attention_bias": config.get("attention_bias", False),
            "mlp_bias": config.get("mlp_bias", False),
            "head_dim": (config.get("head_dim") or width // heads) != width // heads,
            "hidden_act": config.get("hidden_act", "silu") != "silu",
            "attention_dropout": config.get("attention_dropout", 0.0) != 0,
        }
        refuse_parts("Llama", parts)
        return cls(
            config["vocab_size"],
            config["max_position_embeddings"],
            width,
            heads,
            config["num_hidden_layers"],
            hidden=config["intermediate_size"],
            key=key,
            kv_heads=config.get("num_key_value_heads"),
            rope=rotary.get("rope_theta", config.get("rope_theta", 10000.0)),
            eps=config.get("rms_norm_eps", 1e-6),
            tie=config.get("tie_word_embeddings", False),
            padding=config.get("pad_token_id"),
        )

    def config(self) -> dict[str, Any]:
        """The configuration in the published form."""
        first = self.blocks[0]
        return {
            "vocab_size": len(self.tokens.weight),
            "max_position_embeddings": self.places,
            "hidden_size": self.tokens.weight.shape[1],
            "num_attention_heads": first.attention.heads,
            "num_key_value_heads": first.attention.kv_heads,
            "num_hidden_layers": len(self.blocks),
            "intermediate_size": first.feed_forward.up.weight.shape[1],
            "rope_theta": first.attention.rope,
            "rms_norm_eps": self.norm.eps,
            "tie_word_embeddings": self.tie,
            "hidden_act": "silu",
            "pad_token_id": self.tokens.padding_idx,
        }
