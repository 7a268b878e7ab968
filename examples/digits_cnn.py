"""Handwritten digits: a convolutional network that reads 98.5% and more of images it has never seen.

python examples/digits_cnn.py                # about ten seconds; Ctrl-C keeps the state
python examples/digits_cnn.py --resume       # go on after Ctrl-C, to the same bits
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import wholestep as ws
from wholestep import nn


class Reader(nn.Module):
    def __init__(self, key):
        k = ws.random.split(key, 4)
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1, key=k[0])
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1, key=k[1])
        self.hidden = nn.Linear(64 * 4 * 4, 128, key=k[2])
        self.last = nn.Linear(128, 10, key=k[3])

    def __call__(self, images):
        x = nn.relu(self.conv1(images))
        x = nn.max_pool2d(nn.relu(self.conv2(x)), 2)
        return self.last(nn.relu(self.hidden(x.reshape(len(x), -1))))


def loss(model, batch):
    return nn.cross_entropy(model(batch["image"]), batch["label"], label_smoothing=0.05)


def accuracy(model, batch):
    return nn.metrics.accuracy(model(batch["image"]), batch["label"])


def moved(batch, *, key):
    """Images shifted at random by up to a pixel along both axes: the transformation of each batch before the step."""
    images = batch["image"]
    shifts = ws.random.randint(key, (len(images), 2), -1, 2)
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    crops = [image[:, 1 + i : 9 + i, 1 + j : 9 + j] for image, (i, j) in zip(wide, shifts, strict=True)]
    return {**batch, "image": np.stack(crops)}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--checkpoint", default="digits.safetensors")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--curves", default="digits.png")
    options = parser.parse_args(arguments)

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=0)
    train, test = [{"image": parts[i], "label": parts[i + 2]} for i in (0, 1)]

    loader = ws.Loader(train, batch_size=32, transform=moved, key=0)
    optimizer = ws.optim.adam(ws.optim.one_cycle(3e-3, options.epochs * len(loader), rise=0.1))
    step = ws.compile(loss, Reader(ws.random.key(0)), optimizer=optimizer, batch=loader.example)
    history = ws.fit(
        step,
        loader,
        epochs=options.epochs,
        validation=test,
        metrics={"accuracy": accuracy},
        checkpoint=options.checkpoint,
        resume=options.resume,
    )
    history.plot(options.curves)
    print(history)
    return history


if __name__ == "__main__":
    main()
