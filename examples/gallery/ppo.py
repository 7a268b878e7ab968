"""Proximal policy optimisation: a Gaussian policy finds where a noisy game pays most, in small trusted steps.

Each batch of moves is used ten times; a clipped ratio of probabilities keeps the policy near the one that made them.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "mean distance of the policy from the best move"
BOUND = 0.1
CLIP = 0.2


def log_chance(model, state, move):
    mean, spread = model["mean"](state)[:, 0], model["log_spread"]
    return -0.5 * ((move - mean) / np.exp(spread)) ** 2 - spread


def loss(model, batch):
    ratio = np.exp(log_chance(model, batch["state"], batch["move"]) - batch["before"])
    gain = np.minimum(ratio * batch["gain"], np.clip(ratio, 1 - CLIP, 1 + CLIP) * batch["gain"])
    return -np.mean(gain)


def best(state):
    return np.sin(2 * state[:, 0])


def run():
    rng = np.random.default_rng(0)
    model = {"mean": nn.MLP([1, 32, 1], activation=nn.tanh, key=0), "log_spread": np.array(-0.5, np.float32)}
    floats = np.zeros(256, np.float32)
    batch = {"state": floats[:, None], "move": floats, "before": floats, "gain": floats}
    step = ws.compile(loss, model, optimizer=optim.adam(optim.cosine(1e-2, 600)), batch=batch)
    mean = step.attach(lambda model, state: model["mean"](state)[:, 0])
    for _ in range(60):
        state = rng.uniform(-1, 1, (256, 1)).astype(np.float32)
        spread = step.model["log_spread"]
        move = (mean(state) + np.exp(spread) * rng.normal(size=256)).astype(np.float32)
        paid = -((move - best(state)) ** 2) + 0.1 * rng.normal(size=256)
        gain = ((paid - paid.mean()) / paid.std()).astype(np.float32)
        before = log_chance(step.model, state, move)
        for _ in range(10):
            step({"state": state, "move": move, "before": before, "gain": gain})
    return mean, np.exp(step.model["log_spread"])


def main():
    mean, _ = run()
    state = np.linspace(-0.9, 0.9, 101, dtype=np.float32)[:, None]
    return float(np.mean(np.abs(mean(state) - best(state))))


def picture(figure):
    mean, spread = run()
    state = np.linspace(-0.9, 0.9, 101, dtype=np.float32)[:, None]
    axes, line, middle = figure.subplots(), state[:, 0], mean(state)
    axes.fill_between(line, middle - spread, middle + spread, alpha=0.3, label="one width")
    axes.plot(line, middle, label="mean of the policy")
    axes.plot(line, best(state), "k--", label="best move")
    axes.set(xlabel="state", ylabel="move", title="What the policy has come to do")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
