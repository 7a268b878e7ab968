"""A small GPT over characters, its loss and its sampling: blocks of attention and a dense net."""

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn


class Writer(nn.Module):
    """Scores f32[n, time, count] of the next character, at each position of texts, which are integers [n, time]."""

    def __init__(self, count: int, width: int = 128, layers: int = 4, heads: int = 4, *, key: Any) -> None:
        first, last, *keys = ws.random.split(key, layers + 2)
        options: dict[str, Any] = {"causal": True, "rope": 10000.0, "norm": "rms", "bias": False}
        self.embedding = nn.Embedding(count, width, key=first)
        self.blocks = [nn.TransformerBlock(width, heads, key=k, **options) for k in keys]
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, count, bias=False, key=last)

    def __call__(self, text: Any, *, cache: Any = None, position: Any = 0, reach: int | None = None) -> Any:
        x, new = self.embedding(text), []
        if cache is None:
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))
        places = np.arange(cache[0]["k"].shape[2])
        near = None if reach is None else places > position + np.arange(x.shape[1])[:, None] - reach
        for block, held in zip(self.blocks, cache, strict=True):
            x, held = block(x, cache=held, position=position, mask=near)
            new.append(held)
        return self.head(self.norm(x)), new

    def init_cache(self, batch: int, length: int, dtype: Any = np.float32) -> list[Any]:
        """A cache for so many texts of at most so many characters."""
        return [block.init_cache(batch, length, dtype) for block in self.blocks]


def text_loss(model: Writer, text: Any) -> Any:
    """The cross-entropy of each next character, in bits."""
    return nn.cross_entropy(model(text[:, :-1]), text[:, 1:]) / np.log(2)


def writing(count: int, reach: int, temperature: float = 0.8) -> Any:
    """A function of a model and {"key", "text"} that continues a text [time] by `count` characters.

    No character attends further back than `reach`, as in training.
    """

    def write(model: Writer, batch: Any) -> Any:
        def decode(text: Any, cache: Any, position: Any) -> Any:
            return model(text, cache=cache, position=position, reach=reach)

        options = {"key": batch["key"], "temperature": temperature, "init_cache": model.init_cache}
        return nn.generate(decode, batch["text"], count, **options)[len(batch["text"]) :]

    return write
