"""A normalising flow of coupling layers that learns a bent density, held against the density's exact entropy.

Each layer scales and shifts one coordinate by functions of the other, so that the way back and the determinant are
both known; the loss is the exact negative log-likelihood.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "nats above the entropy of the data"
BOUND = 0.05


def negative_log_likelihood(layers, x):
    volume = np.zeros(len(x), np.float32)
    for number, layer in enumerate(layers):
        fixed, moved = x[:, number % 2], x[:, 1 - number % 2]
        log_scale, shift = layer(fixed[:, None]).T
        moved = (moved - shift) * np.exp(-log_scale)
        x = np.stack([fixed, moved] if number % 2 == 0 else [moved, fixed], axis=1)
        volume = volume - log_scale
    return np.mean(0.5 * np.sum(x**2, axis=1) - volume) + np.float32(np.log(2 * np.pi))


def run():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 6000))
    x = np.stack([first, first**2 - 1 + 0.5 * second], axis=1).astype(np.float32)
    train, test = x[:4000], x[4000:]
    layers = [nn.MLP((1, 12, 2), key=key, activation=nn.tanh) for key in range(4)]
    step = ws.compile(negative_log_likelihood, layers, optimizer=optim.adam(optim.cosine(1e-2, 600)), batch=train[:200])
    loader = ws.Loader(train, batch_size=200, key=2)
    for batch in (batch for _ in range(30) for batch in loader):
        step(batch)
    sampling = np.mean(0.5 * (first**2 + second**2)[4000:]) - 1  # by how much these rows differ from the mean of all
    return step.model, test, sampling


def main():
    model, test, sampling = run()
    entropy = np.log(2 * np.pi * np.e) + np.log(0.5)
    return float(negative_log_likelihood(model, test) - entropy - sampling)


def picture(figure):
    model, test, _ = run()
    axes = figure.subplots()
    x, y = np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-3, 6, 80))
    grid = np.stack([x, y], axis=-1).reshape(-1, 1, 2).astype(np.float32)
    density = ws.vmap(lambda point: -negative_log_likelihood(model, point))(grid)
    figure.colorbar(axes.contourf(x, y, np.exp(density).reshape(80, 80), 12), label="learned density")
    axes.plot(*test[:200].T, "w.", markersize=2)
    axes.set(xlabel="x", ylabel="y", title="Density, and 200 points held out")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
