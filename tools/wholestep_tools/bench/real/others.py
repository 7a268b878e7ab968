"""Models without attention and convolutions: wide layers, a recurrent net, tall data, and a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep_tools.bench.draws import Arrays, labels, normal
from wholestep_tools.bench.real.losses import Classifier, Regressor
from wholestep_tools.bench.real.operations import Operations


@dataclass(frozen=True)
class WideLayers(Classifier):
    """Dense layers of equal width with ReLU behind each, and a head of ten classes."""

    width: int = 4096
    layers: int = 3
    rows: int = 128

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Weights and biases of the layers, and the head."""
        params = {"head": normal(rng, (self.width, 10), self.width**-0.5)}
        for i in range(self.layers):
            params[f"w{i}"] = normal(rng, (self.width, self.width), (2 / self.width) ** 0.5)
            params[f"b{i}"] = np.zeros(self.width, np.float32)
        return params

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Rows of numbers, and their classes."""
        return {"x": normal(rng, (self.rows, self.width)), "y": labels(rng, 10, (self.rows,))}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, 10]."""
        for i in range(self.layers):
            x = on.relu(x @ p[f"w{i}"] + p[f"b{i}"])
        return x @ p["head"]


@dataclass(frozen=True)
class RecurrentLanguageModel(Classifier):
    """An LSTM that scores the next token."""

    width: int = 512
    time: int = 64
    rows: int = 32
    vocabulary: int = 8192

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """The embedding, the weights of the gates, and the head."""
        width, scale = self.width, self.width**-0.5
        return {
            "tokens": normal(rng, (self.vocabulary, width), 1.0),
            "wx": normal(rng, (width, 4 * width), scale),
            "wh": normal(rng, (width, 4 * width), scale),
            "bias": np.zeros(4 * width, np.float32),
            "head": normal(rng, (width, self.vocabulary), scale),
        }

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Random sequences of tokens, and the target tokens."""
        shape = self.rows, self.time
        return {"x": labels(rng, self.vocabulary, shape), "y": labels(rng, self.vocabulary, shape)}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Scores [rows, time, vocabulary]."""
        return on.lstm(on.embedding(p["tokens"], x), p["wx"], p["wh"], p["bias"]) @ p["head"]


@dataclass(frozen=True)
class LogisticRegression(Regressor):
    """One row of weights for a million rows of a hundred numbers."""

    rows: int = 1_000_000
    columns: int = 100

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Weights and a bias."""
        return {"w": normal(rng, (self.columns,), self.columns**-0.5), "b": np.zeros((), np.float32)}

    def batch(self, rng: np.random.Generator) -> Arrays:
        """The rows, and a probability for each."""
        return {"x": normal(rng, (self.rows, self.columns)), "y": rng.random(self.rows, np.float32)}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """Probabilities [rows]."""
        return on.sigmoid(x @ p["w"] + p["b"])


@dataclass(frozen=True)
class GaussianProcess:
    """The negative log likelihood of a Gaussian process with a length for each dimension, float64, by Cholesky."""

    points: int = 1000
    dimensions: int = 8

    def parameters(self, rng: np.random.Generator) -> Arrays:
        """Logarithms of lengths, of the variance and of that of the noise."""
        return {"lengths": np.zeros(self.dimensions), "variance": np.zeros(()), "noise": np.full((), -2.0)}

    def batch(self, rng: np.random.Generator) -> Arrays:
        """Points, their values, and the identity."""
        drawn = rng.standard_normal((self.points, self.dimensions))
        return {"x": drawn, "y": rng.standard_normal((self.points, 1)), "identity": np.eye(self.points)}

    def forward(self, on: Operations, p: Any, x: Any) -> Any:
        """The covariance of the points without noise."""
        x = x * on.exp(-p["lengths"])
        squares = (x * x).sum(1)
        return on.exp(p["variance"] - 0.5 * (squares[:, None] + squares[None, :] - 2 * x @ x.T))

    def loss(self, on: Operations, p: Any, batch: Any) -> Any:
        """The negative log likelihood without its constant."""
        lower = on.cholesky(self.forward(on, p, batch["x"]) + on.exp(p["noise"]) * batch["identity"])
        white = on.solve_lower(lower, batch["y"])
        return 0.5 * (white * white).sum() + on.log(on.diagonal(lower)).sum()
