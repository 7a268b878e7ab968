"""Bayesian regression by Hamiltonian Monte Carlo, whose mean is compared with the closed form.

A thousand draws, each after twenty leapfrog steps along the gradient of the log-posterior, are one compiled loop.
"""

import numpy as np

import wholestep as ws

QUANTITY = "distance from the exact posterior mean, in standard deviations"
BOUND = 0.15


def energy(w, x, y):
    return 0.5 * np.sum((y - x @ w) ** 2) / 0.3**2 + 0.5 * np.sum(w**2)


def chain(key, x, y):
    def leapfrog(_, state):
        w, momentum = state
        momentum = momentum - 0.01 * ws.grad(energy)(w, x, y)
        w = w + 0.02 * momentum
        return w, momentum - 0.01 * ws.grad(energy)(w, x, y)

    def draw(w, key):
        first, second = ws.random.split(key, 2)
        momentum = ws.random.normal(first, w.shape, "float64")
        moved, after = ws.fori_loop(0, 20, leapfrog, (w, momentum))
        change = energy(moved, x, y) + 0.5 * np.sum(after**2) - energy(w, x, y) - 0.5 * np.sum(momentum**2)
        taken = np.log(ws.random.uniform(second, (), "float64")) < -change
        w = np.where(taken, moved, w)
        return w, (w, taken)

    return ws.scan(draw, np.zeros(3), ws.random.split(key, 1200))[1]


def run():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=40)
    draws, taken = ws.jit(chain)(ws.random.key(0), x, y)
    covariance = np.linalg.inv(x.T @ x / 0.3**2 + np.eye(3))
    return draws[200:], taken, covariance @ x.T @ y / 0.3**2, covariance


def main():
    draws, taken, mean, covariance = run()
    assert np.mean(taken) > 0.8
    return float(np.max(np.abs(draws.mean(0) - mean) / np.sqrt(np.diag(covariance))))


def picture(figure):
    draws, _, mean, covariance = run()
    axes = figure.subplots()
    circle = np.linspace(0, 2 * np.pi, 100)
    axes.plot(*draws[:, :2].T, ".", markersize=2, label="draws")
    for widths in 1, 2:
        ring = widths * np.linalg.cholesky(covariance[:2, :2]) @ [np.cos(circle), np.sin(circle)]
        axes.plot(*(mean[:2, None] + ring), "C1", label="exact, 1 and 2 widths" if widths == 1 else None)
    axes.set(xlabel="first weight", ylabel="second weight", title="1000 draws of the posterior")
    figure.legend(loc="outside lower center", ncols=2)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
