"""A transformer that learns to sort letters, whose attention one can look at while it trains."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

LETTERS, LENGTH, WIDTH, HEADS = 8, 6, 32, 2


class Block(nn.Module):
    def __init__(self, *, key):
        keys = ws.random.split(key, 4)
        self.norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH, key=keys[0]), nn.Linear(WIDTH, WIDTH, key=keys[1])
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, key=keys[2]), nn.Linear(4 * WIDTH, WIDTH, key=keys[3])

    def __call__(self, x):
        n, time, _ = x.shape
        heads = self.joined(self.norms[0](x)).reshape(n, time, 3, HEADS, -1)
        q, k, v = (np.swapaxes(heads[:, :, i], 1, 2) for i in range(3))
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(np.float32)
        weights = nn.softmax(np.where(np.tril(np.ones((time, time), bool)), scores, -1e9))
        x = x + self.out(np.swapaxes(weights @ v, 1, 2).reshape(n, time, WIDTH))
        return x + self.down(nn.gelu(self.up(self.norms[1](x)))), weights


class Sorter(nn.Module):
    """Reads letters, and then writes them in their order, one after the other."""

    def __init__(self, *, key):
        keys = ws.random.split(key, 4)
        self.letters = nn.Embedding(LETTERS, WIDTH, key=keys[0])
        self.places = nn.Embedding(2 * LENGTH, WIDTH, key=keys[1])
        self.blocks = [Block(key=keys[2]), Block(key=keys[3])]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS, key=4)

    def __call__(self, text):
        h, maps = self.letters(text) + self.places(np.arange(text.shape[1])), []
        for block in self.blocks:
            h, weights = block(h)
            maps.append(weights)
        return self.head(self.norm(h)), maps


def loss(model, text):
    scores, maps = model(text[:, :-1])
    ws.capture("attention_of_block_1", maps[0][0])
    ws.capture("attention_of_block_2", maps[1][0])
    return nn.cross_entropy(scores[:, LENGTH - 1 :], text[:, LENGTH:])


def next_letter(model, text):
    """The probability of each letter behind twelve places less one; places that are not read yet may hold any."""
    return nn.softmax(model(text.reshape(1, -1))[0][0, LENGTH - 1])


rng = np.random.default_rng(0)
letters = rng.integers(0, LETTERS, (4096, LENGTH)).astype(np.int32)
data = np.concatenate([letters, np.sort(letters, axis=1)], axis=1)
batch = data[:64]

step = ws.compile(
    loss,
    Sorter(key=ws.random.key(0)),
    optimizer=optim.adamw(2e-3),
    batch=batch,
    captures=("attention_of_block_1", "attention_of_block_2"),
)
attach = {"next_letter": step.attach(next_letter, batch=ws.ShapeDtype((2 * LENGTH - 1,), np.int32))}
