"""Trainings that several processes share, by name: perceptrons, the digits model, a small GPT, norms, accumulation."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli import digits, text
from wholestep_tools.audit.workers.equal_runs import Job
from wholestep_tools.audit.workers.threads import AXIS
from wholestep_tools.bench.draws import dense
from wholestep_tools.bench.models import mlp

ROWS = 12
"""The rows of a batch: 1, 2, 3 and 4 processes can share them."""
SIGNS, TIME = 23, 16


def pictures(side: int) -> dict[str, Any]:
    """Pictures f32[ROWS, side] with labels from 0 to 9."""
    rng = np.random.default_rng(4)
    return {"x": rng.random((ROWS, side), np.float32), "y": rng.integers(0, 10, ROWS).astype(np.int32)}


def perceptron(optimizer: Any, **options: Any) -> Job:
    """W1: 784-256-128-10."""
    return Job(mlp, dense(np.random.default_rng(3), (784, 256, 128, 10), 2.0), pictures(784), optimizer, options)


def digit_reader() -> Job:
    """The model of `wholestep train digits`, narrower; its pictures are moved at random."""
    model, batch = digits.DigitReader(channels=4, key=ws.random.key(0)), pictures(64)
    loss: Any = digits.digits_loss
    return Job(loss, model, (batch["x"], batch["y"]), ws.optim.adamw(1e-3))


def writer(**options: Any) -> Job:
    """The model of `wholestep train text`, smaller."""
    model = text.Writer(SIGNS, 24, 2, 2, key=ws.random.key(1))
    rows = np.random.default_rng(5).integers(0, SIGNS, (ROWS, TIME)).astype(np.int32)
    clipped = ws.optim.chain(ws.optim.clip_by_global_norm(0.5), ws.optim.adam(1e-3))
    return Job(text.text_loss, model, rows, clipped, options)


class Normed(nn.Module):
    """Two dense layers with a batch norm between, whose statistics are buffers."""

    def __init__(self, key: Any) -> None:
        first, last = ws.random.split(key, 2)
        self.first, self.norm = nn.Linear(64, 20, key=first), nn.BatchNorm(20)
        self.last = nn.Linear(20, 10, key=last)

    def __call__(self, x: Any) -> Any:
        return self.last(np.tanh(self.norm(self.first(x))))


def batch_norm() -> Job:
    """A network with batch norm over the rows of each process."""

    def loss(model: Any, batch: Any) -> Any:
        return nn.cross_entropy(model(batch["x"]), batch["y"])

    return Job(loss, Normed(ws.random.key(2)), pictures(64), ws.optim.adam(1e-3))


def shared_statistics() -> Job:
    """A network whose rows are normed by the mean and variance of all processes' rows."""
    params = dense(np.random.default_rng(6), (64, 20, 10), 1.0)

    def loss(params: Any, batch: Any) -> Any:
        h = batch["x"] @ params["w0"] + params["b0"]
        mean = ws.pmean(h.mean(axis=0), AXIS)
        var = ws.pmean(((h - mean) ** 2).mean(axis=0), AXIS)
        scores = np.tanh((h - mean) / np.sqrt(var + np.float32(1e-5))) @ params["w1"] + params["b1"]
        return nn.cross_entropy(scores, batch["y"])

    return Job(loss, params, pictures(64), ws.optim.adam(1e-3))


ADAM = ws.optim.adam(1e-3)
CLIPPED = ws.optim.chain(ws.optim.clip_by_global_norm(0.1), ADAM)
JOBS: dict[str, Any] = {
    "W1": lambda: perceptron(ADAM),
    "W1, clipped": lambda: perceptron(CLIPPED, grad_norm=True),
    "W1, accumulated": lambda: perceptron(ws.optim.accumulate(ADAM, 2)),
    "W1, scaled": lambda: perceptron(CLIPPED, precision="float16"),
    "digits": digit_reader,
    "text": writer,
    "text, bfloat16": lambda: writer(precision="bfloat16"),
    "batch norm": batch_norm,
}
"""Trainings whose processes depend on each other only through the mean of gradients."""
