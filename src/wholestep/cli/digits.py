"""A network that reads handwritten digits, and its loss: two convolutions, two dense layers, images moved at random."""

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn

SIDE = 8


class DigitReader(nn.Module):
    """Scores f32[n, 10] of images f32[n, 64]; in training each image is shifted by up to a pixel, drawn by the key."""

    def __init__(self, *, channels: int = 32, key: Any) -> None:
        keys = ws.random.split(key, 4)
        self.first = nn.Conv2d(1, channels, 3, padding=1, key=keys[0])
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1, key=keys[1])
        self.hidden = nn.Linear(2 * channels * (SIDE // 2) ** 2, 128, key=keys[2])
        self.last = nn.Linear(128, 10, key=keys[3])

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        x = x.reshape(-1, SIDE, SIDE)
        x = (shift_at_random(x, key) if self.training else x)[:, None]
        x = nn.max_pool2d(nn.relu(self.second(nn.relu(self.first(x)))), 2)
        return self.last(nn.relu(self.hidden(x.reshape(len(x), -1))))


def shift_at_random(x: Any, key: Any) -> Any:
    """Images f32[n, 8, 8], each moved by -1, 0 or 1 pixels along both axes."""
    n = len(x)
    down, right = ws.random.randint(key, (2, n, 1, 1), 0, 3)
    padded = ws.numpy.array(np.pad(x, ((0, 0), (1, 1), (1, 1))))
    return padded[np.arange(n)[:, None, None], down + np.arange(SIDE)[:, None], right + np.arange(SIDE)]


def digits_loss(model: DigitReader, batch: tuple[np.ndarray, np.ndarray], *, key: Any) -> Any:
    """The mean cross-entropy, with labels that leave a twentieth to the other digits."""
    x, labels = batch
    return nn.cross_entropy(model(x, key=key), labels, label_smoothing=0.05)


def digits_accuracy(model: DigitReader, batch: tuple[np.ndarray, np.ndarray]) -> Any:
    """The share of images that are read correctly."""
    x, labels = batch
    return nn.metrics.accuracy(model(x), labels)
