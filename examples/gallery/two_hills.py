"""Variational inference with a mixture: a density with two modes is fitted by its formula, without a sample of it.

Each component of the mixture draws its own points, and the shares stay in the sum, so that all of it differentiates.
"""

import numpy as np

import wholestep as ws
from wholestep import optim
from wholestep.nn import logsumexp, softmax

QUANTITY = "nats between the found law and the true one"
BOUND = 0.05
HILLS = {"shares": np.log([0.6, 0.4]), "means": np.array([[-2.0, 0.0], [2.0, 1.0]])}
HILLS["logs"] = np.log([[0.5, 1.2], [0.8, 0.4]])


def log_density(law, points):
    """The logarithm of a mixture's density at points[..., 2]."""
    white = (points[..., None, :] - law["means"]) / np.exp(law["logs"])
    shares = law["shares"] - logsumexp(law["shares"]) - np.sum(law["logs"], axis=1) - np.log(2 * np.pi)
    return logsumexp(shares - 0.5 * np.sum(white**2, axis=-1), axis=-1)


def loss(law, hills, *, key):
    """The divergence of the mixture from the density: the mean over each component's draws, weighted with its share."""
    draws = ws.random.normal(key, (64, 4, 2), "float64")
    points = law["means"] + np.exp(law["logs"]) * draws
    far = log_density(law, points) - log_density(hills, points)
    return np.sum(softmax(law["shares"]) * np.mean(far, axis=0))


def run():
    law = {"shares": np.zeros(4), "means": np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])}
    law["logs"] = np.zeros((4, 2))
    step = ws.compile(loss, law, optimizer=optim.adam(optim.cosine(0.05, 1500)), batch=HILLS, key=0)
    for _ in range(1500):
        step(HILLS)
    return step.params


def main():
    law, rng = run(), np.random.default_rng(0)
    chances = np.exp(law["shares"]) / np.sum(np.exp(law["shares"]))
    part = rng.choice(4, 20000, p=chances / chances.sum())
    points = law["means"][part] + np.exp(law["logs"][part]) * rng.normal(size=(20000, 2))
    return float(abs(np.mean(log_density(law, points) - log_density(HILLS, points))))


def picture(figure):
    law = run()
    x, y = np.meshgrid(np.linspace(-4.5, 4.5, 80), np.linspace(-4, 4, 80))
    for axes, (title, mixture) in zip(figure.subplots(1, 2), {"true": HILLS, "found": law}.items(), strict=True):
        axes.contourf(x, y, np.exp(log_density(mixture, np.stack([x, y], axis=-1))), 8, cmap="Blues")
        axes.set(xlabel="x", ylabel="y", title=title)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
