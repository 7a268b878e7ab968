"""A curved valley in twenty dimensions: Newton's method by Hessian-vector products, without the Hessian matrix.

`ws.hvp` gives such a product for about two gradients, and SciPy's truncated Newton asks for nothing else.
"""

import numpy as np
from scipy.optimize import minimize

import wholestep as ws

QUANTITY = "distance from the bottom of the valley"
BOUND = 1e-4
SIZE = 20


def height(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def run():
    path = []
    slope = ws.jit(ws.value_and_grad(height))
    product = ws.jit(lambda x, v: ws.hvp(height, (x,), (v,)))
    start = np.tile([-1.2, 1.0], SIZE // 2)
    options = {"method": "Newton-CG", "hessp": product, "callback": lambda x: path.append(x.copy())}
    found = minimize(slope, start, jac=True, options={"xtol": 1e-10}, **options)
    return found.x, np.array([start, *path])


def main():
    return float(np.max(np.abs(run()[0] - 1.0)))


def picture(figure):
    _, path = run()
    left, right = figure.subplots(1, 2)
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 80), np.linspace(-0.7, 1.6, 80))
    left.contour(x, y, np.log(100 * (y - x**2) ** 2 + (1 - x) ** 2 + 0.1), 6, cmap="Greys", linewidths=0.7)
    left.plot(path[:, 0], path[:, 1], ".-", markersize=3, linewidth=0.7)
    left.set(xlabel="first number", ylabel="second", title="The way down")
    right.semilogy([height(x) for x in path])
    right.set(xlabel="iteration", ylabel="height", title="Steep at the end")


if __name__ == "__main__":
    print(f"{main():.2e} {QUANTITY}")
