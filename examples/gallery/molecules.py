"""Molecular dynamics: forces are the gradient of an energy, and the energy is what must not drift.

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


@ws.jit
def trajectory(places, speeds):
    def advance(state, _):
        places, speeds, force = state
        speeds = speeds + 0.5 * STEP * force
        places = places + STEP * speeds
        force = -ws.grad(potential)(places)
        speeds = speeds + 0.5 * STEP * force
        return (places, speeds, force), potential(places) + 0.5 * np.sum(speeds**2)

    return ws.scan(advance, (places, speeds, -ws.grad(potential)(places)), np.arange(1000))[1]


def main():
    grid = np.arange(4) * 1.2
    places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(16, 2)
    speeds = 0.3 * np.random.default_rng(0).normal(size=(16, 2))
    energy = trajectory(places, speeds)
    return float(np.max(np.abs(energy - energy[0])) / abs(energy[0]))


if __name__ == "__main__":
    print(f"{main():.6f} {QUANTITY}")
