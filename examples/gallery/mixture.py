"""A mixture of normal distributions fitted by the gradient of its likelihood, compared with the true one.

Three groups of the plane overlap; each has a mean, a triangular factor of its precision and a share of the points.
"""

import numpy as np
from scipy.optimize import minimize

import wholestep as ws
from wholestep.nn import logsumexp

QUANTITY = "nats a point that the mixture loses to the true one, on new points"
BOUND = 0.02
SHARES = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.0, 0.0], [2.5, 1.0], [-1.0, 3.0]])
FACTORS = np.array([[[1.0, 0.0], [0.8, 0.5]], [[0.4, 0.0], [-0.3, 0.8]], [[0.9, 0.0], [0.0, 0.4]]])


def surprise(shares, means, precisions, points):
    """The mean negative log-likelihood: log-shares up to a constant, means, and factors of the inverse covariances."""
    white = np.einsum("kij,nkj->nki", precisions, points[:, None] - means)
    logs = shares - logsumexp(shares) + np.sum(np.log(np.diagonal(precisions, axis1=1, axis2=2)), axis=1)
    return -np.mean(logsumexp(logs - 0.5 * np.sum(white**2, axis=2), axis=1)) + np.log(2 * np.pi)


def loss(flat, points):
    shares, means, lower = flat[:3], flat[3:9].reshape(3, 2), flat[9:].reshape(3, 3)
    precisions = np.zeros((3, 2, 2))
    precisions[:, 0, 0], precisions[:, 1, 1] = np.exp(lower[:, 0]), np.exp(lower[:, 1])
    precisions[:, 1, 0] = lower[:, 2]
    return surprise(shares, means, precisions, points)


def made(count, rng):
    group = rng.choice(3, count, p=SHARES)
    return MEANS[group] + np.einsum("nij,nj->ni", FACTORS[group], rng.normal(size=(count, 2)))


def run():
    rng = np.random.default_rng(0)
    points = made(1500, rng)
    start = np.concatenate([np.zeros(3), points[:3].ravel(), np.zeros(9)])
    found = minimize(ws.jit(ws.value_and_grad(loss)), start, args=(points,), jac=True, method="BFGS")
    return points, found.x, made(4000, rng)


def main():
    _, found, new = run()
    return float(loss(found, new) - surprise(np.log(SHARES), MEANS, np.linalg.inv(FACTORS), new))


def picture(figure):
    points, found, _ = run()
    axes = figure.subplots()
    axes.plot(*points.T, ".", color="0.8", markersize=2)
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 80)), np.sin(np.linspace(0, 2 * np.pi, 80))])
    for k, (mean, (a, b, c)) in enumerate(zip(found[3:9].reshape(3, 2), found[9:].reshape(3, 3), strict=True)):
        axis = np.linalg.solve([[np.exp(a), 0.0], [c, np.exp(b)]], 2 * circle)
        axes.plot(*(mean[:, None] + axis), f"C{k}", label="found, two widths" if k == 0 else None)
        axes.plot(*(MEANS[k][:, None] + FACTORS[k] @ (2 * circle)), "k--", label="true" if k == 0 else None)
    axes.set(xlabel="x", ylabel="y", title="Three groups of 1500 points")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
