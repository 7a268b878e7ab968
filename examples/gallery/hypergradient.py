"""Hyper-gradients: learning rate and momentum from the derivative of the last loss through all steps of the training.

`ws.unroll` makes thirty steps of gradient descent a function of its hyper-parameters, which is then trained itself.
For a quadratic loss the best pair is known: Polyak's, from the largest and the smallest curvature.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "of the loss that the textbook's rates reach"
BOUND = 1.0
CURVATURE = np.array([1.0, 3.0, 10.0])
STEPS = 30


def loss(w, _):
    return 0.5 * np.sum(CURVATURE * w**2)


train = ws.unroll(loss, optim.sgd(0.05, momentum=0.5), STEPS)


def outcome(rates, batches):
    """The logarithm of the loss after all steps."""
    hyper = {"lr": np.exp(rates[0]), "momentum": 1 / (1 + np.exp(-rates[1]))}
    return np.log(loss(train(np.ones(3), None, batches, hyper)[0], None))


def run():
    batches = np.zeros(STEPS)
    step = ws.compile(
        outcome, np.array([np.log(0.05), 0.0]), optimizer=optim.adam(optim.cosine(0.1, 400)), batch=batches
    )
    losses = np.array([step(batches).loss for _ in range(400)])
    low, high = np.sqrt(CURVATURE.min()), np.sqrt(CURVATURE.max())
    polyak = np.array([np.log(4 / (low + high) ** 2), 0.0])
    share = ((high - low) / (high + low)) ** 2
    polyak[1] = np.log(share / (1 - share))
    return losses, outcome(polyak, batches)


def main():
    losses, polyak = run()
    return float(np.exp(losses.min() - polyak))  # the curve has kinks, and the last rates need not be the best


def picture(figure):
    losses, polyak = run()
    axes = figure.subplots()
    axes.semilogy(np.exp(losses), label="learned rate and momentum")
    axes.axhline(np.exp(polyak), color="C1", linestyle="--", label="the textbook's")
    axes.set(xlabel="step of the rates", ylabel="loss", title="Loss after 30 steps of training")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
