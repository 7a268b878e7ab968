"""A wing designed by the gradient through a flow: where to put solid so that wind is turned down and not held back.

The solid is a share of each cell. Lift is the speed downwards that the wind gets, drag the speed forwards that it lost.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "of the first drag per lift that is left"
BOUND = 0.5
ROWS, COLUMNS, STEPS = 24, 32, 16
DOWN, ACROSS = np.fft.fftfreq(ROWS)[:, None], np.fft.rfftfreq(COLUMNS)
SQUARES = DOWN**2 + ACROSS**2 + (DOWN == 0) * (ACROSS == 0)
ROOM = np.zeros((ROWS, COLUMNS))
ROOM[8:16, 6:20] = 1.0
PLACES = np.indices((ROWS, COLUMNS)).astype(float)


def incompressible(down, across):
    """The nearest flow that gathers nowhere."""
    a, b = np.fft.rfft2(down), np.fft.rfft2(across)
    along = (a * DOWN + b * ACROSS) / SQUARES
    return np.fft.irfft2(a - along * DOWN), np.fft.irfft2(b - along * ACROSS)


def carried(field, down, across):
    """The field advected by one step: each cell takes the interpolated value of its upstream point."""
    x, y = PLACES[0] - down, PLACES[1] - across
    i, j = np.floor(ws.stop_gradient(x)), np.floor(ws.stop_gradient(y))
    s, t = x - i, y - j
    i, j = i.astype(int) % ROWS, j.astype(int) % COLUMNS
    low = (1 - t) * field[i, j] + t * field[i, (j + 1) % COLUMNS]
    high = (1 - t) * field[(i + 1) % ROWS, j] + t * field[(i + 1) % ROWS, (j + 1) % COLUMNS]
    return (1 - s) * low + s * high


def flow(solid):
    """The wind after some steps, which began as an even one from the left, and is held where there is solid."""

    def advance(_, state):
        down, across = incompressible(*[(1 - solid) * speed for speed in state])
        return carried(down, down, across), carried(across, down, across)

    return ws.fori_loop(0, STEPS, advance, (np.zeros((ROWS, COLUMNS)), np.ones((ROWS, COLUMNS))))


def solid_of(shape):
    return ROOM * nn.sigmoid(shape)


def forces(solid):
    down, across = flow(solid)
    return np.mean(down), np.mean(1 - across)


def loss(shape, least):
    """The logarithm of drag per lift, and a price on a wing that is smaller than it has to be."""
    solid = solid_of(shape)
    lift, drag = forces(solid)
    return np.log(drag) - np.log(nn.softplus(200 * lift) / 200) + 5 * np.maximum(least - np.sum(solid), 0.0) / least


def run():
    start = np.where(np.abs(PLACES[0] - 11.5 - 0.15 * (PLACES[1] - 12.5)) < 2, 2.0, -2.0)
    least = np.array(30.0)
    step = ws.compile(loss, start, optimizer=optim.adam(0.1), batch=least)
    losses = [step(least).loss for _ in range(120)]
    return start, step.params, np.array(losses)


def main():
    (first_lift, first_drag), (lift, drag) = [forces(solid_of(shape)) for shape in run()[:2]]
    return float(drag / lift * first_lift / first_drag)


def picture(figure):
    start, found, _ = run()
    for axes, (title, shape) in zip(figure.subplots(2, 1), {"start": start, "found": found}.items(), strict=True):
        solid = solid_of(shape)
        lift, drag = forces(solid)
        axes.imshow(flow(solid)[0], cmap="RdBu", vmin=-0.5, vmax=0.5)
        axes.contour(solid, [0.5], colors="k", linewidths=1)
        axes.set(xlabel="wind goes this way", ylabel="height", xticks=[], yticks=[])
        axes.set_title(f"{title}: drag {drag / lift:.1f} times lift", fontsize="medium")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
