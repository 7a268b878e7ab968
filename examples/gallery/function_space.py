"""Descent in a space of functions: a gradient is a function, a sum of bumps, and each step adds it to the current one.

The space has a reproducing kernel, so that the end of the descent is known: one solve gives the same function.
"""

import numpy as np

import wholestep as ws

QUANTITY = "largest difference from the function that one solve gives"
BOUND = 1e-4
SHRINK = 0.1


def kernel(a, b):
    return np.exp(-0.5 * (a[:, None] - b) ** 2 / 0.3**2)


def loss(values, y):
    """Half the squares of the misfits, as a function of the values at the points."""
    return 0.5 * np.sum((values - y) ** 2)


def descended(near, y, steps, rate):
    """Coefficients of the bumps: those of a gradient are the derivatives of the loss by the values at the points."""

    def down(_, bumps):
        return bumps - rate * (ws.grad(loss)(bumps @ near, y) + SHRINK * bumps)

    return ws.fori_loop(0, steps, down, np.zeros(len(y)))


def run():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 4, 100))
    y = np.sin(2 * x) + 0.3 * np.sign(x - 2) + 0.1 * rng.normal(size=100)
    near, fine = kernel(x, x), np.linspace(0, 4, 200)
    rate = 1.9 / (np.linalg.eigvalsh(near)[-1] + SHRINK)
    bumps = [ws.jit(descended, static_argnums=2)(near, y, steps, rate) for steps in (5000, 20, 2)]
    across = kernel(fine, x)
    return x, y, fine, [across @ b for b in bumps], across @ np.linalg.solve(near + SHRINK * np.eye(100), y)


def main():
    _, _, _, found, exact = run()
    return float(np.max(np.abs(found[0] - exact)))


def picture(figure):
    x, y, fine, found, exact = run()
    axes = figure.subplots()
    axes.plot(x, y, ".", color="0.5")
    for steps, curve in zip((5000, 20, 2), found, strict=True):
        axes.plot(fine, curve, label=f"{steps} steps")
    axes.plot(fine, exact, "k--", label="one solve")
    axes.set(xlabel="x", ylabel="y", title="A function goes down")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.2e} {QUANTITY}")
