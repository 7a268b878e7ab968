"""A perceptron that learns a sine wave from noisy points, and is asked for any place of it."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim


def loss(model, batch):
    return np.mean((model(batch["x"]) - batch["y"]) ** 2)


def wave(model, x):
    return model(x.reshape(1, 1)).reshape(())


rng = np.random.default_rng(0)
x = rng.uniform(-np.pi, np.pi, (2048, 1)).astype(np.float32)
data = {"x": x, "y": (np.sin(2 * x) + 0.05 * rng.normal(size=x.shape)).astype(np.float32)}
batch = {name: rows[:256] for name, rows in data.items()}

model = nn.Sequential(nn.Linear(1, 64, key=0), np.tanh, nn.Linear(64, 64, key=1), np.tanh, nn.Linear(64, 1, key=2))
step = ws.compile(loss, model, optimizer=optim.adam(3e-3), batch=batch)
attach = {"wave": step.attach(wave, batch=ws.ShapeDtype((), np.float32))}
