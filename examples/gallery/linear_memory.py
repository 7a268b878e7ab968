"""Attention as a recurrence: a memory of fixed size whose parts fade at rates that are learned, as in RWKV.

Letters come with numbers; asked for a letter, the network says the last number that came with it. Attention would keep
the whole past; here one matrix is kept, which fades at every step before the next pair is added.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of wrong answers on new sequences"
BOUND = 0.05
LETTERS, NUMBERS, LENGTH, WIDTH = 4, 5, 12, 16


class Memory(nn.Module):
    def __init__(self):
        self.letters, self.numbers = nn.Embedding(LETTERS, WIDTH, key=0), nn.Embedding(NUMBERS, WIDTH, key=1)
        self.keys, self.gate = nn.Linear(WIDTH, WIDTH, key=2), nn.Linear(WIDTH, WIDTH, key=3)
        self.head = nn.Linear(WIDTH, NUMBERS, key=4)
        self.fading = np.linspace(-1, 2, WIDTH, dtype=np.float32)

    def __call__(self, pairs, asked):
        """Scores of numbers, for pairs[time, batch, 2] of a letter and a number, and the letters that are asked for."""

        def meet(state, pair):
            key = nn.softmax(self.keys(self.letters(pair[:, 0])))
            kept = np.exp(-np.exp(self.fading) * key)
            return kept[:, :, None] * state + key[:, :, None] * self.numbers(pair[:, 1])[:, None], None

        state = ws.scan(meet, np.zeros((len(asked), WIDTH, WIDTH), np.float32), pairs)[0]
        letter = self.letters(asked)
        read = np.sum(nn.softmax(self.keys(letter))[:, :, None] * state, axis=1)
        return self.head(nn.silu(self.gate(letter)) * read)


def loss(model, batch):
    return nn.cross_entropy(model(batch["pairs"], batch["asked"]), batch["answers"])


def drawn(rng, rows):
    """Sequences, one of the letters in each, and the last number that came with it."""
    pairs = np.stack([rng.integers(0, LETTERS, (LENGTH, rows)), rng.integers(0, NUMBERS, (LENGTH, rows))], axis=2)
    asked = pairs[rng.integers(0, LENGTH, rows), np.arange(rows), 0]
    last = LENGTH - 1 - np.argmax(pairs[::-1, :, 0] == asked, axis=0)
    return {"pairs": pairs, "asked": asked, "answers": pairs[last, np.arange(rows), 1]}


def run():
    rng = np.random.default_rng(0)
    step = ws.compile(loss, Memory(), optimizer=optim.adam(optim.cosine(2e-2, 800)), batch=drawn(rng, 64))
    losses = [step(drawn(rng, 64)).loss for _ in range(800)]
    return step.model, drawn(rng, 1000), np.array(losses)


def main():
    model, new, _ = run()
    return float(np.mean(np.argmax(model(new["pairs"], new["asked"]), axis=1) != new["answers"]))


def picture(figure):
    model, new, losses = run()
    right = np.argmax(model(new["pairs"], new["asked"]), axis=1) == new["answers"]
    left, last = figure.subplots(1, 2)
    left.plot(losses, linewidth=0.7)
    left.set(xlabel="step", ylabel="loss", title="Training")
    age = np.argmax(new["pairs"][::-1, :, 0] == new["asked"], axis=0)
    last.bar(np.arange(8), [np.mean(right[age == n]) for n in range(8)])
    last.set(xlabel="pairs since the answer", ylabel="share right", title="It forgets nothing")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
