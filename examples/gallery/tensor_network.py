"""A tensor network: a chain of small tensors becomes the ground state of a row of quantum spins.

The bond dimension is four for a row of any length; the energy is compared with the exact one.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "energy above the exact ground state, relative"
BOUND = 0.001
SPINS, BOND = 8, 4
Z, X = np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])


def over(edge, tensor, operator):
    """An environment with one tensor more on both of its sides, and an operator between them."""
    above = np.einsum("ab,asc->bsc", edge, tensor)
    return np.einsum("btc,btd->cd", np.einsum("bsc,st->btc", above, operator), tensor)


def energy(chain):
    """The mean of -Z Z of neighbours and -X of each spin, by environments that grow along the chain."""

    def grow(edges, tensor):
        plain, total, pending = edges
        one = np.eye(2)
        total = over(total, tensor, one) - over(plain, tensor, X) - over(pending, tensor, Z)
        return (over(plain, tensor, one), total, over(plain, tensor, Z)), None

    corner = np.zeros((BOND, BOND))
    corner[0, 0] = 1.0
    nothing = np.zeros((BOND, BOND))
    (plain, total, _), _ = ws.scan(grow, (corner, nothing, nothing), chain)
    return total[0, 0] / plain[0, 0]


def exact():
    """The least eigenvalue of the whole matrix."""
    h = np.zeros((2**SPINS, 2**SPINS))
    words = np.arange(2**SPINS)
    bits = 1 - 2 * ((words[:, None] >> np.arange(SPINS)) & 1)
    h[words, words] = -np.sum(bits[:, 1:] * bits[:, :-1], axis=1)
    for i in range(SPINS):
        h[words, words ^ (1 << i)] -= 1
    return np.linalg.eigvalsh(h)[0]


def run():
    rng = np.random.default_rng(0)
    chain = 0.5 + 0.3 * rng.normal(size=(SPINS, BOND, 2, BOND))
    optimizer = optim.adam(optim.cosine(0.03, 600))
    step = ws.compile(lambda chain, _: energy(chain), chain, optimizer=optimizer, batch=0.0)
    trail = [step(0.0).loss for _ in range(600)]
    return trail, energy(step.params), exact()


def main():
    _, reached, least = run()
    return float((reached - least) / abs(least))


def picture(figure):
    trail, _, least = run()
    axes = figure.subplots()
    axes.semilogy((np.array(trail) - least) / abs(least))
    axes.axhline(BOUND, color="k", linestyle="--", label="the bound")
    axes.set(xlabel="step", ylabel="relative error of the energy", title=f"{SPINS} spins in tensors {BOND} wide")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.6f} {QUANTITY}")
