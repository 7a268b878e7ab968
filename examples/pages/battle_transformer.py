"""A transformer with rotary places that reads duels of creatures move by move, and draws the next move."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

BITE, GUARD, REST, FLAME, END = range(5)
LENGTH, WIDTH, HEADS = 24, 32, 4


def duel(rng):
    """Two creatures in turns: the weak rest, the strong breathe fire, and who guards is hurt half as much."""
    health, strength, guarded, moves = [8, 8], [0, 0], [False, False], []
    while len(moves) < LENGTH:
        one, other = len(moves) % 2, 1 - len(moves) % 2
        if min(health) <= 0:
            moves.append(END)
            continue
        move = FLAME if strength[one] >= 3 else REST if health[one] <= 3 and rng.random() < 0.5 else rng.integers(0, 3)
        hurt = {BITE: 2, FLAME: 4}.get(int(move), 0)
        health[other] -= hurt // 2 if guarded[other] else hurt
        health[one] += move == REST
        strength[one] = 0 if move == FLAME else strength[one] + 1
        guarded[one], guarded[other] = move == GUARD, guarded[other] and not hurt
        moves.append(int(move))
    return moves


class Reader(nn.Module):
    def __init__(self, *, key):
        keys = ws.random.split(key, 5)
        self.moves, self.head = nn.Embedding(END + 2, WIDTH, key=keys[0]), nn.Linear(WIDTH, END + 1, key=keys[1])
        self.norms = [nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)]
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH, key=keys[2]), nn.Linear(WIDTH, WIDTH, key=keys[3])
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, key=keys[4]), nn.Linear(4 * WIDTH, WIDTH, key=5)

    def __call__(self, moves):
        n, time = moves.shape
        h = self.moves(moves)
        heads = self.joined(self.norms[0](h)).reshape(n, time, 3, HEADS, -1)
        q, k, v = (np.swapaxes(heads[:, :, i], 1, 2) for i in range(3))
        seen = nn.scaled_dot_product_attention(nn.rope(q), nn.rope(k), v, causal=True)
        h = h + self.out(np.swapaxes(seen, 1, 2).reshape(n, time, WIDTH))
        h = h + self.down(nn.silu(self.up(self.norms[1](h))))
        return self.head(self.norms[2](h))


def shifted(moves):
    """The moves before each: a sign for the beginning, and all but the last."""
    return np.concatenate([np.full((len(moves), 1), END + 1, np.int32), moves[:, :-1]], axis=1)


def loss(model, moves):
    return nn.cross_entropy(model(shifted(moves)), moves)


def next_move(model, given):
    """A move drawn behind the first `count`: 0 is to bite, 1 to guard, 2 to rest, 3 to breathe fire, and 4 the end."""
    scores = model(shifted(given["moves"].reshape(1, LENGTH)))[0, given["count"]]
    key = ws.random.fold_in(ws.random.key(0), given["throw"])
    return {"move": ws.random.categorical(key, scores), "probabilities": nn.softmax(scores)}


rng = np.random.default_rng(0)
data = np.array([duel(rng) for _ in range(4096)], np.int32)
batch = data[:64]

step = ws.compile(loss, Reader(key=ws.random.key(0)), optimizer=optim.adamw(3e-3), batch=batch, key=1)
one = ws.ShapeDtype((), np.int32)
given = {"moves": ws.ShapeDtype((LENGTH,), np.int32), "count": one, "throw": one}
attach = {"next_move": step.attach(next_move, batch=given)}
