"""A perceptron with dropout that learns handwritten digits, and reads the one that is drawn on the page."""

import numpy as np
from sklearn.datasets import load_digits

import wholestep as ws
from wholestep import nn, optim


class Reader(nn.Module):
    def __init__(self, *, key):
        first, second, last = ws.random.split(key, 3)
        self.first, self.second = nn.Linear(64, 128, key=first), nn.Linear(128, 128, key=second)
        self.head = nn.Linear(128, 10, key=last)

    def __call__(self, x, key=None):
        for layer, number in ((self.first, 0), (self.second, 1)):
            x = nn.relu(layer(x))
            x = x if key is None else nn.dropout(x, 0.2, key=ws.random.fold_in(key, number))
        return self.head(x)


def loss(model, batch, *, key):
    return nn.cross_entropy(model(batch["image"], key), batch["digit"])


def draw_a_digit(model, image):
    """The probability of each digit."""
    return nn.softmax(model(image.reshape(1, 64)))[0]


digits = load_digits()
data = {"image": (digits.data / 16).astype(np.float32), "digit": digits.target.astype(np.int32)}
batch = {name: rows[:64] for name, rows in data.items()}

step = ws.compile(loss, Reader(key=ws.random.key(0)), optimizer=optim.adamw(1e-3), batch=batch, key=1)
attach = {"draw_a_digit": step.attach(draw_a_digit, batch=ws.ShapeDtype((8, 8), np.float32))}
