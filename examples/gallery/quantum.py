"""A quantum circuit whose angles are trained until it prepares the ground state of a chain of spins.

The state of three qubits is a complex array of shape [2, 2, 2]; a gate is a contraction with one or two of its axes.
The energy is compared with the smallest eigenvalue.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "energy above the exact ground state"
BOUND = 0.01
QUBITS = 3
Z, X = np.array([[1.0, 0], [0, -1.0]]), np.array([[0, 1.0], [1.0, 0]])


def turned(state, angle, qubit):
    """The state after a rotation about y."""
    cosine, sine = np.cos(angle / 2), np.sin(angle / 2)
    gate = np.array([[cosine, -sine], [sine, cosine]])
    return np.moveaxis(np.tensordot(gate, state, (1, qubit)), 0, qubit)


def entangled(state, first, second):
    """The state after a controlled change of sign."""
    shape = [1] * QUBITS
    shape[first] = shape[second] = 2
    return state * np.array([1.0, 1.0, 1.0, -1.0]).reshape(shape)


def circuit(angles):
    state = np.zeros((2,) * QUBITS)
    state[(0,) * QUBITS] = 1.0
    for number, layer in enumerate(angles):
        for qubit in range(QUBITS):
            state = turned(state, layer[qubit], qubit)
        for qubit in range(number % 2, QUBITS - 1, 2):
            state = entangled(state, qubit, qubit + 1)
    return state.reshape(-1)


def spins():
    """The transverse-field Ising chain as a matrix."""

    def product(*factors):
        whole = np.eye(1)
        for qubit in range(QUBITS):
            whole = np.kron(whole, dict(factors).get(qubit, np.eye(2)))
        return whole

    pairs = sum(product((q, Z), (q + 1, Z)) for q in range(QUBITS - 1))
    return -pairs - sum(product((q, X)) for q in range(QUBITS))


def energy(angles, matrix):
    state = circuit(angles)
    return state @ matrix @ state


def run():
    matrix = spins()
    start = np.random.default_rng(0).normal(size=(3, QUBITS))
    step = ws.compile(energy, start, optimizer=optim.adam(optim.cosine(0.1, 300)), batch=matrix)
    trail = [step(matrix).loss for _ in range(300)]
    return trail, step.params, matrix


def main():
    _, angles, matrix = run()
    return float(energy(angles, matrix) - np.linalg.eigvalsh(matrix)[0])


def picture(figure):
    trail, angles, matrix = run()
    (levels, states), (left, right) = np.linalg.eigh(matrix), figure.subplots(1, 2)
    left.semilogy(np.array(trail) - levels[0])
    left.set(xlabel="step", ylabel="above the ground state", title="Energy")
    words = [f"{n:03b}" for n in range(2**QUBITS)]
    right.bar(words, circuit(angles) ** 2, label="circuit")
    right.plot(words, states[:, 0] ** 2, "k_", markersize=12, label="exact")
    right.set(xlabel="spins", ylabel="chance", title="Ground state")
    right.tick_params("x", rotation=90)
    right.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
