"""Contrastive learning: two views of each row are drawn together and those of others apart, without a label.

Rows are three hidden classes under much noise that changes from view to view. The learned features are judged by a
classifier of means.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of rows that the nearest mean of the features names wrongly"
BOUND = 0.05


def features(model, x):
    h = model(x)
    return h / np.sqrt(np.sum(h**2, axis=1, keepdims=True) + 1e-6)


def loss(model, batch):
    first, second = features(model, batch["first"]), features(model, batch["second"])
    alike = first @ second.T / 0.2
    own = np.arange(len(alike))
    return 0.5 * (nn.cross_entropy(alike, own) + nn.cross_entropy(alike.T, own))


def run():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 600)
    signal = 1.5 * np.eye(3)[label]

    def view():
        noise = 3 * rng.normal(size=(600, 17))  # drawn anew for each view, so that features agree if they leave it out
        return np.concatenate([signal + 0.3 * rng.normal(size=(600, 3)), noise], axis=1).astype(np.float32)

    model = nn.Linear(20, 3, key=0)
    x = view()
    rows = {"first": x[:100], "second": x[:100]}
    step = ws.compile(loss, model, optimizer=optim.adam(1e-2), batch=rows)
    for _ in range(20):
        for batch in ws.Loader({"first": view(), "second": view()}, batch_size=100, key=2):
            step(batch)
    return label, features(step.model, view())


def main():
    label, found = run()
    means = np.stack([found[:300][label[:300] == k].mean(0) for k in range(3)])
    return float(np.mean(np.argmax(found[300:] @ means.T, axis=1) != label[300:]))


def picture(figure):
    label, found = run()
    axes = figure.subplots()
    flat = np.linalg.svd(found - found.mean(0), full_matrices=False)[2][:2] @ found.T  # the plane of widest spread
    for k in range(3):
        axes.plot(*flat[:, label == k], ".", markersize=4, label=f"class {k}")
    axes.set(xlabel="first direction", ylabel="second direction", title="Learned features, 3 hidden classes")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
