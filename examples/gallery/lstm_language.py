"""A language model of long short-term memory, compared with the exact entropy of the source that makes its text.

The source goes from letter to letter with known chances, so the least loss that any model can have is known.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "nats a letter above the entropy of the source"
BOUND = 0.03
LETTERS = 6


class Writer(nn.Module):
    def __init__(self):
        self.table, self.memory = nn.Embedding(LETTERS, 16, key=0), nn.LSTM(16, 32, key=1)
        self.head = nn.Linear(32, LETTERS, key=2)

    def __call__(self, letters):
        states, _ = self.memory(self.table(letters))
        return self.head(states)


def loss(model, text):
    return nn.cross_entropy(model(text[:, :-1]).reshape(-1, LETTERS), text[:, 1:].reshape(-1))


def written(chances, rows, length, rng):
    text = np.zeros((rows, length), np.int64)
    text[:, 0] = rng.integers(0, LETTERS, rows)
    sums = np.cumsum(chances, axis=1)
    for t in range(1, length):
        text[:, t] = np.sum(rng.random(rows)[:, None] > sums[text[:, t - 1]], axis=1).clip(max=LETTERS - 1)
    return text


def run():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(LETTERS, 0.4), LETTERS)
    text = written(chances, 800, 33, rng)
    step = ws.compile(loss, Writer(), optimizer=optim.adam(optim.cosine(1e-2, 100)), batch=text[:32])
    loader = ws.Loader(text, batch_size=32, key=3)
    for batch in (batch for _ in range(4) for batch in loader):
        step(batch)
    return step.model.eval(), chances, written(chances, 400, 33, rng)


def main():
    model, chances, fresh = run()
    exact = -np.mean(np.log(chances[fresh[:, :-1], fresh[:, 1:]]))
    return float(loss(model, fresh) - exact)


def picture(figure):
    model, chances, fresh = run()
    said = nn.softmax(model(fresh))
    learned = np.stack([said[fresh == letter].mean(0) for letter in range(LETTERS)])
    for axes, field, title in zip(figure.subplots(1, 2), [chances, learned], ["The source", "The model"], strict=True):
        image = axes.imshow(field, aspect="auto", vmin=0, vmax=0.6)
        axes.set(xlabel="next letter", ylabel="letter", xticks=range(LETTERS), yticks=range(LETTERS), title=title)
    figure.colorbar(image, ax=figure.axes, location="bottom", label="chance", shrink=0.6)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
