"""Finite elements from an energy: its gradient is the load, its Hessian the stiffness, and one solve is the answer.

A membrane on the unit square under the load 2 pi^2 sin(pi x) sin(pi y), in bilinear elements with 3 by 3 points of
integration. The error is that at the nodes, against the closed form.
"""

import numpy as np

import wholestep as ws

QUANTITY = "largest error at the nodes against the closed form"
BOUND = 0.01
CELLS = 12
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(3)


def energy(inside):
    u = np.zeros((CELLS + 1, CELLS + 1))
    u[1:-1, 1:-1] = inside.reshape(CELLS - 1, CELLS - 1)
    corners = [u[:-1, :-1], u[1:, :-1], u[:-1, 1:], u[1:, 1:]]
    left = np.arange(CELLS) / CELLS
    total = 0.0
    for s, across in zip(POINTS, WEIGHTS, strict=True):
        for t, along in zip(POINTS, WEIGHTS, strict=True):
            a, b = (1 + s) / 2, (1 + t) / 2
            shares = [(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b]
            value = sum(share * corner for share, corner in zip(shares, corners, strict=True))
            dx = CELLS * ((1 - b) * (corners[1] - corners[0]) + b * (corners[3] - corners[2]))
            dy = CELLS * ((1 - a) * (corners[2] - corners[0]) + a * (corners[3] - corners[1]))
            load = 2 * np.pi**2 * np.sin(np.pi * (left[:, None] + a / CELLS)) * np.sin(np.pi * (left + b / CELLS))
            total = total + across * along / 4 / CELLS**2 * np.sum(0.5 * (dx**2 + dy**2) - load * value)
    return total


def run():
    start = np.zeros((CELLS - 1) ** 2)
    stiffness, load = ws.jit(ws.hessian(energy))(start), -ws.grad(energy)(start)
    nodes = np.sin(np.pi * np.arange(1, CELLS) / CELLS)
    return np.linalg.solve(stiffness, load).reshape(CELLS - 1, CELLS - 1), np.outer(nodes, nodes)


def main():
    found, exact = run()
    return float(np.max(np.abs(found - exact)))


def picture(figure):
    found, exact = run()
    left, right = figure.subplots(1, 2)
    for axes, field, title in (left, found, "Deflection"), (right, found - exact, "Error at the nodes"):
        image = axes.imshow(field.T, origin="lower", extent=(0, 1, 0, 1))
        figure.colorbar(image, ax=axes, location="bottom")
        axes.set(xlabel="x", ylabel="y", title=title)


if __name__ == "__main__":
    print(f"{main():.6f} {QUANTITY}")
