"""A fluid whose beginning is found from its end: the gradient goes through the advection and the pressure solve.

Smoke on a periodic grid is carried by a flow that is kept free of divergence by a Fourier transform. The first flow is
trained until the smoke ends where a hidden flow has put it.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "of the first misfit of the smoke that is left"
BOUND = 0.1
SIZE, STEPS = 16, 4
WAVES = np.fft.fftfreq(SIZE)
SQUARES = WAVES[:, None] ** 2 + WAVES**2 + (WAVES[:, None] == 0) * (WAVES == 0)


def without_divergence(u, v):
    a, b = np.fft.fft2(u), np.fft.fft2(v)
    along = (a * WAVES[:, None] + b * WAVES) / SQUARES
    return np.fft.ifft2(a - along * WAVES[:, None]).real, np.fft.ifft2(b - along * WAVES).real


def carried(field, u, v):
    rows, columns = np.indices((SIZE, SIZE)).astype(float)
    x, y = rows - u, columns - v
    i, j = np.floor(ws.stop_gradient(x)), np.floor(ws.stop_gradient(y))
    s, t = x - i, y - j
    i, j = i.astype(int) % SIZE, j.astype(int) % SIZE
    below, right = (i + 1) % SIZE, (j + 1) % SIZE
    low, high = (1 - t) * field[i, j] + t * field[i, right], (1 - t) * field[below, j] + t * field[below, right]
    return (1 - s) * low + s * high


def ended(flow, smoke):
    u, v = without_divergence(*flow)

    def advance(_, state):
        u, v, smoke = state
        u, v = without_divergence(carried(u, u, v), carried(v, u, v))
        return u, v, carried(smoke, u, v)

    return ws.fori_loop(0, STEPS, advance, (u, v, smoke))[2]


def loss(flow, batch):
    return np.mean((ended(flow, batch["start"]) - batch["end"]) ** 2)


def run():
    i = np.arange(SIZE) * 2 * np.pi / SIZE
    start = np.exp(2 * np.cos(i[:, None] - 2) + 2 * np.cos(i - 3) - 4)
    hidden = np.stack([0.8 * np.sin(i)[None] * np.ones((SIZE, 1)), -0.8 * np.sin(i)[:, None] * np.ones((1, SIZE))])
    batch = {"start": start, "end": ended(hidden, start)}
    step = ws.compile(loss, np.zeros((2, SIZE, SIZE)), optimizer=optim.adam(0.05), batch=batch)
    losses = [step(batch).loss for _ in range(40)]
    return batch, losses, ended(step.params, start)


def main():
    _, losses, _ = run()
    return float(losses[-1] / losses[0])


def picture(figure):
    batch, _, found = run()
    titles = ["Beginning", "End, seen", "End, found"]
    for axes, smoke, title in zip(figure.subplots(1, 3), [*batch.values(), found], titles, strict=True):
        image = axes.imshow(smoke, vmin=0, vmax=1)
        axes.set(xlabel="column", ylabel="row", title=title)
        axes.label_outer()
    figure.colorbar(image, ax=figure.axes, location="bottom", label="smoke", shrink=0.6)


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
