"""Natural gradients for variational inference: steps are measured by the change of the distribution alone.

A normal distribution with independent numbers is fitted to one whose numbers are correlated, with very unequal widths;
the best fit is known: the same means, and the width of each number where the others are held.
"""

import numpy as np

import wholestep as ws

QUANTITY = "largest error of a mean or width of the fit, in widths"
BOUND = 0.05
PRECISION = np.array([[4.0, 20.0, 0.0], [20.0, 400.0, 10.0], [0.0, 10.0, 1.0]])
MEAN = np.array([1.0, -0.5, 2.0])


def loss(law, draws):
    """The divergence of the distribution from the target, up to a constant, over draws of a standard normal one."""
    points = law["mean"] + np.exp(law["log_width"]) * draws - MEAN
    return 0.5 * np.mean(np.sum(points @ PRECISION * points, axis=1)) - np.sum(law["log_width"])


def descended(natural, rate, steps=600):
    """The distribution after some steps, and the loss before each; the Fisher matrix of a normal one is diagonal."""
    rng, slope = np.random.default_rng(0), ws.jit(ws.value_and_grad(loss))
    law, history = {"mean": np.zeros(3), "log_width": np.full(3, -3.0)}, []
    for t in range(steps):
        half = rng.normal(size=(32, 3))
        value, g = slope(law, np.concatenate([half, -half]))
        inverse = {"mean": np.exp(2 * law["log_width"]), "log_width": 0.5} if natural else {"mean": 1, "log_width": 1}
        now = rate * min(1.0, 100 / (t + 1))
        law = {name: law[name] - now * inverse[name] * g[name] for name in law}
        history.append(float(value))
    return law, history


def main():
    law, _ = descended(natural=True, rate=0.3)
    widths = 1 / np.sqrt(np.diag(PRECISION))
    far = np.abs(law["mean"] - MEAN) / widths, np.abs(np.exp(law["log_width"]) / widths - 1)
    return float(np.max(far))


def picture(figure):
    axes = figure.subplots()
    best = 1.5 + 0.5 * np.sum(np.log(np.diag(PRECISION)))
    for name, natural, rate in ("natural gradient", True, 0.3), ("gradient", False, 3e-3):
        history = np.array(descended(natural, rate)[1])
        axes.semilogy(np.maximum(history - best, 1e-3), label=name)
    axes.set(xlabel="step", ylabel="nats above the best fit", title="Two ways down")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
