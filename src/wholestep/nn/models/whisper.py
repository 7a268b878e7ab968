"""The encoder of Whisper: mel spectrograms through two convolutions and transformer blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import gelu
from wholestep.nn.annotations import frozen
from wholestep.nn.conv_layers import Conv1d
from wholestep.nn.dropouts import Dropout
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import sized
from wholestep.nn.models.configurations import activation_named, activation_word, refuse_parts
from wholestep.nn.models.transformer_parts import AssembledBlock, SeparateAttention, dense
from wholestep.nn.module import Module
from wholestep.nn.norm_layers import LayerNorm
from wholestep.nn.transformer import FeedForward
from wholestep.nn.windows import type_text

SIZES = ("num_mel_bins", "max_source_positions", "d_model", "encoder_attention_heads", "encoder_layers")
"""The sizes of a published configuration, in the order of the constructor."""


class WhisperBlock(AssembledBlock):
    """A block of Whisper's encoder; its layer for keys has no bias."""

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "attention_norm": "self_attn_layer_norm",
        "attention.query": "self_attn.q_proj",
        "attention.keys": "self_attn.k_proj",
        "attention.values": "self_attn.v_proj",
        "attention.out": "self_attn.out_proj",
        "feed_forward_norm": "final_layer_norm",
        "feed_forward.up": "fc1",
        "feed_forward.down": "fc2",
    }


class WhisperEncoder(Module):
    """Whisper's encoder by its sizes; the tensors of a published one have the names that `nn.from_torch` expects.

    The sizes that are preset are those of Whisper-tiny. The table of places, sines and cosines, is not trained. Dropout
    needs a `key` in training; `key` draws the weights. Other arguments are those of `GPT2`.

    Shapes: x floats [n, bins, 2 * places], a mel spectrogram; [n, places, width].
    Raises: ParameterError for a width that is odd and for no blocks, ShapeError for a spectrogram of another size.
    Source: Radford et al., "Robust speech recognition via large-scale weak supervision", 2022.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.models.WhisperEncoder(bins=4, places=6, width=8, heads=2, depth=1, key=0)
    >>> model(np.ones((2, 4, 12), np.float32)).shape
    (2, 6, 8)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "first": "conv1",
        "second": "conv2",
        "places": "embed_positions.weight",
        "blocks[*]": "layers.{}",
        "norm": "layer_norm",
    }

    _draws = True

    def __init__(
        self,
        bins: int = 80,
        places: int = 1500,
        width: int = 384,
        heads: int = 6,
        depth: int = 4,
        *,
        key: Any = None,
        hidden: int | None = None,
        activation: str = "gelu",
        dropout: float = 0.0,
    ) -> None:
        if width % 2:
            raise ParameterError(f"WhisperEncoder: the width {width} is odd, and half of it are sines")
        sized("WhisperEncoder", depth=depth)
        one, two, *others = keys_from(key, 2 + depth)
        self.first = Conv1d(bins, width, 3, key=one, padding=1)
        self.second = Conv1d(width, width, 3, key=two, stride=2, padding=1)
        self.places, self.dropout = frozen(sine_table(places, width)), Dropout(dropout)
        self.blocks, self.norm = list[WhisperBlock](), LayerNorm(width)
        for k in others:
            up, down, keys, rest = keys_from(k, 4)
            forward = FeedForward(
                width, hidden or 4 * width, key=up, activation=activation_named(activation, "WhisperEncoder")
            )
            forward.up, forward.down = dense(width, hidden or 4 * width, up), dense(hidden or 4 * width, width, down)
            attention = SeparateAttention(width, heads, key=rest, dropout=dropout)
            attention.keys = dense(width, width, keys, bias=False)
            norms = LayerNorm(width), LayerNorm(width)
            self.blocks.append(WhisperBlock(attention, forward, norms, norm_first=True, dropout=dropout))

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        x = wnp.asarray(x)
        bins, length = self.first.weight.shape[1], 2 * len(self.places)
        if x.ndim != 3 or x.shape[1:] != (bins, length):
            raise ShapeError(
                f"WhisperEncoder: the spectrogram is {type_text(x)}; it is [n, {bins}, {length}]",
                hint="pad a shorter one with what silence has, and cut a longer one into parts",
            )
        keys = [None] * (1 + len(self.blocks)) if key is None else list(keys_from(key, 1 + len(self.blocks)))
        x = gelu(self.second(gelu(self.first(x))))
        x = self.dropout(wnp.swapaxes(x, 1, 2) + self.places, key=keys[0])
        for block, k in zip(self.blocks, keys[1:], strict=True):
            x = block(x, key=k)
        return self.norm(x)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, key: Any) -> WhisperEncoder:
        """The encoder of a published configuration; raises ModelError for unsupported options."""
        dropout = config.get("dropout", 0.0)
        parts = {
            "attention_dropout": config.get("attention_dropout", 0.0) != dropout,
            "activation_dropout": config.get("activation_dropout", 0.0) != 0.0,
            "encoder_layerdrop": config.get("encoder_layerdrop", 0.0) != 0.0,
        }
        refuse_parts("WhisperEncoder", parts)
        return cls(
            *[config[name] for name in SIZES],
            key=key,
            hidden=config["encoder_ffn_dim"],
            activation=config.get("activation_function", "gelu"),
            dropout=dropout,
        )

    def config(self) -> dict[str, Any]:
        """The configuration in the published form."""
        width, bins, _ = self.first.weight.shape
        net = self.blocks[0].feed_forward
        sizes = (bins, len(self.places), width, self.blocks[0].attention.heads, len(self.blocks))
        return {
            **dict(zip(SIZES, sizes, strict=True)),
            "encoder_ffn_dim": net.up.weight.shape[1],
            "activation_function": activation_word(net),
            **dict.fromkeys(("dropout", "attention_dropout"), self.dropout.p),
        }


def sine_table(places: int, width: int) -> NDArray:
    """Sines, then cosines, of each place at frequencies from 1 down to 1/10000."""
    rates = np.exp(-np.log(10000) / max(width // 2 - 1, 1) * np.arange(width // 2))
    angles = np.arange(places)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
