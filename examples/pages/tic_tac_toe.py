"""A network that learns to play tic-tac-toe from the best moves of all positions, and answers a board."""

from functools import cache

import numpy as np

import wholestep as ws
from wholestep import nn, optim

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def won(board):
    return any(board[a] == board[b] == board[c] == -1 for a, b, c in LINES)


@cache
def worth(board):
    """1 where who moves next wins, -1 where the other does; own stones are 1, and the other's -1."""
    if won(board):
        return -1
    free = [i for i in range(9) if not board[i]]
    return max([-worth(after(board, i)) for i in free], default=0)


def after(board, i):
    return tuple(-(1 if k == i else x) for k, x in enumerate(board))


def positions(board, seen):
    if board not in seen and not won(board) and 0 in board:
        seen[board] = [i for i in range(9) if not board[i] and -worth(after(board, i)) == worth(board)]
        for i in range(9):
            if not board[i]:
                positions(after(board, i), seen)
    return seen


def loss(model, batch):
    """The cross-entropy to all best moves alike."""
    return -np.mean(np.sum(batch["moves"] * nn.log_softmax(model(batch["board"])), axis=1))


def answer(model, board):
    """The probability of each move: own stones are 1, those of the other -1, free places 0."""
    scores = model(board.reshape(1, 9)).reshape(3, 3)
    return nn.softmax(np.where(board == 0, scores, -1e9).reshape(9))


known = positions((0,) * 9, {})
moves = np.array([[(i in best) / len(best) for i in range(9)] for best in known.values()], np.float32)
order = np.random.default_rng(0).permutation(len(known))
data = {"board": np.array(list(known), np.float32)[order], "moves": moves[order]}
batch = {name: rows[:128] for name, rows in data.items()}

model = nn.Sequential(nn.Linear(9, 128, key=0), nn.relu, nn.Linear(128, 128, key=1), nn.relu, nn.Linear(128, 9, key=2))
step = ws.compile(loss, model, optimizer=optim.adamw(2e-3), batch=batch)
attach = {"answer": step.attach(answer, batch=ws.ShapeDtype((3, 3), np.float32))}
