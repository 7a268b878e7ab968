"""Flow matching: a network learns the speed that carries noise to two moons, and carries a point of yours there."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

MOMENTS = 8


def speed(model, point, time):
    turned = np.concatenate([np.sin(2 * np.pi * time), np.cos(2 * np.pi * time), time], axis=1)
    return model(np.concatenate([point, turned], axis=1))


def loss(model, point, *, key):
    """The misfit of the speed, somewhere on the straight way from noise to a point of the data."""
    first, last = ws.random.split(key)
    noise = ws.random.normal(first, point.shape, np.float32)
    time = ws.random.uniform(last, (len(point), 1), dtype=np.float32)
    return np.mean((speed(model, noise + time * (point - noise), time) - (point - noise)) ** 2)


def carried(model, noise):
    """The way of a point in eight moments."""

    def moment(point, time):
        point = point + speed(model, point, time.reshape(1, 1)) / MOMENTS
        return point, point[0]

    times = np.linspace(0, 1, MOMENTS, endpoint=False).astype(np.float32)
    return ws.scan(moment, noise.reshape(1, 2), times)[1]


rng = np.random.default_rng(0)
turn, upper = rng.uniform(0, np.pi, 4096), rng.integers(0, 2, 4096)
moons = np.stack([np.cos(turn) + upper - 0.5, np.where(upper, 0.25 - np.sin(turn), np.sin(turn) - 0.25)], axis=1)
data = (moons + 0.05 * rng.normal(size=moons.shape)).astype(np.float32)
batch = data[:256]

model = nn.Sequential(nn.Linear(5, 64, key=0), nn.gelu, nn.Linear(64, 64, key=1), nn.gelu, nn.Linear(64, 2, key=2))
step = ws.compile(loss, model, optimizer=optim.adam(3e-3), batch=batch, key=1)
attach = {"carried": step.attach(carried, batch=ws.ShapeDtype((2,), np.float32))}
