"""Molecular dynamics: forces are the gradient of an energy, and the energy must not drift.

Sixteen particles with Lennard-Jones forces move by the velocity Verlet scheme, a thousand steps in one compiled loop.
"""

import numpy as np

import wholestep as ws

QUANTITY = "largest drift of the total energy, relative"
BOUND = 2e-3
STEP = 0.002
FIRST, SECOND = np.triu_indices(16, 1)


def potential(places):
    squares = np.sum((places[FIRST] - places[SECOND]) ** 2, axis=1)
    inverse = 1 / squares**3
    return np.sum(4 * (inverse**2 - inverse))


def advanced(state):
    places, speeds, force = state
    speeds = speeds + 0.5 * STEP * force
    places = places + STEP * speeds
    force = -ws.grad(potential)(places)
    return places, speeds + 0.5 * STEP * force, force


@ws.jit
def trajectory(places, speeds):
    def advance(state, _):
        places, speeds, force = advanced(state)
        return (places, speeds, force), potential(places) + 0.5 * np.sum(speeds**2)

    return ws.scan(advance, (places, speeds, -ws.grad(potential)(places)), np.arange(1000))[1]


@ws.jit
def ways(places, speeds):
    start = (places, speeds, -ws.grad(potential)(places))
    return ws.scan(lambda state, _: (advanced(state), state[0]), start, np.arange(1000))[1]


def beginning():
    grid = np.arange(4) * 1.2
    places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(16, 2)
    speeds = 0.3 * np.random.default_rng(0).normal(size=(16, 2))
    return places, speeds


def main():
    energy = trajectory(*beginning())
    return float(np.max(np.abs(energy - energy[0])) / abs(energy[0]))


def picture(figure):
    energy, path = trajectory(*beginning()), ways(*beginning())
    left, right = figure.subplots(1, 2)
    left.plot(*path.transpose(2, 0, 1), linewidth=0.8)
    left.plot(*path[-1].T, "k.")
    left.set(xlabel="x", ylabel="y", title="Ways of 16 atoms", aspect="equal")
    right.plot(STEP * np.arange(1000), 1e6 * (energy / energy[0] - 1))
    right.set(xlabel="time", ylabel="relative drift, millionths", title="Total energy")


if __name__ == "__main__":
    print(f"{main():.6f} {QUANTITY}")
