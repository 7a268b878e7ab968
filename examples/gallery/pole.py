"""A pole is balanced on a cart by proximal policy optimisation, in gymnasium's CartPole or, without it, one like it."""

import importlib.util

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of the longest game that the policy misses, on new games"
BOUND = 0.2
GAMES, STEPS, LONGEST = 16, 64, 500


class CartPole:
    """The cart of Barto, Sutton and Anderson, 1983, with the numbers and the calls of gymnasium's CartPole-v1."""

    def reset(self, seed):
        self.state, self.steps = np.random.default_rng(seed).uniform(-0.05, 0.05, 4), 0
        return self.state, {}

    def step(self, action):
        speed, angle, turn = self.state[1:]
        push = (20.0 * action - 10.0 + 0.05 * turn**2 * np.sin(angle)) / 1.1
        spin = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        self.state = self.state + 0.02 * np.array([speed, push - 0.05 * spin * np.cos(angle) / 1.1, turn, spin])
        self.steps += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * np.pi / 180
        return self.state, 1.0, fell, self.steps >= LONGEST, {}


def game():
    if importlib.util.find_spec("gymnasium") is None:
        return CartPole()
    return importlib.import_module("gymnasium").make("CartPole-v1")


class Player(nn.Module):
    def __init__(self):
        self.moves = nn.MLP([4, 32, 32, 2], activation=np.tanh, key=0)
        self.worth = nn.MLP([4, 32, 32, 1], activation=np.tanh, key=1)

    def __call__(self, states):
        return nn.log_softmax(self.moves(states)), 30 * self.worth(states)[..., 0]


def loss(model, batch):
    """The clipped policy objective, the squared error of the estimated returns, and a bonus for the entropy."""
    logs, worth = model(batch["states"])
    ratio = np.exp(np.sum(logs * batch["moves"], axis=1) - batch["logs"])
    gain = np.minimum(ratio * batch["gains"], np.clip(ratio, 0.8, 1.2) * batch["gains"])
    return np.mean(-gain + 0.5 * (worth - batch["worth"]) ** 2 / 900 + 0.01 * np.sum(np.exp(logs) * logs, axis=1))


def played(games, states, predict, rng, seeds):
    """Steps of all games: the last states; and the states, moves, log-probabilities, returns and advantages of each."""
    seen, moves, logs, worth, ends = [], [], [], [], []
    for _ in range(STEPS):
        chances, value = predict(np.float32(states))
        move = (rng.random(GAMES) < np.exp(chances[:, 1])).astype(int)
        seen.append(states), worth.append(value)
        moves.append(np.eye(2)[move]), logs.append(chances[np.arange(GAMES), move])
        told = [one.step(int(m)) for one, m in zip(games, move, strict=True)]
        ends.append(np.array([fell or late for _, _, fell, late, _ in told]))
        states = [one.reset(seed=next(seeds))[0] if t[2] or t[3] else t[0] for one, t in zip(games, told, strict=True)]
    gains, later, after = np.zeros((STEPS, GAMES)), np.zeros(GAMES), predict(np.float32(states))[1]
    for t in reversed(range(STEPS)):
        later = 1 + 0.99 * ~ends[t] * after - worth[t] + 0.99 * 0.95 * ~ends[t] * later
        gains[t], after = later, worth[t]
    found = {"states": seen, "moves": moves, "logs": logs, "worth": gains + np.array(worth)}
    found["gains"] = (gains - gains.mean()) / gains.std()
    return states, {name: np.float32(x).reshape(-1, *np.shape(x)[2:]) for name, x in found.items()}


def run(rounds=60):
    rng, seeds = np.random.default_rng(0), iter(range(10**6))
    games = [game() for _ in range(GAMES)]
    states = [one.reset(seed=next(seeds))[0] for one in games]
    widths = {"states": (4,), "moves": (2,), "logs": (), "worth": (), "gains": ()}
    flat = {name: np.zeros((GAMES * STEPS, *width), np.float32) for name, width in widths.items()}
    adam = optim.chain(optim.clip_by_global_norm(0.5), optim.adam(optim.cosine(3e-3, 8 * rounds)))
    step, lengths = ws.compile(loss, Player(), optimizer=adam, batch=flat), []
    predict = step.attach(lambda model, states: model(states))
    for _ in range(rounds):
        states, batch = played(games, states, predict, rng, seeds)
        for _ in range(8):
            step(batch)
        lengths.append(np.mean(batch["worth"]))
    return predict, lengths


def main():
    predict, _ = run()
    one, kept = game(), []
    for seed in range(20):
        state, steps, over = one.reset(seed=10**6 + seed)[0], 0, False
        while not over:
            chances, _ = predict(np.float32(state)[None])
            state, _, fell, late, _ = one.step(int(np.argmax(chances)))
            steps, over = steps + 1, fell or late
        kept.append(steps)
    return float(1 - np.mean(kept) / LONGEST)


def picture(figure):
    predict, lengths = run()
    left, right = figure.subplots(1, 2)
    left.plot(np.arange(1, len(lengths) + 1), lengths)
    left.set(xlabel="round", ylabel="worth of a place", title="Learning")
    angle, turn = np.meshgrid(np.linspace(-0.2, 0.2, 60), np.linspace(-2, 2, 60))
    grid = np.float32(np.stack([0 * angle, 0 * angle, angle, turn], axis=-1)).reshape(-1, 4)
    chances = np.exp(predict(grid)[0])[:, 1].reshape(60, 60)
    right.contourf(angle, turn, chances, 10, cmap="RdBu")
    right.set(xlabel="angle", ylabel="turn", title="Pushes to the right")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
