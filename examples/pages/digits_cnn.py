"""A convolutional network that learns handwritten digits of 28 x 28 points, and reads the one that is drawn."""

import numpy as np
from sklearn.datasets import load_digits

import wholestep as ws
from wholestep import nn, optim


def loss(model, batch):
    return nn.cross_entropy(model(batch["image"][:, None]), batch["digit"])


def draw_a_digit(model, image):
    """The probability of each digit."""
    return nn.softmax(model(image.reshape(1, 1, 28, 28)))[0]


digits = load_digits()
large = np.pad(np.kron(digits.images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))  # 8 x 8 points three times as large
data = {"image": (large / 16).astype(np.float32), "digit": digits.target.astype(np.int32)}
batch = {name: rows[:32] for name, rows in data.items()}

model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1, key=0),
    nn.relu,
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1, key=1),
    nn.relu,
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(16 * 7 * 7, 10, key=2),
)
step = ws.compile(loss, model, optimizer=optim.adam(2e-3), batch=batch)
attach = {"draw_a_digit": step.attach(draw_a_digit, batch=ws.ShapeDtype((28, 28), np.float32))}
