"""A hidden Markov model by expectation and maximisation, where the expected counts are a gradient.

The derivative of the log-likelihood in the logarithm of a chance is how often that chance was expected to be taken, so
that nobody has to write a backward pass over the sequence.
"""

import numpy as np

import wholestep as ws
from wholestep.nn import logsumexp

QUANTITY = "largest error of a chance of going from state to state"
BOUND = 0.05
MOVES = np.array([[0.92, 0.05, 0.03], [0.06, 0.9, 0.04], [0.02, 0.08, 0.9]])
SIGNS = np.array([[0.8, 0.1, 0.05, 0.05], [0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.3, 0.6]])


def likelihood(logs, signs):
    """The log of the chance of a sequence of signs, summed over all ways through the states."""

    def advance(state, sign):
        return logsumexp(state[:, None] + logs["moves"], axis=0) + logs["signs"][:, sign], None

    return logsumexp(ws.scan(advance, logs["start"] + logs["signs"][:, signs[0]], signs[1:])[0])


def run():
    rng = np.random.default_rng(0)
    states, signs = np.zeros(6000, int), np.zeros(6000, int)
    for t in range(6000):
        states[t] = rng.choice(3, p=MOVES[states[t - 1]]) if t else 0
        signs[t] = rng.choice(4, p=SIGNS[states[t]])
    chances = {"start": np.full(3, 1 / 3), "moves": np.full((3, 3), 0.2) + 0.4 * np.eye(3)}
    chances["signs"] = 0.15 * np.ones((3, 4)) + 0.4 * np.eye(3, 4)
    counted, history = ws.jit(ws.value_and_grad(likelihood)), []
    for _ in range(60):
        value, counts = counted({name: np.log(p) for name, p in chances.items()}, signs)
        chances = {name: n / n.sum(axis=-1, keepdims=True) for name, n in counts.items()}
        history.append(float(value) / 6000)
    return chances, history


def main():
    return float(np.max(np.abs(run()[0]["moves"] - MOVES)))


def picture(figure):
    chances, history = run()
    left, right = figure.subplots(1, 2)
    left.plot(np.arange(1, 61), history)
    left.set(xlabel="round", ylabel="log-likelihood of a sign", title="It never falls")
    for k in range(3):
        right.plot(MOVES[k], chances["moves"][k], "o", label=f"from state {k + 1}")
    right.plot([0, 1], [0, 1], "k--", linewidth=0.8)
    right.set(xlabel="true chance", ylabel="found", title="Moves")
    right.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
