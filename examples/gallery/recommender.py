"""A recommender: two large tables of vectors whose products are ratings; a step updates the rows that it gathers.

People and films have five hidden numbers each; one rating in six is seen, and the others are foretold.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "error of ratings that nobody gave, in widths of the ratings"
BOUND = 0.3
PEOPLE, FILMS, HIDDEN = 400, 300, 5


class Tastes(nn.Module):
    def __init__(self):
        self.people, self.films = nn.Embedding(PEOPLE, HIDDEN, key=0), nn.Embedding(FILMS, HIDDEN, key=1)

    def __call__(self, pairs):
        return np.sum(self.people(pairs[:, 0]) * self.films(pairs[:, 1]), axis=1)


def loss(model, batch):
    return nn.mse(model(batch["pairs"]), batch["ratings"])


def run():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(PEOPLE, HIDDEN)) @ rng.normal(size=(HIDDEN, FILMS))
    pairs = np.argwhere(rng.random(true.shape) < 1 / 6)
    ratings = (true[tuple(pairs.T)] + 0.1 * rng.normal(size=len(pairs))).astype(np.float32)
    data = {"pairs": pairs, "ratings": ratings}
    batch = {name: x[:512] for name, x in data.items()}
    step = ws.compile(loss, Tastes(), optimizer=optim.adam(optim.cosine(0.03, 1000)), batch=batch)
    loader = ws.Loader(data, batch_size=512, key=2, drop_last=True)
    for batch in (batch for _ in range(1000 // len(loader)) for batch in loader):
        step(batch)
    unseen = np.ones(true.shape, bool)
    unseen[tuple(pairs.T)] = False
    return (step.model.people.weight @ step.model.films.weight.T)[unseen], true, unseen


def main():
    foretold, true, unseen = run()
    return float(np.sqrt(np.mean((foretold - true[unseen]) ** 2)) / true.std())


def picture(figure):
    foretold, true, unseen = run()
    axes = figure.subplots()
    axes.plot(true[unseen][::250], foretold[::250], ".", alpha=0.6, label="400 ratings that nobody gave")
    axes.axline((0, 0), slope=1, color="k", linestyle="--", label="as they are")
    axes.set(xlabel="true rating", ylabel="foretold rating", title="Tastes from one rating in six")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
