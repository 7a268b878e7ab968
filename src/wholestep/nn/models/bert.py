"""BERT and DistilBERT: encoders with learned positions and norms after the sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.ir.graph import NDArray
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import sized
from wholestep.nn.models.configurations import activation_named, activation_word, refuse_parts
from wholestep.nn.models.transformer_parts import AssembledBlock, SeparateAttention, check_places, dense, table
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import FeedForward


class BERTBlock(AssembledBlock):
    """A block of BERT."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention.query": "attention.self.query",
        "attention.keys": "attention.self.key",
        "attention.values": "attention.self.value",
        "attention.out": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "feed_forward.up": "intermediate.dense",
        "feed_forward.down": "output.dense",
        "feed_forward_norm": "output.LayerNorm",
    }


class DistilBERTBlock(AssembledBlock):
    """A block of DistilBERT."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention.query": "attention.q_lin",
        "attention.keys": "attention.k_lin",
        "attention.values": "attention.v_lin",
        "attention.out": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "feed_forward.up": "ffn.lin1",
        "feed_forward.down": "ffn.lin2",
        "feed_forward_norm": "output_layer_norm",
    }


class Encoder(Module):
    """The common part of both: a sum of tables, its norm, and blocks."""

    block: type[AssembledBlock]

    _draws = True

    def __init__(
        self,
        vocabulary: int = 30522,
        places: int = 512,
        width: int = 768,
        heads: int = 12,
        depth: int = 12,
        *,
        key: Any = None,
        hidden: int | None = None,
        activation: str = "gelu",
        eps: float = 1e-12,
        dropout: float = 0.0,
        padding: int | None = 0,
    ) -> None:
        sized("BERT", depth=depth)
        first, second, *others = keys_from(key, 2 + depth)
        self.tokens, self.places = table(vocabulary, width, first, padding), table(places, width, second)
        self.dropout, self.norm = Dropout(dropout), LayerNorm(width, eps=eps)
        self.blocks = list[AssembledBlock]()
        for k in others:
            one, two, three = keys_from(k, 3)
            chosen = activation_named(activation, type(self).__name__)
            forward = FeedForward(width, hidden or 4 * width, key=one, activation=chosen)
            forward.up = dense(width, hidden or 4 * width, one)
            forward.down = dense(hidden or 4 * width, width, two)
            attention = SeparateAttention(width, heads, key=three, dropout=dropout)
            norms = LayerNorm(width, eps=eps), LayerNorm(width, eps=eps)
            self.blocks.append(self.block(attention, forward, norms, norm_first=False, dropout=dropout))

    def embedded(self, tokens: Any) -> Any:
        """The tables' rows of tokens and places, summed."""
        ids = check_places(type(self).__name__, tokens, 0, len(self.places.weight))
        return self.tokens(ids) + self.places(wnp.arange(ids.shape[1]))

    def encoded(self, x: Any, mask: Any, key: Any) -> Any:
        """The result of the blocks for a sum of tables."""
        keys = [None] * (1 + len(self.blocks)) if key is None else list(keys_from(key, 1 + len(self.blocks)))
        x = self.dropout(self.norm(x), key=keys[0])
        visible = None if mask is None else wnp.asarray(mask)[:, None, None, :] != 0
        for block, k in zip(self.blocks, keys[1:], strict=True):
            x = block(x, mask=visible, key=k)
        return x


class BERT(Encoder):
    """BERT by its sizes; the tensors of a published one have the names that `nn.from_torch` expects.

    `mask` is true, or not 0, at tokens that count. `kinds` are the numbers of the segments, 0 if not given. `pooled`
    reduces the result of the call to one row for each text, unless `pooler=False`. The row of the token `padding`, 0 or
    none, gets no gradient. Dropout needs a `key` in training; `key` draws the weights. `sizes` and `options` are
    arguments as those of `GPT2`.

    Shapes: tokens, mask and kinds integers [batch, time]; float32 [batch, time, width], of `pooled` [batch, width].
    Raises: ShapeError for more tokens than places, IndexError for a token that the vocabulary does not have,
    ParameterError for no blocks.
    Source: Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.BERT(50, 16, 8, 2, 1, key=0)
    >>> hidden = model(np.array([[1, 2, 0]]), mask=np.array([[1, 1, 0]]))
    >>> hidden.shape, model.pooled(hidden).shape
    ((1, 3, 8), (1, 8))
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "tokens": "embeddings.word_embeddings",
        "places": "embeddings.position_embeddings",
        "kinds": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
        "blocks[*]": "encoder.layer.{}",
        "pooler": "pooler.dense",
    }
    optional_parts = ("pooler",)
    """The fields that are None where a folder has no tensors for them."""
    block = BERTBlock

    def __init__(self, *sizes: int, key: Any = None, kinds: int = 2, pooler: bool = True, **options: Any) -> None:
        one, two, three = keys_from(key, 3)
        super().__init__(*sizes, key=one, **options)
        width = self.tokens.weight.shape[1]
        self.kinds, self.pooler = table(kinds, width, two), dense(width, width, three) if pooler else None

    def __call__(self, tokens: Any, *, mask: Any = None, kinds: Any = None, key: Any = None) -> NDArray:
        x = self.embedded(tokens)
        kinds = wnp.zeros(x.shape[:2], wnp.int64) if kinds is None else kinds
        return self.encoded(x + self.kinds(kinds), mask, key)

    def pooled(self, hidden: Any) -> NDArray:
        """tanh of a dense layer of the first token's row; raises ModelError for a model without that layer."""
        if self.pooler is None:
            raise ModelError("BERT: this model has no pooler", hint="hidden[:, 0] is what one reads")
        return wnp.tanh(self.pooler(hidden[:, 0]))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> BERT:
        """The model of a published configuration."""
        dropout = config.get("hidden_dropout_prob", 0.1)
        parts = {
            "attention_probs_dropout_prob": config.get("attention_probs_dropout_prob", 0.1) != dropout,
            "position_embedding_type": (config.get("position_embedding_type") or "absolute") != "absolute",
            "is_decoder": config.get("is_decoder", False),
        }
        refuse_parts("BERT", parts)
        return cls(
            *[config[name] for name in BERT_SIZES],
            key=key,
            kinds=config.get("type_vocab_size", 2),
            hidden=config["intermediate_size"],
            activation=config.get("hidden_act", "gelu"),
            eps=config.get("layer_norm_eps", 1e-12),
            dropout=dropout,
            padding=config.get("pad_token_id", 0),
        )

    def config(self) -> dict[str, Any]:
        """The configuration in the published form."""
        return {
            **dict(zip(BERT_SIZES, encoder_sizes(self), strict=True)),
            "type_vocab_size": len(self.kinds.weight),
            "pad_token_id": self.tokens.padding_idx,
            "intermediate_size": self.blocks[0].feed_forward.up.weight.shape[1],
            "hidden_act": activation_word(self.blocks[0].feed_forward),
            "layer_norm_eps": self.norm.eps,
            **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), self.dropout.p),
        }


class DistilBERT(Encoder):
    """DistilBERT by its sizes; the tensors of a published one have the names that `nn.from_torch` expects.

    `mask` is true, or not 0, at tokens that count. The row of the token `padding`, 0 or none, gets no gradient. Dropout
    needs a `key` in training; `key` draws the weights.
    Arguments are those of `GPT2`.

    Shapes: tokens and mask integers [batch, time]; float32 [batch, time, width].
    Raises: ShapeError for more tokens than places, IndexError for a token that the vocabulary does not have,
    ParameterError for no blocks.
    Source: Sanh et al., "DistilBERT, a distilled version of BERT", 2019.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.models.DistilBERT(50, 16, 8, 2, 1, key=0)(np.array([[1, 2, 3]])).shape
    (1, 3, 8)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "tokens": "embeddings.word_embeddings",
        "places": "embeddings.position_embeddings",
        "norm": "embeddings.LayerNorm",
        "blocks[*]": "transformer.layer.{}",
    }
    block = DistilBERTBlock

    def __call__(self, tokens: Any, *, mask: Any = None, key: Any = None) -> NDArray:
        return self.encoded(self.embedded(tokens), mask, key)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> DistilBERT:
        """The model of a published configuration."""
        dropout = config.get("dropout", 0.1)
        refuse_parts("DistilBERT", {"attention_dropout": config.get("attention_dropout", 0.1) != dropout})
        return cls(
            *[config[name] for name in DISTILLED_SIZES],
            key=key,
            hidden=config["hidden_dim"],
            activation=config.get("activation", "gelu"),
            dropout=dropout,
            padding=config.get("pad_token_id", 0),
        )

    def config(self) -> dict[str, Any]:
        """The configuration in the published form."""
        return {
            **dict(zip(DISTILLED_SIZES, encoder_sizes(self), strict=True)),
            "pad_token_id": self.tokens.padding_idx,
            "hidden_dim": self.blocks[0].feed_forward.up.weight.shape[1],
            "activation": activation_word(self.blocks[0].feed_forward),
            **dict.fromkeys(("dropout", "attention_dropout"), self.dropout.p),
        }


BERT_SIZES = (
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
)
DISTILLED_SIZES = ("vocab_size", "max_position_embeddings", "dim", "n_heads", "n_layers")
"""The sizes of the constructors, as published configurations call them."""


def encoder_sizes(model: Encoder) -> tuple[int, ...]:
    """Vocabulary, places, width, heads and depth."""
    tokens, places = model.tokens.weight, model.places.weight
    return len(tokens), len(places), tokens.shape[1], model.blocks[0].attention.heads, len(model.blocks)
