"""Gaussian process regression: hyper-parameters by the gradient of the marginal likelihood.

The kernel, its Cholesky factor and the likelihood are plain NumPy; `ws.jit(ws.value_and_grad(...))` is what
SciPy's `minimize` calls.
"""

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

import wholestep as ws

QUANTITY = "error of the prediction between the points"
BOUND = 0.15


def kernel(params, a, b):
    return np.exp(params[0]) * np.exp(-0.5 * ((a[:, None] - b) / np.exp(params[1])) ** 2)


def surprise(params, x, y):
    factor = np.linalg.cholesky(kernel(params, x, x) + np.exp(params[2]) * np.eye(len(x)))
    white = scipy.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * white @ white + np.sum(np.log(np.diag(factor)))


def run():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 60))
    y = np.sin(x) + 0.1 * rng.normal(size=60)
    found = minimize(ws.jit(ws.value_and_grad(surprise)), np.array([0.0, 0.0, -2.0]), args=(x, y), jac=True)
    between = np.linspace(0.3, 5.7, 50)
    across = kernel(found.x, between, x)
    noisy = kernel(found.x, x, x) + np.exp(found.x[2]) * np.eye(60)
    variance = np.exp(found.x[0]) - np.sum(across * np.linalg.solve(noisy, across.T).T, axis=1)
    return x, y, between, across @ np.linalg.solve(noisy, y), np.sqrt(variance)


def main():
    _, _, between, predicted, _ = run()
    return float(np.max(np.abs(predicted - np.sin(between))))


def picture(figure):
    x, y, between, predicted, width = run()
    axes = figure.subplots()
    axes.plot(x, y, ".", label="data")
    axes.plot(between, predicted, label="prediction")
    axes.fill_between(between, predicted - 2 * width, predicted + 2 * width, color="C1", alpha=0.3, label="two widths")
    axes.plot(between, np.sin(between), "k--", label="truth")
    axes.set(xlabel="x", ylabel="y", title="What 60 noisy points say between them")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
