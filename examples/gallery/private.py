"""Differential privacy: the gradient of every sample is clipped by itself, and noise is added to the sum.

`ws.vmap(ws.grad(...))` gives the gradients of all samples in one program; the classifier still learns, and the largest
change that one person can make to a step is bounded.
"""

import numpy as np

import wholestep as ws
from wholestep import nn

QUANTITY = "share of wrong answers on new rows"
BOUND = 0.12
CLIP, NOISE, RATE = 1.0, 1.0, 0.5


def loss(w, x, y):
    return nn.softplus(-y * (x @ w["weight"] + w["bias"]))


@ws.jit
def private_step(w, batch, key):
    each = ws.vmap(ws.grad(loss), in_axes=(None, 0, 0))(w, batch["x"], batch["y"])
    norms = np.sqrt(np.sum(each["weight"] ** 2, axis=1) + each["bias"] ** 2)
    scale = np.minimum(1.0, CLIP / norms)
    keys = dict(zip(w, ws.random.split(key, 2), strict=True))
    clipped = {"weight": scale @ each["weight"], "bias": np.sum(scale * each["bias"])}
    noise = {name: NOISE * CLIP * ws.random.normal(keys[name], clipped[name].shape) for name in w}
    return {name: w[name] - RATE * (clipped[name] + noise[name]) / len(batch["y"]) for name in w}


def run():
    rng = np.random.default_rng(0)
    y = (2 * rng.integers(0, 2, 3000) - 1).astype(np.float32)
    x = (rng.normal(size=(3000, 5)) + 0.7 * y[:, None]).astype(np.float32)
    w = {"weight": np.zeros(5, np.float32), "bias": np.float32(0)}
    for number in range(200):
        rows = rng.choice(2000, 250, replace=False)
        w = private_step(w, {"x": x[rows], "y": y[rows]}, ws.random.key(number))
    return w, x, y


def main():
    w, x, y = run()
    return float(np.mean(np.sign(x[2000:] @ w["weight"] + w["bias"]) != y[2000:]))


def picture(figure):
    w, x, y = run()
    axes = figure.subplots()
    for weights, name in ({k: 0 * v for k, v in w.items()}, "at the first step"), (w, "at the end"):
        each = ws.vmap(ws.grad(loss), in_axes=(None, 0, 0))(weights, x, y)
        norms = np.sqrt(np.sum(each["weight"] ** 2, axis=1) + each["bias"] ** 2)
        axes.hist(norms, np.linspace(0, 2.5, 51), alpha=0.6, label=f"{name}, {np.mean(norms > CLIP):.0%} clipped")
    axes.axvline(CLIP, color="k", linestyle="--", label="clipped to")
    axes.set(xlabel="norm of a sample's gradient", ylabel="samples", yscale="log", title="What one sample can change")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
