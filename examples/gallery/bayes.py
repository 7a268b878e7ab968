"""A Bayesian layer by variational inference: each weight has a mean and a width, and both are compared with the truth.

For a linear model with known noise the exact posterior is a normal distribution; of independent weights, the nearest
one has its mean, and the inverse diagonal of its precision as squared widths.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "largest error of the widths of the weights, relative"
BOUND = 0.1
NOISE = 0.3


def loss(q, batch, *, key):
    draws = ws.random.normal(key, (16, len(q["mean"])))
    weights = q["mean"] + np.exp(q["log_width"]) * draws
    misfit = 0.5 * np.sum((batch["x"] @ weights.T - batch["y"][:, None]) ** 2, axis=0) / NOISE**2
    divergence = 0.5 * np.sum(q["mean"] ** 2 + np.exp(2 * q["log_width"]) - 1) - np.sum(q["log_width"])
    return np.mean(misfit) + divergence


def run():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5)) @ np.diag([1.0, 0.5, 2.0, 1.0, 0.2])
    y = x @ rng.normal(size=5) + NOISE * rng.normal(size=40)
    batch = {"x": x, "y": y}
    precision = x.T @ x / NOISE**2 + np.eye(5)
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)
    q = {"mean": np.zeros(5), "log_width": np.full(5, -1.0)}
    step = ws.compile(loss, q, optimizer=optim.adam(optim.cosine(0.05, 2000)), batch=batch, key=1)
    for _ in range(2000):
        step(batch)
    return step.params, mean, 1 / np.sqrt(np.diag(precision))


def main():
    q, mean, width = run()
    assert np.allclose(q["mean"], mean, atol=0.05)
    return float(np.max(np.abs(np.exp(q["log_width"]) / width - 1)))


def picture(figure):
    q, mean, width = run()
    axes = figure.subplots()
    axes.errorbar(np.arange(5) - 0.1, mean, 2 * width, fmt="o", capsize=4, label="exact")
    axes.errorbar(np.arange(5) + 0.1, q["mean"], 2 * np.exp(q["log_width"]), fmt="s", capsize=4, label="learned")
    axes.set(xlabel="weight", ylabel="mean and two widths", title="Posterior of five weights")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
