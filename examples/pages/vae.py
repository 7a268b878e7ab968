"""A variational autoencoder of handwritten digits: two hidden numbers are an image, and images are two numbers."""

import numpy as np
from sklearn.datasets import load_digits

import wholestep as ws
from wholestep import nn, optim


class Autoencoder(nn.Module):
    def __init__(self, hidden, *, key):
        keys = ws.random.split(key, 4)
        self.up, self.mean_and_spread = nn.Linear(64, 128, key=keys[0]), nn.Linear(128, 2 * hidden, key=keys[1])
        self.down, self.out = nn.Linear(hidden, 128, key=keys[2]), nn.Linear(128, 64, key=keys[3])

    def encoded(self, x):
        return np.split(self.mean_and_spread(nn.gelu(self.up(x))), 2, axis=-1)

    def decoded(self, z):
        return self.out(nn.gelu(self.down(z)))


def loss(model, image, *, key):
    mean, spread = model.encoded(image)
    z = mean + np.exp(spread / 2) * ws.random.normal(key, mean.shape, np.float32)
    scores = model.decoded(z)
    misfit = np.sum(nn.softplus(scores) - image * scores, axis=1)
    return np.mean(misfit + 0.5 * np.sum(mean**2 + np.exp(spread) - 1 - spread, axis=1))


def image_of(model, z):
    return nn.sigmoid(model.decoded(z.reshape(1, 2))).reshape(8, 8)


def numbers_of(model, image):
    return model.encoded(image.reshape(1, 64))[0].reshape(2)


data = (load_digits().data / 16).astype(np.float32)
batch = data[:64]

model = Autoencoder(2, key=ws.random.key(0))
step = ws.compile(loss, model, optimizer=optim.adam(2e-3), batch=batch, key=1)
attach = {
    "image_of": step.attach(image_of, batch=ws.ShapeDtype((2,), np.float32)),
    "numbers_of": step.attach(numbers_of, batch=ws.ShapeDtype((8, 8), np.float32)),
}
