"""An ensemble of small perceptrons that the estimators train together, by one step for each shape."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep import forks, numpy as wnp
from wholestep.ir.graph import NDArray
from wholestep.nn import activations
from wholestep.nn.cross_entropies import cross_entropy
from wholestep.nn.exponentials import softmax
from wholestep.optim import adamw
from wholestep.train.step.compile import compile
from wholestep.train.step.step import Step

Params = dict[str, Any]

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(activations, name) for name in ("elu", "gelu", "mish", "relu", "selu", "silu", "tanh")
}

WARM_UP = 0.05
"""The share of all updates that are the warmup of the learning rate, which then has a cosine decay to zero."""

ROWS_AT_ONCE = 4096
"""The number of rows predicted at a time, so that memory does not grow with the number of all rows."""


class Shape(NamedTuple):
    """The key of a program: layer sizes from inputs to outputs, activation, networks, rows of a batch, loss, dtype."""

    sizes: tuple[int, ...]
    activation: str
    members: int
    rows: int
    classifies: bool
    dtype: str


class Data(NamedTuple):
    """Inputs f[n, features] of about unit size, labels i64[n] or targets f[n, outputs], and weights f[n]."""

    x: NDArray
    y: NDArray
    w: NDArray


def init(shape: Shape, rng: Any) -> Params:
    """Initial weights with the variance that preserves the size of activations (He et al., 2015), and zero biases."""
    params: Params = {}
    pairs = list(zip(shape.sizes[:-1], shape.sizes[1:], strict=True))
    for i, (inputs, outputs) in enumerate(pairs):
        gain = math.sqrt(2.0) if i < len(pairs) - 1 else 0.5
        w = rng.normal(size=(shape.members, inputs, outputs)) * (gain / math.sqrt(inputs))
        params[f"w{i}"] = w.astype(shape.dtype)
        params[f"b{i}"] = np.zeros((shape.members, 1, outputs), shape.dtype)
    return params


def ensemble_scores(params: Params, x: Any, activation: str) -> Any:
    """f[members, n, outputs]: the output of each network for each row."""
    last = len(params) // 2 - 1
    for i in range(last):
        x = ACTIVATIONS[activation](x @ params[f"w{i}"] + params[f"b{i}"])
    return x @ params[f"w{last}"] + params[f"b{last}"]


def losses(shape: Shape, params: Params, x: Any, y: Any) -> Any:
    """f[members, n]: cross-entropy with labels, or the mean squared error over the outputs."""
    found = ensemble_scores(params, x, shape.activation)
    if shape.classifies:
        return cross_entropy(found, wnp.broadcast_to(y, found.shape[:2]), reduction="none")
    return wnp.mean((found - y) ** 2, axis=-1)


def predicted(shape: Shape, params: Params, x: NDArray) -> NDArray:
    """f[n, outputs]: the mean over the networks of probabilities of classes, or of targets."""
    parts = []
    for start in range(0, len(x), ROWS_AT_ONCE):
        found = ensemble_scores(params, x[start : start + ROWS_AT_ONCE], shape.activation)
        parts.append(np.mean(softmax(found) if shape.classifies else found, axis=0))
    return np.concatenate(parts)


def mean_loss(shape: Shape, params: Params, data: Data) -> float:
    """The weighted mean of the networks' losses over data."""
    total = 0.0
    for start in range(0, len(data.x), ROWS_AT_ONCE):
        x, y, w = [a[start : start + ROWS_AT_ONCE] for a in data]
        total += float(np.sum(np.mean(losses(shape, params, x, y), axis=0) * w))
    return total / float(np.sum(data.w))


def made(shape: Shape) -> Step:
    """A compiled step for networks of this shape, into which any parameters may be set."""

    def perceptrons(params: Params, batch: Data) -> Any:
        each = wnp.sum(losses(shape, params, batch.x, batch.y), axis=0)
        return wnp.sum(each * batch.w) / wnp.sum(batch.w)

    x = np.zeros((shape.rows, shape.sizes[0]), shape.dtype)
    y = np.zeros(shape.rows, np.int64) if shape.classifies else np.zeros((shape.rows, shape.sizes[-1]), shape.dtype)
    params = init(shape, np.random.default_rng(0))
    return compile(
        perceptrons, params, optimizer=adamw(0.0, decay="w*"), batch=Data(x, y, np.ones(shape.rows, shape.dtype))
    )


class Pool:
    """A pool of idle compiled steps; beyond `kept` steps, the one idle for longest is dropped."""

    def __init__(self, kept: int) -> None:
        self.idle: deque[tuple[Shape, Step]] = deque(maxlen=kept)
        self._forked()
        forks.heir(self)

    def _forked(self) -> None:
        """Make a new lock in this process; the idle steps are in no use by another thread."""
        self.lock = threading.RLock()

    def take(self, shape: Shape) -> Step:
        """Take a step for this shape out of the pool, or compile one."""
        with self.lock:
            found = next((pair for pair in reversed(self.idle) if pair[0] == shape), None)
            if found is not None:
                self.idle.remove(found)
        return made(shape) if found is None else found[1]

    def give(self, shape: Shape, step: Step) -> None:
        """Put a step back into the pool."""
        with self.lock:
            self.idle.append((shape, step))


POOL = Pool(kept=16)


class Settings(NamedTuple):
    """Settings of a training run; it ends early where the loss on `held_out` has not fallen for `patience` epochs."""

    lr: float
    weight_decay: float
    epochs: int
    held_out: Data | None
    patience: int


class Trained(NamedTuple):
    """Parameters, the mean loss of each epoch, that on held-out samples, and the number of skipped updates."""

    params: Params
    curve: list[float]
    held_out: list[float]
    skipped: int


def train(shape: Shape, params: Params, data: Data, settings: Settings, rng: Any) -> Trained:
    """Train from these parameters on, with AdamW, batches drawn by `rng`."""
    step = POOL.take(shape)
    step.set(params=params, weight_decay=settings.weight_decay)
    step.reset(params=False)
    trained = EnsembleTraining(step, shape, data, settings, rng).run()
    POOL.give(shape, step)  # an interrupted step is not put back
    return trained


class EnsembleTraining:
    """One training run on a step that no other run uses meanwhile."""

    def __init__(self, step: Step, shape: Shape, data: Data, settings: Settings, rng: Any) -> None:
        self.step, self.shape, self.data, self.settings, self.rng = step, shape, data, settings, rng
        self.count = -(-len(data.x) // shape.rows)
        self.skipped = 0
        self.batches = [pad_rows(data, shape.rows)] if self.count == 1 else None

    def run(self) -> Trained:
        """Run all epochs, or fewer by the held-out loss, and return the results with the best parameters."""
        curve: list[float] = []
        seen: list[float] = []
        best, kept = math.inf, None
        for epoch in range(self.settings.epochs):
            curve.append(self.epoch(epoch))
            if self.settings.held_out is None:
                continue
            params = self.step.params
            seen.append(mean_loss(self.shape, params, self.settings.held_out))
            if seen[-1] < best:
                best, kept = seen[-1], params
            elif epoch - int(np.argmin(seen)) >= self.settings.patience:
                break
        return Trained(self.step.params if kept is None else kept, curve, seen, self.skipped)

    def epoch(self, epoch: int) -> float:
        """Run one pass over the data and return the mean of its losses."""
        total = 0.0
        for i, batch in enumerate(self.drawn()):
            self.step.set(lr=self.settings.lr * self.share(epoch * self.count + i + 1))
            result = self.step(batch)
            total += result.loss
            self.skipped += result.skipped
        return total / (self.count * self.shape.members)

    def drawn(self) -> Any:
        """The batches of an epoch; data that fits into one is not shuffled, since order does not matter there."""
        if self.batches is not None:
            return self.batches
        order, rows = self.rng.permutation(len(self.data.x)), self.shape.rows
        parts = (order[start : start + rows] for start in range(0, len(order), rows))
        return (pad_rows(Data(*[a[part] for a in self.data]), rows) for part in parts)

    def share(self, update: int) -> float:
        """The share of the learning rate that applies to an update, the first having number 1."""
        done = update / (self.count * self.settings.epochs)
        return min(1.0, done / WARM_UP) * 0.5 * (1 + math.cos(math.pi * done))


def pad_rows(data: Data, rows: int) -> Data:
    """Data with rows of weight 0 at its end, so that every batch has the same shape."""
    missing = rows - len(data.x)
    if missing == 0:
        return data
    return Data(*[np.concatenate([a, np.zeros((missing, *a.shape[1:]), a.dtype)]) for a in data])
