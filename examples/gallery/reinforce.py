"""REINFORCE on a cliff: a policy learns the way to the goal from the returns of sampled episodes.

The world is a strip of twelve places with the goal at the end; each step costs one. A batch of episodes is one loop of
a compiled program; the score function's gradient uses the mean return as a baseline.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "steps more than the shortest way takes"
BOUND = 1.0
PLACES, LIMIT, EPISODES = 12, 40, 64


def episodes(logits, key):
    def move(state, key):
        place, done = state
        chances = nn.log_softmax(logits[place])
        right = ws.random.uniform(key, (EPISODES,)) < np.exp(chances[:, 1])
        chosen = np.where(done, 0.0, np.where(right, chances[:, 1], chances[:, 0]))
        place = np.where(done, place, np.clip(place + 2 * right - 1, 0, PLACES - 1))
        return (place, done | (place == PLACES - 1)), (chosen, np.where(done, 0.0, 1.0))

    start = (np.zeros(EPISODES, np.int64), np.zeros(EPISODES, bool))
    return ws.scan(move, start, ws.random.split(key, LIMIT))[1]


def loss(logits, _, *, key):
    chosen, costs = episodes(logits, key)
    left = np.cumsum(costs[::-1], axis=0)[::-1]  # the cost of the remaining steps, from each step on
    taken = np.sum(costs, axis=1, keepdims=True)
    baseline = np.sum(left, axis=1, keepdims=True) / np.maximum(taken, 1.0)
    return np.mean(np.sum(chosen * ws.stop_gradient(left - baseline), axis=0)) / LIMIT


def run():
    step = ws.compile(loss, np.zeros((PLACES, 2)), optimizer=optim.adam(0.1), batch=np.zeros(()), key=0)
    first = step.params
    for _ in range(200):
        step(np.zeros(()))
    return first, step.params


def main():
    _, logits = run()
    _, costs = ws.jit(episodes)(logits, ws.random.key(7))
    return float(np.mean(np.sum(costs, axis=0)) - (PLACES - 1))


def picture(figure):
    axes, names = figure.subplots(), ["before training", "after"]
    for logits, name in zip(run(), names, strict=True):
        _, costs = ws.jit(episodes)(logits, ws.random.key(7))
        axes.plot(np.mean(np.cumsum(costs[::-1], axis=0)[::-1] == 0, axis=1), label=name)
    axes.axvline(PLACES - 1, color="k", linestyle="--", label="shortest way")
    axes.set(xlabel="steps walked", ylabel="share of episodes at the goal", title="The way to the goal")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
