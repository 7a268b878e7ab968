"""A policy that balances a pole on a cart, by the gradient of the cost of a second of the motion."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

SECONDS, FRAMES = 0.1, 12


def moved(state, force):
    """The state (place, speed, angle, turning) after a moment: masses of 1 and 0.1 kg, half a metre of pole."""
    place, speed, angle, turning = state[:, 0], state[:, 1], state[:, 2], state[:, 3]
    push = (force + 0.05 * turning**2 * np.sin(angle)) / 1.1
    falling = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
    speed = speed + SECONDS * (push - 0.05 * falling * np.cos(angle) / 1.1)
    turning = turning + SECONDS * falling
    return np.stack([place + SECONDS * speed, speed, angle + SECONDS * turning, turning], axis=1)


def force_of(policy, state):
    return 10.0 * np.tanh(policy(state))[:, 0]


def cost(policy, state):
    def frame(state, _):
        state = moved(state, force_of(policy, state))
        return state, np.mean(1 - np.cos(state[:, 2]) + 0.05 * np.tanh(state[:, 0] ** 2))

    return np.mean(ws.scan(frame, state, length=FRAMES)[1])


def push(policy, state):
    return force_of(policy, state.reshape(1, 4)).reshape(())


rng = np.random.default_rng(0)
data = (rng.uniform(-1, 1, (1024, 4)) * [1, 0.5, 0.4, 0.5]).astype(np.float32)
batch = data[:64]

policy = nn.Sequential(nn.Linear(4, 32, key=0), np.tanh, nn.Linear(32, 1, key=1))
optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-2))
step = ws.compile(cost, policy, optimizer=optimizer, batch=batch)
attach = {"push": step.attach(push, batch=ws.ShapeDtype((4,), np.float32))}
