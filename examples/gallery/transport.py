"""Optimal transport: points are moved onto others by the gradient of Sinkhorn's distance, through its iteration.

Two clouds with equal widths lie apart; the least total way is the shift between their means, so its length is known.
"""

import numpy as np

import wholestep as ws
from wholestep import optim
from wholestep.nn import logsumexp

QUANTITY = "distance of the moved points' mean and width from those of the target"
BOUND = 0.05
BLUR = 0.05


def cost(points, target):
    """The blurred cost of the best plan between two clouds, by fifty rounds of scaling in logarithms."""
    squares = np.sum((points[:, None] - target[None]) ** 2, axis=2)
    weight = -np.log(len(points))

    def scaled(_, both):
        _, g = both
        f = -BLUR * logsumexp(weight + (g[None] - squares) / BLUR, axis=1)
        return f, -BLUR * logsumexp(weight + (f[:, None] - squares) / BLUR, axis=0)

    f, g = ws.fori_loop(0, 50, scaled, (np.zeros(len(points)), np.zeros(len(target))))
    return np.mean(f) + np.mean(g)


def divergence(points, target):
    return cost(points, target) - 0.5 * cost(points, points) - 0.5 * cost(target, target)


def run():
    rng = np.random.default_rng(0)
    target = rng.normal(size=(40, 2)) * [0.5, 1.0] + [2.0, -1.0]
    start = rng.normal(size=(40, 2))
    step = ws.compile(divergence, start, optimizer=optim.adam(optim.cosine(0.1, 120)), batch=target)
    for _ in range(120):
        step(target)
    return start, step.params, target


def main():
    _, moved, target = run()
    return float(max(np.max(np.abs(moved.mean(0) - target.mean(0))), np.max(np.abs(moved.std(0) - target.std(0)))))


def picture(figure):
    start, moved, target = run()
    axes = figure.subplots()
    axes.plot(*np.stack([start, moved]).transpose(2, 0, 1), "0.85", linewidth=0.8, zorder=0)
    axes.plot(*start.T, ".", color="0.6", label="start")
    axes.plot(*target.T, "o", fillstyle="none", label="target")
    axes.plot(*moved.T, ".", label="moved points")
    axes.set(xlabel="x", ylabel="y", title="Points on their way")
    axes.axis("equal")
    figure.legend(loc="outside lower center", ncols=3)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
