"""A Kolmogorov-Arnold network: every edge is a curve of its own, a sum of bumps, and nodes only add."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

BUMPS = 8


class Curves(nn.Module):
    """A layer whose edges are curves: weights of bumps side by side from -2 to 2, and of a smooth step."""

    def __init__(self, given, found, *, key):
        first, last = ws.random.split(key)
        self.bumps = 0.1 * ws.random.normal(first, (given * BUMPS, found), np.float32)
        self.smooth = nn.init.xavier_uniform(last, (given, found))

    def __call__(self, x):
        places = np.linspace(-2, 2, BUMPS).astype(np.float32)
        heights = np.exp(-((2 * (x[:, :, None] - places)) ** 2))
        return heights.reshape(len(x), -1) @ self.bumps + nn.silu(x) @ self.smooth


def loss(model, batch):
    return np.mean((model(batch["x"])[:, 0] - batch["y"]) ** 2)


def value(model, x):
    return model(x.reshape(1, 2)).reshape(())


rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (4096, 2)).astype(np.float32)
data = {"x": x, "y": np.exp(np.sin(np.pi * x[:, 0]) + x[:, 1] ** 2).astype(np.float32)}
batch = {name: rows[:256] for name, rows in data.items()}

keys = ws.random.split(ws.random.key(0))
model = nn.Sequential(Curves(2, 5, key=keys[0]), Curves(5, 1, key=keys[1]))
step = ws.compile(loss, model, optimizer=optim.adam(1e-2), batch=batch)
attach = {"value": step.attach(value, batch=ws.ShapeDtype((2,), np.float32))}
