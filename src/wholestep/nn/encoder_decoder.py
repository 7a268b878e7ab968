"""The transformer of two stacks: an encoder reads one sequence, and a decoder writes another and attends to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.activations import relu
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import sized
from wholestep.nn.module import Module
from wholestep.nn.transformer import NORMS, TransformerBlock, TransformerDecoderBlock


class Transformer(Module):
    """An encoder of transformer blocks and a decoder of blocks that attend to it, each with a norm behind it.

    There are `encoder_layers` and `decoder_layers` blocks; all other arguments are those of `TransformerBlock`, for
    each of them, but that `activation` is relu where none is given; the decoder's self-attention is causal unless
    `causal=False`. `encode` and `decode` are the two halves, for a source that is read once. In training, dropout needs
    a `key`.

    Shapes: source floats [batch, places, width] and target [batch, time, width]; as target. `source_mask` is that of
    the encoder, `mask` of the decoder, and `context_mask` that with which the decoder looks at the encoder's result, as
    in `scaled_dot_product_attention`.
    Raises: ParameterError for a number of layers that is no positive integer, and as `TransformerBlock` does.
    Source: Vaswani et al., "Attention is all you need", 2017.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Transformer(16, 4, key=0, encoder_layers=2, decoder_layers=1)
    >>> model(np.ones((2, 7, 16), np.float32), np.ones((2, 5, 16), np.float32)).shape
    (2, 5, 16)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "encoder": "encoder.layers",
        "encoder_norm": "encoder.norm",
        "decoder": "decoder.layers",
        "decoder_norm": "decoder.norm",
    }

    _draws = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any = None,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        hidden: int | None = None,
        activation: Callable[[Any], Any] = relu,
        norm: str = "layer",
        norm_first: bool = True,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        sized("Transformer", encoder_layers=encoder_layers, decoder_layers=decoder_layers)
        if norm not in NORMS:
            raise ParameterError(f"Transformer: norm is {norm!r}", hint=f"{', '.join(NORMS)} are known")
        keys = list(keys_from(key, encoder_layers + decoder_layers))
        options: dict[str, Any] = {
            "hidden": hidden,
            "activation": activation,
            "norm": norm,
            "norm_first": norm_first,
            "dropout": dropout,
            "bias": bias,
            "dtype": dtype,
        }
        self.encoder = [TransformerBlock(width, heads, key=k, **options) for k in keys[:encoder_layers]]
        self.decoder = [
            TransformerDecoderBlock(width, heads, key=k, causal=causal, **options) for k in keys[encoder_layers:]
        ]
        self.encoder_norm, self.decoder_norm = NORMS[norm](width, dtype=dtype), NORMS[norm](width, dtype=dtype)

    def __call__(
        self,
        source: Any,
        target: Any,
        *,
        mask: Any = None,
        source_mask: Any = None,
        context_mask: Any = None,
        key: Any = None,
    ) -> NDArray:
        first, second = (None, None) if key is None else keys_from(key, 2)
        context = self.encode(source, mask=source_mask, key=first)
        return self.decode(target, context, mask=mask, context_mask=context_mask, key=second)

    def encode(self, source: Any, *, mask: Any = None, key: Any = None) -> NDArray:
        """The context that the decoder looks at, as wide as the source."""
        keys = [None] * len(self.encoder) if key is None else keys_from(key, len(self.encoder))
        for block, k in zip(self.encoder, keys, strict=True):
            source = block(source, mask=mask, key=k)
        return self.encoder_norm(source)

    def decode(
        self, target: Any, context: Any, *, mask: Any = None, context_mask: Any = None, key: Any = None
    ) -> NDArray:
        """The target after all blocks of the decoder, which look at a context."""
        keys = [None] * len(self.decoder) if key is None else keys_from(key, len(self.decoder))
        for block, k in zip(self.decoder, keys, strict=True):
            target = block(target, context, mask=mask, context_mask=context_mask, key=k)
        return self.decoder_norm(target)
