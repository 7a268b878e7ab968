"""A small GPT over characters, its loss and its sampling: blocks of attention and a dense net."""

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn


class Writer(nn.Module):
    """Scores f32[n, time, count] of the next character, at each place of texts that are integers [n, time]."""

    def __init__(self, count: int, width: int = 128, layers: int = 4, heads: int = 4, *, key: Any) -> None:
        first, last, *keys = ws.random.split(key, layers + 2)
        options: dict[str, Any] = {"causal": True, "rope": 10000.0, "norm": "rms", "bias": False}
        self.embedding = nn.Embedding(count, width, key=first)
        self.blocks = [nn.TransformerBlock(width, heads, key=k, **options) for k in keys]
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, count, bias=False, key=last)

    def __call__(self, text: Any) -> Any:
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def continued(self, text: Any, caches: list[Any], position: Any, mask: Any) -> tuple[Any, list[Any]]:
        """(scores after the last of these characters, caches that hold them), which stand at `position` and after."""
        x, new = self.embedding(text), []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, cache = block(x, cache=cache, position=position, mask=mask)
            new.append(cache)
        return self.head(self.norm(x[:, -1])), new


def text_loss(model: Writer, text: Any) -> Any:
    """The cross-entropy of each character that follows, in bits."""
    return nn.cross_entropy(model(text[:, :-1]), text[:, 1:]) / np.log(2)


def writing(count: int, reach: int, temperature: float = 0.8) -> Any:
    """A function of a model and {"key", "text"} that goes on from a text [time] for `count` characters.

    No character looks further back than `reach`, which is what the model was trained to do.
    """

    def write(model: Writer, batch: Any) -> Any:
        text = batch["text"]
        places = np.arange(len(text) + count)
        caches = [block.init_cache(1, len(places)) for block in model.blocks]
        near = places > places[: len(text), None] - reach
        scores, caches = model.continued(text[None], caches, 0, near)

        def step(carry: Any, key: Any) -> Any:
            scores, caches, position = carry
            drawn = ws.random.categorical(key, scores[0] / temperature)
            scores, caches = model.continued(drawn[None, None], caches, position, places > position - reach)
            return (scores, caches, position + 1), drawn

        return ws.scan(step, (scores, caches, np.int64(len(text))), ws.random.split(batch["key"], count))[1]

    return write
