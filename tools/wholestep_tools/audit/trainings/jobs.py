"""Small trainings whose every bit is compared: a perceptron, a convolutional network, and a GPT."""

from __future__ import annotations

import argparse
import hashlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn, tree
from wholestep.cli import digits, text
from wholestep.train.data.datasets import split_digits as load_digits
from wholestep.train.data.loader import Loader
from wholestep.train.data.text_corpus import CHARACTERS, encode, text_windows
from wholestep.train.step.step import Step

KEY = 7
EPOCHS = 2
WIDE = 2048
"""The width of a perceptron with a state of two megabytes: saving it takes long enough to be hit."""


class Job(NamedTuple):
    """A loss, parameters for a key, an optimizer for so many steps, data, and rows in a batch."""

    loss: Callable[..., Any]
    params: Callable[[Any], Any]
    optimizer: Callable[[int], Any]
    data: Any
    size: int

    @property
    def rows(self) -> int:
        """The number of rows of the data."""
        return len(tree.leaves(self.data)[0])

    @property
    def steps(self) -> int:
        """The number of batches of an epoch; the last one has the remaining rows."""
        return -(-self.rows // self.size)

    def step(self, count: int) -> Step:
        """The compiled step, of so many steps a call."""
        first = (count,) if count > 1 else ()
        batch = tree.map(lambda x: ws.ShapeDtype((*first, self.size, *x.shape[1:]), x.dtype), self.data)
        optimizer = self.optimizer(EPOCHS * self.steps)
        start = self.params(ws.random.key(KEY))
        return ws.compile(self.loss, start, optimizer=optimizer, batch=batch, steps_per_call=count, key=KEY)

    def loader(self, count: int) -> Loader:
        """The batches for a loop of calls."""
        return Loader(self.data, self.size, key=KEY, steps_per_call=count, prefetch=0)


def perceptron(width: int = 128) -> Job:
    """Functions over a list of arrays: a perceptron that reads digits, with noise drawn by the step's key."""
    split = load_digits(0)

    def start(key: Any) -> Any:
        first, last = ws.random.split(key)
        hidden = 0.2 * ws.random.normal(first, (64, width), np.float32)
        return [hidden, np.zeros(width, np.float32), 0.1 * ws.random.normal(last, (width, 10), np.float32)]

    return Job(perceptron_loss, start, falling, (split.train_x, split.train_y), 64)


def perceptron_loss(params: Any, batch: Any, *, key: Any) -> Any:
    """The mean cross-entropy."""
    x, labels = batch
    noisy = x + 0.2 * ws.random.normal(key, x.shape, np.float32)
    return nn.cross_entropy(np.maximum(noisy @ params[0] + params[1], 0) @ params[2], labels)


def falling(total: int) -> Any:
    """Adam with a rate that falls to zero."""
    return ws.optim.adam(lambda t: 0.003 * (1 - t / total))


def network() -> Job:
    """The convolutional network of `wholestep train digits`, with fewer channels."""
    split = load_digits(0)

    def start(key: Any) -> Any:
        return digits.DigitReader(channels=8, key=key)

    return Job(digits.digits_loss, start, falling, (split.train_x, split.train_y), 64)


def gpt() -> Job:
    """The GPT of `wholestep train text`, a small one, on one module of Python's library."""

    def start(key: Any) -> Any:
        return text.Writer(len(CHARACTERS), 32, 2, key=key)

    def optimizer(total: int) -> Any:
        return ws.optim.adamw(ws.optim.one_cycle(0.003, total), weight_decay=0.1)

    pieces = np.array(text_windows(encode(inspect.getsource(argparse))[:20_000], 32))
    return Job(text.text_loss, start, optimizer, pieces, 32)


JOBS: dict[str, Callable[[], Job]] = {"perceptron": perceptron, "digits": network, "text": gpt}


def sha256(state: Any) -> str:
    """One number for every bit of a state, with the names of its arrays."""
    digest = hashlib.sha256()
    for path, x in zip(tree.paths(state), tree.leaves(state), strict=True):
        digest.update(f"{path} {x.dtype} {x.shape}\n".encode())
        digest.update(x.tobytes())
    return digest.hexdigest()
