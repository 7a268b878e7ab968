"""A curve found in six measurements: places on it are inputs of a Gaussian process, and are learned with its widths.

Every row of measurements depends on one hidden number. Nobody tells which; its order along the curve comes out.
"""

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.stats import spearmanr

import wholestep as ws

QUANTITY = "one less the rank correlation of found and true places"
BOUND = 0.02
ROWS = 60


def surprise(flat, rows):
    """The negative log-likelihood of six functions of a Gaussian process, at places with a bell-shaped prior."""
    places, width, noise = flat[:ROWS], np.exp(flat[ROWS]), np.exp(flat[ROWS + 1])
    near = np.exp(-0.5 * ((places[:, None] - places) / width) ** 2) + noise * np.eye(ROWS)
    factor = np.linalg.cholesky(near)
    white = scipy.linalg.solve_triangular(factor, rows, lower=True)
    prior = 0.5 * np.sum(places**2)
    return 0.5 * np.sum(white**2) + rows.shape[1] * np.sum(np.log(np.diag(factor))) + prior


def run():
    rng = np.random.default_rng(0)
    true = np.sort(rng.uniform(-2, 2, ROWS))
    shapes = [np.sin(true), np.cos(true), np.tanh(2 * true), true**2 / 4, true / 2, np.sin(2 * true)]
    rows = np.stack(shapes, axis=1) + 0.1 * rng.normal(size=(ROWS, 6))
    rows -= rows.mean(axis=0)
    first = np.linalg.svd(rows)[0][:, 0] * np.sqrt(ROWS)
    start = np.concatenate([first, [0.0, -2.0]])
    found = minimize(
        ws.jit(ws.value_and_grad(surprise)), start, args=(rows,), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    return true, rows, found.x[:ROWS]


def main():
    true, _, places = run()
    return float(1 - abs(spearmanr(true, places).statistic))


def picture(figure):
    true, rows, places = run()
    left, right = figure.subplots(1, 2)
    left.scatter(rows[:, 0], rows[:, 5], c=places, s=8)
    left.set(xlabel="first measurement", ylabel="sixth", title="Colour: place found")
    right.plot(true, places, ".")
    right.set(xlabel="true place", ylabel="place found", title="In the same order")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
