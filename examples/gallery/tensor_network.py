"""A tensor network: a chain of small tensors becomes the ground state of a row of quantum spins.

The chain has a few hundred numbers where the state has a thousand, and its energy is held against the exact one.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "energy above the exact ground state, relative"
BOUND = 0.001
SPINS, BOND = 10, 4
Z, X = np.diag([1.0, -1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])


def energy(tensors):
    """The mean of -Z Z of neighbours and -X of each spin, by environments that grow along the chain."""

    def carried(edge, tensor, operator):
        return np.einsum("ab,asc,st,btd->cd", edge, tensor, operator, tensor)

    one = np.eye(2)
    plain, total, pending = np.eye(1), np.zeros((1, 1)), None
    for tensor in tensors:
        total = carried(total, tensor, one) - carried(plain, tensor, X)
        if pending is not None:
            total = total - carried(pending, tensor, Z)
        pending, plain = carried(plain, tensor, Z), carried(plain, tensor, one)
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


def main():
    rng = np.random.default_rng(0)
    ends = [1, *[BOND] * (SPINS - 1), 1]
    tensors = [0.5 + 0.3 * rng.normal(size=(ends[i], 2, ends[i + 1])) for i in range(SPINS)]
    optimizer = optim.adam(optim.cosine(0.03, 600))
    step = ws.compile(lambda tensors, _: energy(tensors), tensors, optimizer=optimizer, batch=0.0)
    for _ in range(600):
        step(0.0)
    least = exact()
    return float((energy(step.params) - least) / abs(least))


if __name__ == "__main__":
    print(f"{main():.6f} {QUANTITY}")
