"""Five small trainings whose losses are followed step by step: a loss, parameters, an optimizer and data with rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn

ROWS, BATCH = 256, 16
FEATURES, TIMES, CLASSES = 8, 6, 4


class Training(NamedTuple):
    """A loss of parameters and a batch, the shapes of the parameters, and an optimizer; all of them share the data."""

    loss: Callable[..., Any]
    shapes: Mapping[str, tuple[int, ...]]
    optimizer: Any

    def start(self, seed: int) -> dict[str, Any]:
        """Parameters to begin with: matrices are normal by their number of rows, vectors are zero."""
        rng = np.random.default_rng([seed, 1])
        return {
            name: (rng.normal(size=shape) / np.sqrt(shape[0]) * (len(shape) > 1)).astype(np.float32)
            for name, shape in self.shapes.items()
        }


def batches(seed: int, count: int) -> list[dict[str, Any]]:
    """So many batches, each of rows that are drawn anew."""
    data, rng = rows(), np.random.default_rng([seed, 2])
    return [{name: x[at] for name, x in data.items()} for at in rng.integers(ROWS, size=(count, BATCH))]


def rows() -> dict[str, Any]:
    """Signals of several features, a number that depends on each, and a class."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, TIMES, FEATURES))
    y = np.sin(x[:, 0]) @ rng.normal(size=(FEATURES, 1)) + x[:, 1, :1] * x[:, 2, :1]
    kinds = np.argmax(x.mean(axis=1) @ rng.normal(size=(FEATURES, CLASSES)), axis=1)
    return {"x": x.astype(np.float32), "y": y.astype(np.float32), "kind": kinds}


def perceptron(p: Any, batch: Any) -> Any:
    """A regression by two layers."""
    flat = batch["x"].reshape(BATCH, -1)
    return np.mean((np.tanh(flat @ p["w"] + p["b"]) @ p["v"] - batch["y"]) ** 2)


def classifier(p: Any, batch: Any) -> Any:
    """Classes by three layers."""
    h = nn.relu(batch["x"].reshape(BATCH, -1) @ p["w"] + p["b"])
    return nn.cross_entropy(nn.relu(h @ p["u"] + p["c"]) @ p["v"], batch["kind"])


def convolution(p: Any, batch: Any) -> Any:
    """Classes by windows of three times, and the largest over all of them."""
    x = batch["x"]
    windows = np.concatenate([x[:, i : i + TIMES - 2] for i in range(3)], axis=2)
    return nn.cross_entropy(np.max(nn.gelu(windows @ p["w"] + p["b"]), axis=1) @ p["v"], batch["kind"])


def recurrence(p: Any, batch: Any) -> Any:
    """A regression by a gated recurrence over the times."""
    h = np.zeros((BATCH, 12), batch["x"].dtype)
    for i in range(TIMES):
        both = np.concatenate([batch["x"][:, i], h], axis=1)
        gate = nn.sigmoid(both @ p["g"] + p["b"])
        h = gate * h + (1 - gate) * np.tanh(both @ p["w"])
    return np.mean((h @ p["v"] - batch["y"]) ** 2)


def attention(p: Any, batch: Any) -> Any:
    """Classes by attention between the times, with a normalization."""
    x = nn.layer_norm(batch["x"])
    scores = (x @ p["q"]) @ (x @ p["k"]).swapaxes(1, 2) / FEATURES**0.5
    x = x + nn.softmax(scores) @ (x @ p["w"])
    return nn.cross_entropy(np.mean(x + nn.silu(x @ p["u"] + p["b"]) @ p["d"], axis=1) @ p["v"], batch["kind"])


FLAT = TIMES * FEATURES
TRAININGS: Mapping[str, Training] = {
    "perceptron": Training(perceptron, {"w": (FLAT, 16), "b": (16,), "v": (16, 1)}, ws.optim.sgd(0.02)),
    "classifier": Training(
        classifier,
        {"w": (FLAT, 24), "b": (24,), "u": (24, 16), "c": (16,), "v": (16, CLASSES)},
        ws.optim.adam(1e-3),
    ),
    "convolution": Training(
        convolution, {"w": (3 * FEATURES, 16), "b": (16,), "v": (16, CLASSES)}, ws.optim.sgd(0.02, momentum=0.9)
    ),
    "recurrence": Training(
        recurrence, {"w": (FEATURES + 12, 12), "g": (FEATURES + 12, 12), "b": (12,), "v": (12, 1)}, ws.optim.adam(2e-3)
    ),
    "attention": Training(
        attention,
        {
            **{name: (FEATURES, FEATURES) for name in "qkw"},
            **{"u": (FEATURES, 16), "b": (16,), "d": (16, FEATURES), "v": (FEATURES, CLASSES)},
        },
        ws.optim.adamw(1e-3, weight_decay=0.01),
    ),
}
