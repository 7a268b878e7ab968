"""An orbit from sightings: Kepler's equation is solved by a loop, and differentiated as the equation that it is.

`ws.custom_root` takes a solver of any kind; the derivative comes from the equation at its solution, not from the loop.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "largest error of an element of the orbit"
BOUND = 0.02
TRUE = np.array([1.3, 0.6, 0.7, 0.4])


def kepler(angle, mean, eccentricity):
    return angle - eccentricity * np.sin(angle) - mean


def newton(f, angle):
    return ws.while_loop(
        lambda angle: np.abs(f(angle)) > 1e-12, lambda angle: angle - f(angle) / ws.grad(f)(angle), angle
    )


def anomaly(mean, eccentricity):
    """The angle E with E - e sin(E) = M, for each M."""
    return ws.vmap(lambda m: ws.custom_root(kepler, np.pi, newton, m, eccentricity))(mean)


def places(elements, days):
    """Points of the plane: half axis, eccentricity, the direction of the nearest point, the time when it is passed."""
    axis, eccentricity, turn, start = elements
    angle = anomaly(np.mod(days - start, 2 * np.pi), eccentricity)
    x, y = np.cos(angle) - eccentricity, np.sqrt(1 - eccentricity**2) * np.sin(angle)
    return axis * np.stack([np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y])


def loss(elements, seen):
    return np.mean((places(elements, seen["days"]) - seen["places"]) ** 2)


def run():
    rng = np.random.default_rng(0)
    days = np.sort(rng.uniform(0, 9, 60))
    seen = {"days": days, "places": places(TRUE, days) + 0.02 * rng.normal(size=(2, 60))}
    start = np.array([1.0, 0.2, 0.2, 0.0])
    step = ws.compile(loss, start, optimizer=optim.adam(optim.cosine(0.03, 600)), batch=seen)
    for _ in range(600):
        step(seen)
    return start, step.params, seen


def main():
    return float(np.max(np.abs(run()[1] - TRUE)))


def picture(figure):
    start, found, seen = run()
    axes, days = figure.subplots(), np.linspace(0, 2 * np.pi, 300)
    axes.plot(*seen["places"], ".", color="0.5", label="sightings")
    axes.plot(*places(start, days), "C1:", label="start")
    axes.plot(*places(found, days), label="found")
    axes.plot(0, 0, "k*")
    axes.set(xlabel="x", ylabel="y", title="60 sightings of one body")
    axes.axis("equal")
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
