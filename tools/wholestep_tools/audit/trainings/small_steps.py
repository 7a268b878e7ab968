"""Steps of each kind that people train, small enough to be exported to every target and trained there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn, optim


def dense(optimizer: Any = None) -> tuple[Any, Any]:
    """A perceptron with dropout."""

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        h = np.maximum(batch["x"] @ p["w"] + p["b"], 0)
        h = h * (ws.random.uniform(key, h.shape) < 0.8)
        return nn.cross_entropy(h @ p["v"], batch["y"])

    rng = np.random.default_rng(0)
    sizes = {"w": (5, 8), "b": (8,), "v": (8, 3)}
    p = {name: rng.normal(size=shape).astype(np.float32) for name, shape in sizes.items()}
    batch = {"x": rng.normal(size=(16, 5)).astype(np.float32), "y": rng.integers(0, 3, 16)}
    return ws.compile(loss, p, optimizer=optimizer or optim.adam(1e-2), batch=batch), batch


def line() -> tuple[Any, Any]:
    """A line through noise."""
    batch = np.linspace(0, 1, 8)
    return ws.compile(
        lambda p, x, *, key: np.mean((p["a"] * x + p["b"] - 2 * x + 0.1 * ws.random.normal(key, x.shape)) ** 2),
        {"a": 0.0, "b": 1.0},
        optimizer=optim.adam(0.1),
        batch=batch,
    ), batch


class Reader(nn.Module):
    """A convolutional network with statistics of its batches."""

    def __init__(self) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False, key=0), nn.BatchNorm(4), nn.Lambda(nn.relu), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(64, 3, key=1)

    def __call__(self, x: Any) -> Any:
        return self.head(self.body(x).reshape(x.shape[0], -1))


def images() -> tuple[Any, Any]:
    """A convolutional network, clipped and decayed, along a cosine."""
    rng = np.random.default_rng(1)
    batch = (rng.normal(size=(6, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 6))
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(optim.cosine(3e-3, 30)))

    def loss(model: Any, batch: Any, *, key: Any) -> Any:
        shift = ws.random.randint(key, (), 0, 2)
        x = np.where(shift == 1, np.flip(batch[0], -1), batch[0])
        return nn.cross_entropy(model(x), batch[1], label_smoothing=0.1)

    return ws.compile(loss, Reader(), optimizer=optimizer, batch=batch), batch


def rows() -> tuple[Any, Any]:
    """An LSTM over a sequence, as a loop."""
    rng = np.random.default_rng(2)
    model = nn.Sequential(nn.LSTM(3, 5, key=0))
    batch = (rng.normal(size=(4, 7, 3)).astype(np.float32), rng.normal(size=(4, 7, 5)).astype(np.float32))

    def loss(model: Any, batch: Any) -> Any:
        found = model(batch[0])
        return nn.mse(found[0] if isinstance(found, tuple) else found, batch[1])

    return ws.compile(loss, model, optimizer=optim.rmsprop(1e-2), batch=batch), batch


def tokens() -> tuple[Any, Any]:
    """A transformer that predicts the next token."""
    rng = np.random.default_rng(3)
    batch = rng.integers(0, 11, (2, 9))

    class Language(nn.Module):
        def __init__(self) -> None:
            self.words = nn.Embedding(11, 8, key=0)
            self.block = nn.TransformerBlock(8, 2, causal=True, rope=True, key=1)
            self.norm = nn.RMSNorm(8)

        def __call__(self, x: Any) -> Any:
            return self.norm(self.block(self.words(x))) @ self.words.weight.T

    def loss(model: Any, batch: Any) -> Any:
        return nn.cross_entropy(model(batch[:, :-1]), batch[:, 1:])

    return ws.compile(loss, Language(), optimizer=optim.lion(1e-3), batch=batch), batch


STEPS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "line": line,
    "dense": dense,
    "images": images,
    "rows": rows,
    "tokens": tokens,
}
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: optim.sgd(0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda: optim.adagrad(0.1),
    "adafactor": lambda: optim.adafactor(0.01),
    "lamb": lambda: optim.lamb(0.01),
    "muon": lambda: optim.muon(0.01, rest=optim.adamw(0.01)),
    "lookahead": lambda: optim.lookahead(optim.radam(0.01)),
    "accumulate": lambda: optim.accumulate(optim.nadam(0.01), 3),
    "adamax": lambda: optim.adamax(optim.warmup(optim.exponential(0.01, 0.9, 1), 5)),
}
