"""Segmentation by a small U-Net: every point of a noisy image is told apart, disk from ground.

The way down sees far, the way up is sharp, and a connection across brings both together.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of disk and ground points, among all, that are named wrongly"
BOUND = 0.03
SIZE = 16


class UNet(nn.Module):
    def __init__(self):
        self.down, self.deep = nn.Conv2d(1, 8, 3, padding=1, key=0), nn.Conv2d(8, 16, 3, padding=1, key=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, stride=2, key=2), nn.Conv2d(16, 8, 3, padding=1, key=3)
        self.head = nn.Conv2d(8, 1, 1, key=4)

    def __call__(self, x):
        near = nn.relu(self.down(x))
        far = self.up(nn.relu(self.deep(nn.max_pool2d(near, 2))))
        return self.head(nn.relu(self.last(np.concatenate([near, far], axis=1))))


def loss(model, batch):
    return nn.bce_with_logits(model(batch["x"]), batch["y"])


def pictures(count, rng):
    centre, radius = rng.uniform(5, 11, (2, count, 1, 1)), rng.uniform(3, 5, (count, 1, 1))
    i, j = np.mgrid[:SIZE, :SIZE]
    disk = ((i - centre[0]) ** 2 + (j - centre[1]) ** 2 < radius**2).astype(np.float32)[:, None]
    return {"x": disk + 0.4 * rng.normal(size=disk.shape).astype(np.float32), "y": disk}


def run():
    rng = np.random.default_rng(0)
    data, fresh = pictures(320, rng), pictures(100, rng)
    batch = {name: x[:16] for name, x in data.items()}
    step = ws.compile(loss, UNet(), optimizer=optim.adam(optim.cosine(1e-2, 160)), batch=batch)
    loader = ws.Loader(data, batch_size=16, key=5)
    for batch in (batch for _ in range(8) for batch in loader):
        step(batch)
    return fresh, step.predict(fresh["x"]) > 0


def main():
    fresh, named = run()
    return float(np.mean(named != (fresh["y"] > 0.5)))


def picture(figure):
    fresh, named = run()
    rows = {"image": fresh["x"], "truth": fresh["y"], "named": named}
    for line, (title, images) in zip(figure.subplots(3, 5), rows.items(), strict=True):
        line[0].set_ylabel(title)
        for axes, image in zip(line, images, strict=False):
            axes.imshow(np.squeeze(image), cmap="gray")
            axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
