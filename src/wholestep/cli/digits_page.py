"""`wholestep export digits --page`: a page that learns to read digits, and reads those that a person draws on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wholestep import nn, random
from wholestep.cli.digits import SIDE, DigitReader, digits_loss
from wholestep.frontend.shapes import ShapeDtype
from wholestep.optim import adam
from wholestep.train.data.datasets import need, split_digits
from wholestep.train.step.compile import compile

RATE, ROWS, CHANNELS = 0.002, 32, 16
"""The learning rate, the images of a batch, and the channels of the first convolution."""


def drawn_digit(model: Any, image: Any) -> Any:
    """The probability of each digit, f32[10], for an image f32[8, 8]."""
    return nn.softmax(model(image.reshape(1, SIDE * SIDE)))[0]


def export_digits(out: Path) -> tuple[Path, ...]:
    """Write the page, with an untrained network."""
    need("sklearn", extra="train")
    split = split_digits(0)
    data = (split.train_x, split.train_y)
    key, start = random.split(random.key(0))
    batch = tuple([x[:ROWS] for x in data])
    step = compile(digits_loss, DigitReader(channels=CHANNELS, key=start), optimizer=adam(RATE), batch=batch, key=key)
    draw = step.attach(drawn_digit, batch=ShapeDtype((SIDE, SIDE), np.float32))
    return step.export(out, to="page", data=data, attach={"draw_a_digit": draw})
