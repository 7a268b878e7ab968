"""Optics: a stack of thin films is trained, through the matrices of its layers, until it reflects nothing.

A quarter of a wave of the index that is the root of the glass's reflects nothing of one colour, but no solid has it.
Three layers of solids, whose thicknesses are trained, have to do better than one over a band of colours.
"""

import numpy as np

import wholestep as ws
from wholestep import optim

QUANTITY = "of the reflection of a quarter of a wave of magnesium fluoride that three layers leave"
BOUND = 0.2
GLASS, INDICES, COLOURS = 1.52, np.array([1.38, 2.1, 1.7]), np.linspace(450.0, 650.0, 21)


def reflected(thickness, indices, colours):
    """The mean share of light that films on glass send back, by the characteristic matrices of their layers."""
    top, bottom = 1.0 + 0j, GLASS + 0j
    rows = [np.ones(len(colours), complex), np.full(len(colours), bottom)]
    for index, width in zip(indices[::-1], thickness[::-1], strict=True):
        phase = 2 * np.pi * index * width / colours
        cos, sin = np.cos(phase), np.sin(phase)
        rows = [cos * rows[0] + 1j * sin / index * rows[1], 1j * index * sin * rows[0] + cos * rows[1]]
    share = (top * rows[0] - rows[1]) / (top * rows[0] + rows[1])
    return np.mean(np.abs(share) ** 2)


def run():
    start = 550 / 4 / INDICES * [1, 2, 1]
    optimizer = optim.adam(optim.cosine(1.0, 1000))

    def loss(films, colours):
        return reflected(films, INDICES, colours)

    step = ws.compile(loss, start, optimizer=optimizer, batch=COLOURS)
    for _ in range(1000):
        step(COLOURS)
    return step.params


def main():
    root = np.array([np.sqrt(GLASS)])
    assert reflected(550 / 4 / root, root, np.array([550.0])) < 1e-12
    return float(reflected(run(), INDICES, COLOURS) / reflected(550 / 4 / INDICES[:1], INDICES[:1], COLOURS))


def picture(figure):
    stacks = {"glass": [], "one layer": 550 / 4 / INDICES[:1], "three layers, trained": run()}
    axes, colours = figure.subplots(), np.linspace(400, 700, 121)
    for name, films in stacks.items():
        shares = [reflected(films, INDICES[: len(films)], colour[None]) for colour in colours]
        axes.plot(colours, 100 * np.array(shares), label=name)
    axes.axvspan(COLOURS[0], COLOURS[-1], color="0.92", label="trained for")
    axes.set(xlabel="wavelength, nm", ylabel="light sent back, %", title="An antireflective coating", ylim=(0, None))
    axes.legend(fontsize="small")


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
