"""Models small enough to be read: a layer, a norm with buffers, and a net with ties, marks and containers."""

import numpy as np

from wholestep import nn


class Dense(nn.Module):
    undecayed = ("bias",)

    def __init__(self, rng, n_in, n_out):
        self.weight = rng.normal(size=(n_in, n_out)).astype(np.float32)
        self.bias = np.zeros(n_out, np.float32)

    def __call__(self, x):
        return x @ self.weight + self.bias


class Centre(nn.Module):
    def __init__(self, n):
        self.mean = nn.buffer(np.zeros(n, np.float32))
        self.calls = nn.buffer(np.zeros((), np.int64))

    def __call__(self, x):
        if self.training:
            self.mean = np.float32(0.9) * self.mean + np.float32(0.1) * x.mean(axis=0)
            self.calls = self.calls + 1
        return x - self.mean


class Net(nn.Module):
    def __init__(self, rng, activation=np.tanh):
        self.layers = [Dense(rng, 3, 4), Centre(4), Dense(rng, 4, 4)]
        self.layers.append(self.layers[2])
        self.head = {"w": rng.normal(size=(4, 1)).astype(np.float32), "note": "the last"}
        self.scale = nn.frozen(np.array([1.0, 2.0, 3.0], np.float32))
        self.first = nn.tied(self.layers[0].weight)
        self.activation = activation

    def __call__(self, x):
        x = x * self.scale
        for layer in self.layers:
            x = self.activation(layer(x))
        return x @ self.head["w"] + np.sum(self.first)


def loss(model, batch):
    return np.mean((model(batch["x"]) - batch["y"]) ** 2)


def data(rng, rows=11):
    return {name: rng.normal(size=(rows, n)).astype(np.float32) for name, n in (("x", 3), ("y", 1))}
