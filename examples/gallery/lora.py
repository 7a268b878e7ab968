"""Low-rank adaptation: a trained layer stays frozen, and a correction of rank one learns the change of the task.

A layer is moved by a product of two vectors; the correction has 96 numbers where the layer has 2048, and finds them.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "relative error of the adapted layer"
BOUND = 0.01


class Adapted(nn.Module):
    def __init__(self, layer, rank, key):
        rows, columns = layer.weight.shape
        self.weight = nn.frozen(layer.weight)
        self.down = nn.init.normal(ws.random.key(key), (rows, rank), std=0.1)
        self.up = np.zeros((rank, columns), np.float32)

    def __call__(self, x):
        return x @ self.weight + (x @ self.down) @ self.up


def loss(model, batch):
    return nn.mse(model(batch["x"]), batch["y"])


def run():
    rng = np.random.default_rng(0)
    layer = nn.Linear(64, 32, bias=False, key=0)
    wanted = layer.weight + 0.1 * np.outer(rng.normal(size=64), rng.normal(size=32)).astype(np.float32)
    x = rng.normal(size=(256, 64)).astype(np.float32)
    batch = {"x": x, "y": x @ wanted}
    step = ws.compile(loss, Adapted(layer, 1, key=1), optimizer=optim.adam(optim.cosine(0.02, 500)), batch=batch)
    for _ in range(500):
        step(batch)
    return step.model, layer.weight, wanted


def main():
    model, before, wanted = run()
    assert np.array_equal(model.weight, before)
    return float(np.linalg.norm(model.weight + model.down @ model.up - wanted) / np.linalg.norm(wanted - before))


def picture(figure):
    model, before, wanted = run()
    fields = {"Wanted change": wanted - before, "Learned, rank 1": model.down @ model.up}
    for axes, (title, field) in zip(figure.subplots(1, 2), fields.items(), strict=True):
        image = axes.imshow(field, cmap="RdBu", vmin=-0.4, vmax=0.4, aspect="auto")
        axes.set(xlabel="output", ylabel="input", title=title)
    figure.colorbar(image, ax=figure.axes, label="weight")


if __name__ == "__main__":
    print(f"{main():.5f} {QUANTITY}")
