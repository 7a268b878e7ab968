"""A variational autoencoder of data whose exact likelihood is known, so that its bound can be compared with it.

The data is x = W z + noise with two hidden numbers z. For a linear decoder the best bound is the exact log-likelihood;
the network has to find the decoder, the noise, and the posterior of z for every x.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "nats between the bound and the exact log-likelihood"
BOUND = 0.1


def loss(model, batch, *, key):
    mean, log_std = np.split(model["encoder"](batch), 2, axis=1)
    z = mean + np.exp(log_std) * ws.random.normal(key, mean.shape)
    spread = model["log_noise"]
    misfit = 0.5 * ((batch - model["decoder"](z)) / np.exp(spread)) ** 2 + spread + 0.5 * np.log(2 * np.pi)
    divergence = 0.5 * (mean**2 + np.exp(2 * log_std) - 1) - log_std
    return np.mean(np.sum(misfit, axis=1) + np.sum(divergence, axis=1))


def run():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2, 5))
    x = (rng.normal(size=(2000, 2)) @ weight + 0.5 * rng.normal(size=(2000, 5))).astype(np.float32)
    model = {"encoder": nn.Linear(5, 4, key=0), "decoder": nn.Linear(2, 5, key=1), "log_noise": np.zeros(5, np.float32)}
    step = ws.compile(loss, model, optimizer=optim.adam(optim.cosine(2e-2, 600)), batch=x[:100])
    loader = ws.Loader(x, batch_size=100, key=2)
    losses = [step(batch).loss for _ in range(30) for batch in loader]
    covariance = weight.T @ weight + 0.25 * np.eye(5)
    exact = -0.5 * np.mean(np.sum(x @ np.linalg.inv(covariance) * x, axis=1))
    exact -= 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return step.model, x, losses, exact


def main():
    model, x, _, exact = run()
    bound = -np.mean([loss(model, x, key=ws.random.key(n)) for n in range(4)])
    return float(abs(exact - bound))


def picture(figure):
    _, _, losses, exact = run()
    axes = figure.subplots()
    axes.plot(losses, linewidth=0.8, label="bound, each step")
    axes.axhline(-exact, color="k", linestyle="--", label="exact value")
    axes.set(xlabel="step", ylabel="nats a row", title="Negative log-likelihood, and its bound")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
