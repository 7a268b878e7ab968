"""A gated recurrent network that adds two marked numbers out of twenty, however far apart they stand.

A network that always answers the mean has a squared error of 1/6; a smaller error shows that the network remembers.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "of the error of the best constant answer, on new sequences"
BOUND = 0.05
LENGTH = 20


class Adder(nn.Module):
    def __init__(self):
        self.memory, self.head = nn.GRU(2, 32, key=0), nn.Linear(32, 1, key=1)

    def __call__(self, sequences):
        return self.head(self.memory(sequences)[0][:, -1])[:, 0]


def loss(model, batch):
    return np.mean((model(batch["x"]) - batch["y"]) ** 2)


def drawn(rng, rows):
    """Numbers between 0 and 1, of which two are marked, one in each half; the answers are their sums."""
    numbers, marks = rng.random((rows, LENGTH)), np.zeros((rows, LENGTH))
    first, second = rng.integers(0, LENGTH // 2, rows), rng.integers(LENGTH // 2, LENGTH, rows)
    marks[np.arange(rows), first] = marks[np.arange(rows), second] = 1
    x = np.stack([numbers, marks], axis=2)
    return {"x": x.astype(np.float32), "y": np.sum(numbers * marks, axis=1).astype(np.float32)}


def run():
    rng = np.random.default_rng(0)
    step = ws.compile(loss, Adder(), optimizer=optim.adam(optim.cosine(1e-2, 1000)), batch=drawn(rng, 64))
    losses = [step(drawn(rng, 64)).loss for _ in range(1000)]
    return step.model, drawn(rng, 1000), np.array(losses)


def main():
    model, new, _ = run()
    return float(np.mean((model(new["x"]) - new["y"]) ** 2) * 6)


def picture(figure):
    model, new, losses = run()
    left, right = figure.subplots(1, 2)
    left.semilogy(losses, linewidth=0.7)
    left.axhline(1 / 6, color="k", linestyle="--", linewidth=0.8)
    left.set(xlabel="step", ylabel="squared error", title="Training")
    right.plot(new["y"], model(new["x"]), ".", markersize=2)
    right.plot([0, 2], [0, 2], "k--", linewidth=0.8)
    right.set(xlabel="sum", ylabel="answer", title="New sequences")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
