"""Programs of machine learning: layers in lists, clusters, mixtures, attention, trees of weights, losses by hand."""

import math
from dataclasses import dataclass, field

import numpy as np


def layers_in_a_list(x):
    weights = [x[:4].reshape(2, 2), x[4:8].reshape(2, 2)]
    h = np.array([0.5, -0.2])
    for w in weights:
        h = np.tanh(w @ h)
    return np.sum(h**2)


def network_of_scalars(x):
    def neuron(inputs, weights):
        return math.tanh(sum(i * w for i, w in zip(inputs, weights, strict=True)))

    hidden = [neuron([0.3, -0.7], x[2 * k : 2 * k + 2]) for k in range(3)]
    return (neuron(hidden, x[6:9]) - 1.0) ** 2


def recurrent_network(x):
    h = np.zeros(2)
    states = np.zeros((3, 2))
    for t, value in enumerate([0.1, 0.5, -0.3]):
        h = np.tanh(x[:4].reshape(2, 2) @ h + x[4:6] * value)
        states[t] = h
    return states.sum()


def lstm_cell(x):
    def sigmoid(v):
        return 1 / (1 + math.exp(-v))

    h = c = 0.0
    for value in (0.5, -1.0):
        i, f, o = [sigmoid(x[k] * value + x[k + 1] * h) for k in (0, 2, 4)]
        c = f * c + i * math.tanh(x[6] * value)
        h = o * math.tanh(c)
    return h


def attention(x):
    q, k, v = x[:4].reshape(2, 2), x[4:8].reshape(2, 2), x[8:].reshape(2, 2)
    scores = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            scores[i, j] = q[i] @ k[j] / math.sqrt(2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return np.sum((weights @ v) ** 2)


def cross_entropy_of_rows(x):
    logits = x.reshape(3, 2)
    labels = [0, 1, 1]
    losses = []
    for row, label in zip(logits, labels, strict=True):
        losses.append(math.log(sum(math.exp(v) for v in row)) - row[label])
    return np.mean(losses)


def gaussian_mixture(x):
    data = np.array([0.1, 0.9, 1.1])
    means, logits = x[:2], x[2:]
    w = np.exp(logits) / np.exp(logits).sum()
    total = 0
    for d in data:
        total += math.log(sum(w[k] * math.exp(-0.5 * (d - means[k]) ** 2) for k in range(2)))
    return total


def soft_k_means_step(x):
    points = np.array([[0.0, 0.1], [1.0, 0.8], [0.9, 1.1]])
    centers = x.reshape(2, 2)
    new = np.zeros((2, 2))
    mass = np.zeros(2)
    for p in points:
        r = np.array([math.exp(-np.sum((p - c) ** 2)) for c in centers])
        r /= r.sum()
        for k in range(2):
            new[k] += r[k] * p
            mass[k] += r[k]
    return np.sum((new / mass[:, None]) ** 2)


def sinkhorn(x):
    cost = x.reshape(2, 3)
    kernel = np.exp(-cost)
    u, v = np.ones(2), np.ones(3)
    for _ in range(4):
        u = np.array([0.5, 0.5]) / (kernel @ v)
        v = np.ones(3) / 3 / (kernel.T @ u)
    return np.sum(u[:, None] * kernel * v * cost)


def batch_normalization(x):
    batch = x.reshape(4, 2)
    out = np.empty(batch.shape)
    for j in range(2):
        column = batch[:, j]
        out[:, j] = (column - column.mean()) / np.sqrt(column.var() + 1e-2)
    return np.sum(out**3)


def convolution_by_loops(x):
    image, kernel = x[:9].reshape(3, 3), x[9:].reshape(2, 2)
    out = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            out[i, j] = np.sum(image[i : i + 2, j : j + 2] * kernel)
    return np.maximum(out, 0).sum()


def pooling(x):
    image = x.reshape(4, 4)
    return sum(np.max(image[i : i + 2, j : j + 2]) for i in (0, 2) for j in (0, 2))


def positional_encoding(x):
    table = np.zeros((3, 4))
    for position in range(3):
        for i in range(0, 4, 2):
            angle = position * x[0] / 10 ** (i / 4)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
    return np.sum(table * np.arange(4.0))


def adam_by_hand(x):
    w, m, v = np.array([0.5, -0.3]), np.zeros(2), np.zeros(2)
    for t in range(1, 4):
        g = 2 * (w - x)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g**2
        w = w - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
    return w @ w


def reinforce(x):
    rewards, returns, running = [1.0, 0.0, 2.0], [], 0.0
    for r in reversed(rewards):
        running = r + 0.9 * running
        returns.insert(0, running)
    returns = np.array(returns)
    p = [1 / (1 + math.exp(-v)) for v in x]
    return -np.sum(np.log(np.array(p)) * (returns - returns.mean()))


def gaussian_process(x):
    t = np.array([0.0, 0.5, 1.0])
    y = np.array([0.1, 0.7, 0.3])
    k = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            k[i, j] = x[0] ** 2 * math.exp(-((t[i] - t[j]) ** 2) / (2 * x[1] ** 2))
    k += x[2] * np.eye(3)
    chol = np.linalg.cholesky(k)
    return y @ np.linalg.solve(k, y) + 2 * sum(math.log(chol[i, i]) for i in range(3))


def elo_ratings(x):
    ratings = x.copy()
    for a, b, won in [(0, 1, 1.0), (1, 2, 0.0), (0, 2, 0.5)]:
        expected = 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 4))
        ratings[a] += 0.3 * (won - expected)
        ratings[b] -= 0.3 * (won - expected)
    return ratings @ np.arange(3.0)


def page_rank(x):
    links = np.zeros((3, 3))
    for (i, j), w in zip([(0, 1), (1, 2), (2, 0), (0, 2)], x, strict=True):
        links[j, i] = math.exp(w)
    links /= links.sum(axis=0)
    rank = np.ones(3) / 3
    for _ in range(5):
        rank = 0.15 / 3 + 0.85 * links @ rank
    return rank @ np.array([1.0, 2.0, 3.0])


@dataclass
class Particle:
    """A point with a speed."""

    place: np.ndarray
    speed: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def move(self, dt):
        self.place = self.place + dt * self.speed
        self.speed[1] -= 9.81 * dt


def particles(x):
    p = Particle(np.array([0.0, x[0]]), np.array([x[1], 0.0]))
    for _ in range(3):
        p.move(0.1)
    return np.sum(p.place**2) + p.speed[1]


class Linear:
    """A layer as people write it."""

    def __init__(self, weights, offset):
        self.weights = np.array(weights)
        self.offset = np.asarray(offset)

    def __call__(self, h):
        out = np.zeros(len(self.weights))
        for i, row in enumerate(self.weights):
            out[i] = row @ h + self.offset[i]
        return out


class Network:
    """Layers in a list."""

    def __init__(self, x):
        self.layers = [Linear([[x[0], x[1]], [x[2], 0.5]], [x[3], 0.1]), Linear([[1.0, x[4]]], [0.0])]

    @staticmethod
    def activation(h):
        return np.array([math.tanh(v) for v in h])

    @classmethod
    def of(cls, x):
        return cls(x)

    def forward(self, h):
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        return self.layers[-1](h)[0]


def network_of_objects(x):
    return Network.of(x).forward(np.array([0.3, -0.4])) ** 2


PROGRAMS = [
    (layers_in_a_list, 8), (network_of_scalars, 9), (recurrent_network, 6), (lstm_cell, 7), (attention, 12),
    (cross_entropy_of_rows, 6), (gaussian_mixture, 4), (soft_k_means_step, 4), (sinkhorn, 6), (batch_normalization, 8),
    (convolution_by_loops, 13), (pooling, 16), (positional_encoding, 1), (adam_by_hand, 2), (reinforce, 3),
    (gaussian_process, 3), (elo_ratings, 3), (page_rank, 4), (particles, 2), (network_of_objects, 5),
]  # fmt: skip
