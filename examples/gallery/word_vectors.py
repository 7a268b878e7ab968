"""Word vectors: words that stand in the same company come near to each other, learned from pairs against chance pairs.

The words of the text walk around a ring, so that the ring itself has to come out of the vectors.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of words whose nearest vector is not that of a neighbour on the ring"
BOUND = 0.05
WORDS, NOISE = 24, 5


class Vectors(nn.Module):
    def __init__(self):
        self.words, self.company = nn.Embedding(WORDS, 8, key=0), nn.Embedding(WORDS, 8, key=1)

    def __call__(self, words, others):
        """Scores of the context words others[batch, n] for words[batch]: inner products of their vectors."""
        return np.sum(self.words(words)[:, None] * self.company(others), axis=-1)


def loss(model, batch):
    """The surprise of telling a true companion, which stands first, from others that are drawn by chance."""
    scores = model(batch["words"], batch["others"])
    return np.mean(nn.softplus(-scores[:, 0]) + np.sum(nn.softplus(scores[:, 1:]), axis=1))


def drawn(text, rng, rows):
    """Words of the text, one of the two that come next, and others."""
    place = rng.integers(0, len(text) - 2, rows)
    others = rng.integers(0, WORDS, (rows, 1 + NOISE))
    others[:, 0] = text[place + rng.integers(1, 3, rows)]
    return {"words": text[place], "others": others}


def run():
    rng = np.random.default_rng(0)
    text = np.cumsum(rng.choice([-1, 1], 20000)) % WORDS
    step = ws.compile(loss, Vectors(), optimizer=optim.adam(optim.cosine(2e-2, 800)), batch=drawn(text, rng, 256))
    for _ in range(800):
        step(drawn(text, rng, 256))
    model = step.model
    vectors = np.asarray(model.words.weight) + np.asarray(model.company.weight)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main():
    vectors = run()
    near = vectors @ vectors.T - 2 * np.eye(WORDS)
    step = (np.argmax(near, axis=1) - np.arange(WORDS)) % WORDS
    return float(np.mean(~np.isin(step, [1, 2, WORDS - 1, WORDS - 2])))


def picture(figure):
    vectors = run()
    left, right = figure.subplots(1, 2)
    flat = vectors - vectors.mean(axis=0)
    x, y = np.linalg.svd(flat, full_matrices=False)[2][:2] @ flat.T
    left.scatter(x, y, c=np.arange(WORDS), cmap="hsv", s=12)
    left.plot(np.append(x, x[0]), np.append(y, y[0]), "0.7", linewidth=0.6, zorder=0)
    left.set(xlabel="first direction", ylabel="second", title="Vectors, in the ring's order")
    right.imshow(vectors @ vectors.T, cmap="RdBu", vmin=-1, vmax=1)
    right.set(xlabel="word", ylabel="word", title="Likeness")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
