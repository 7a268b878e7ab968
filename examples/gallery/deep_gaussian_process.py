"""A deep Gaussian process: one warps the line, the other is smooth on the warped line, and together they make a jump.

One process with one width is either too smooth at the jump or too rough beside it; both layers' pseudo-values are
learned with the widths.
"""

import numpy as np
from scipy.optimize import minimize

import wholestep as ws

QUANTITY = "mean error beside the jump, as a share of that of one Gaussian process"
BOUND = 0.8
PSEUDO, NOISE = 10, 0.05


def kernel(a, b, width):
    return np.exp(-0.5 * ((a[:, None] - b) / width) ** 2)


def through(at, x, values, width, noise):
    """The mean of a process at points, given its values at x."""
    return kernel(at, x, width) @ np.linalg.solve(kernel(x, x, width) + noise * np.eye(len(x)), values)


def surprise(x, y, width, noise):
    near = kernel(x, x, width) + noise * np.eye(len(x))
    return 0.5 * y @ np.linalg.solve(near, y) + 0.5 * np.linalg.slogdet(near)[1]


def warped(flat, at, places):
    return through(at, places, flat[:PSEUDO], np.exp(flat[PSEUDO]), 1e-4)


def loss(flat, x, y, places):
    """Both layers' negative log-likelihoods, of pseudo-values and of data; a prior keeps both widths near 1."""
    first = surprise(places, flat[:PSEUDO], np.exp(flat[PSEUDO]), 1e-4)
    prior = 0.5 * np.sum((flat[PSEUDO : PSEUDO + 2] / 0.3) ** 2)
    return first + prior + surprise(warped(flat, x, places), y, np.exp(flat[PSEUDO + 1]), np.exp(flat[PSEUDO + 2]))


def flat_loss(logs, x, y):
    return surprise(x, y, np.exp(logs[0]), np.exp(logs[1]))


def run():
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 50)
    y = np.sign(x) + NOISE * rng.normal(size=50)
    places, fine = np.linspace(-2, 2, PSEUDO), np.linspace(-1.96, 1.96, 197)
    start = np.concatenate([places, [0.0, 0.0, -3.0]])
    deep = minimize(ws.jit(ws.value_and_grad(loss)), start, args=(x, y, places), jac=True, method="BFGS").x
    one = minimize(ws.jit(ws.value_and_grad(flat_loss)), np.array([0.0, -3.0]), args=(x, y), jac=True, method="BFGS").x
    far = warped(deep, fine, places)
    by_two = through(far, warped(deep, x, places), y, np.exp(deep[PSEUDO + 1]), np.exp(deep[PSEUDO + 2]))
    return x, y, fine, far, by_two, through(fine, x, y, np.exp(one[0]), np.exp(one[1]))


def main():
    _, _, fine, _, by_two, by_one = run()
    errors = [np.mean(np.abs(found - np.sign(fine))[np.abs(fine) > 0.06]) for found in (by_two, by_one)]
    return float(errors[0] / errors[1])


def picture(figure):
    x, y, fine, far, by_two, by_one = run()
    left, right = figure.subplots(1, 2)
    left.plot(fine, far)
    left.set(xlabel="x", ylabel="warped x", title="First layer")
    right.plot(x, y, ".", color="0.6")
    right.plot(fine, by_one, "C1", linewidth=1, label="one layer")
    right.plot(fine, by_two, "C0", linewidth=1, label="two")
    right.set(xlabel="x", ylabel="y", title="A jump")
    right.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
