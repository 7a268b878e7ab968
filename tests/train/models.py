"""Models small enough to be trained by hand."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws


class Model(NamedTuple):
    """A loss with parameters to begin with, and data with rows."""

    loss: Callable[..., Any]
    params: Any
    data: Any


def perceptron():
    rng = np.random.default_rng(1)

    def loss(params, batch):
        h = np.tanh(batch["x"] @ params["w1"] + params["b1"])
        return np.mean((h @ params["w2"] - batch["y"]) ** 2)

    params = {"w1": rng.normal(size=(3, 5)), "b1": np.zeros(5), "w2": rng.normal(size=(5, 1))}
    data = {"x": rng.normal(size=(23, 3)), "y": rng.normal(size=(23, 1))}
    return Model(loss, *[{k: v.astype(np.float32) for k, v in d.items()} for d in (params, data)])


def classifier():
    rng = np.random.default_rng(2)

    def loss(params, batch):
        x, labels = batch
        scores = x @ params[0] + params[1]
        scores = scores - scores.max(axis=1, keepdims=True)
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels])

    return Model(loss, (rng.normal(size=(4, 3)), np.zeros(3)), (rng.normal(size=(23, 4)), rng.integers(0, 3, 23)))


def recurrent():
    rng = np.random.default_rng(3)

    def loss(w, xs):
        def forward(h, x):
            h = np.tanh(w @ h + x)
            return h, np.sum(h * h)

        return np.mean(ws.vmap(lambda row: ws.scan(forward, np.zeros(2), row)[1])(xs))

    return Model(loss, 0.3 * rng.normal(size=(2, 2)), rng.normal(size=(23, 4, 2)))


def polynomial():
    """Scalars and a batch that is one array."""
    x = np.linspace(-1, 1, 23)
    return Model(lambda p, x: np.mean((p["a"] * x + p["b"] - x**3) ** 2), {"a": np.array(0.5), "b": 0.1}, x)


MODELS = (perceptron, classifier, recurrent, polynomial)
