"""Bayesian optimisation: a Gaussian process says where one more measurement of a costly function promises most.

The promise is the expected improvement, climbed by its gradient from many starts at once; fifteen values are enough.
"""

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.special import erf

import wholestep as ws

QUANTITY = "height above the lowest point after fifteen values"
BOUND = 0.01
WIDTH, JITTER, VALUES = 0.5, 1e-6, 15


def costly(x):
    return np.sin(3 * x) + 0.4 * x**2 - 0.7 * x


def forecast(at, x, y):
    """Mean and width of the function at points, given its values at x."""
    near = np.exp(-0.5 * ((x[:, None] - x) / WIDTH) ** 2) + JITTER * np.eye(len(x))
    across = np.exp(-0.5 * ((at[:, None] - x) / WIDTH) ** 2)
    factor = np.linalg.cholesky(near)
    white = scipy.linalg.solve_triangular(factor, across.T, lower=True)
    mean = white.T @ scipy.linalg.solve_triangular(factor, y, lower=True)
    return mean, np.sqrt(np.maximum(1 - np.sum(white**2, axis=0), 1e-10))


def improvement(at, x, y):
    """The expected improvement at each point: the mean of `max(0, lowest value - new value)`."""
    mean, width = forecast(at, x, y)
    z = (np.min(y) - mean) / width
    bell, share = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), 0.5 * (1 + erf(z / np.sqrt(2)))
    return width * (z * share + bell)


def promise(at, x, y):
    """The negative sum over points, of which each has a gradient of its own."""
    return -np.sum(improvement(at, x, y))


def padded(x, y):
    """The samples padded to VALUES, with heights standardized; padded ones lie so far off that they have no effect."""
    rest = np.arange(VALUES - len(x))
    return np.append(x, 100.0 + 10 * rest), np.append((y - y.mean()) / y.std(), 0.0 * rest)


def run():
    x = np.array([-1.8, 0.0, 1.9])
    y, slope, starts = costly(x), ws.jit(ws.value_and_grad(promise)), np.linspace(-2, 2.5, 12)
    while len(x) < VALUES:
        known = padded(x, y)
        found = minimize(slope, starts, args=known, jac=True, method="L-BFGS-B", bounds=[(-2, 2.5)] * 12)
        best = found.x[np.argmax(improvement(found.x, *known))]
        x, y = np.append(x, best), np.append(y, costly(best))
    return x, y


def main():
    return float(np.min(run()[1]) - np.min(costly(np.linspace(-2, 2.5, 100001))) + 1e-12)


def picture(figure):
    x, y = run()
    axes, fine = figure.subplots(), np.linspace(-2, 2.5, 300)
    mean, width = forecast(fine, x, (y - y.mean()) / y.std())
    mean, width = y.mean() + y.std() * mean, y.std() * width
    axes.fill_between(fine, mean - 2 * width, mean + 2 * width, alpha=0.3, label="forecast, two widths")
    axes.plot(fine, costly(fine), "k--", label="truth")
    axes.plot(x[:3], y[:3], "o", label="first three values")
    axes.plot(x[3:], y[3:], "C3.", label="twelve that were chosen")
    axes.set(xlabel="x", ylabel="costly function", title="Where to measure next")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.2e} {QUANTITY}")
