"""A diffusion model of points on a circle: a network learns to take noise away, and then makes points out of noise.

The noise levels are those of a variance-preserving schedule; sampling walks back through them, step by step, in one
compiled loop.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "mean distance of samples from the circle"
BOUND = 0.25
LEVELS = 40
KEPT = np.cumprod(1 - np.linspace(1e-3, 0.2, LEVELS)).astype(np.float32)


def predicted(model, x, level):
    angle = level[:, None] * np.array([0.1, 0.3, 1.0], np.float32)
    return model(np.concatenate([x, np.sin(angle), np.cos(angle)], axis=1))


def loss(model, batch, *, key):
    first, second = ws.random.split(key, 2)
    level = ws.random.randint(first, (len(batch),), 0, LEVELS)
    noise = ws.random.normal(second, batch.shape)
    kept = np.take(KEPT, level)[:, None]
    noisy = np.sqrt(kept) * batch + np.sqrt(1 - kept) * noise
    return nn.mse(predicted(model, noisy, level.astype(np.float32)), noise)


def sampled(model, noise):
    def back(x, i):
        level = LEVELS - 1 - i
        kept, before = np.take(KEPT, level), np.take(np.append(np.float32(1), KEPT), level)
        taken = predicted(model, x, np.zeros(200, np.float32) + level.astype(np.float32))
        clean = (x - np.sqrt(1 - kept) * taken) / np.sqrt(kept)
        return np.sqrt(before) * clean + np.sqrt(1 - before) * taken, 0.0

    return ws.scan(back, noise, np.arange(LEVELS))[0]


def run():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 2000)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    model = nn.MLP((8, 40, 40, 2), key=0, activation=nn.silu)
    step = ws.compile(loss, model, optimizer=optim.adam(optim.cosine(1e-2, 1200)), batch=x[:200])
    loader = ws.Loader(x, batch_size=200, key=2)
    for batch in (batch for _ in range(120) for batch in loader):
        step(batch)
    return x, step.attach(sampled)(rng.normal(size=(200, 2)).astype(np.float32))


def main():
    _, made = run()
    return float(np.mean(np.abs(np.linalg.norm(made, axis=1) - 1)))


def picture(figure):
    x, made = run()
    axes = figure.subplots()
    axes.plot(*x[:300].T, ".", alpha=0.3, label="data")
    axes.plot(*made.T, ".", label="made out of noise")
    axes.set(xlabel="x", ylabel="y", title="200 samples")
    axes.axis("equal")
    figure.legend(loc="outside lower center", ncols=3)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
