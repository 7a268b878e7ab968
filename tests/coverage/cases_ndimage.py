"""Calls of scipy.ndimage for the coverage tests: arrays read between their elements, in every mode."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import ndimage

rng = np.random.default_rng(41)
MODES = ("constant", "nearest", "wrap", "mirror", "reflect", "grid-mirror", "grid-wrap", "grid-constant")
SHAPES = ((7,), (4, 5), (3, 4, 2), (1, 4), (2, 2))


def places(shape: tuple[int, ...], count: int) -> Any:
    """Places inside and far outside of an array, none of them on an edge or half way between elements."""
    at = rng.uniform(-15, 15, size=(len(shape), count))
    return np.floor(at * 2) / 2 + rng.uniform(0.1, 0.4, size=at.shape)


def marked(shape: tuple[int, ...]) -> Any:
    """All places that are whole or half way between elements, which each mode rounds in its own way."""
    return rng.integers(-24, 24, size=(len(shape), 300)) / 2.0


def read(**options: Any) -> Any:
    """A call with options."""
    return lambda x, at: ndimage.map_coordinates(x, at, **options)


def cases() -> list[Case]:
    """The cases of each mode and order."""
    made = []
    for mode in MODES:
        for order in (0, 1):
            f = read(order=order, mode=mode, cval=1.5)
            for shape in SHAPES:
                x = rng.normal(size=shape)
                made += [Case(f, x, places(shape, 12), rtol=1e-11)]
                made += [Case(f, x, marked(shape), rtol=1e-11, grad=False)]
        x = rng.normal(size=(4, 5))
        f = read(order=1, mode=mode, cval=2)
        made += [
            Case(f, (20 * x).astype(int), marked((4, 5)), grad=False),
            Case(f, (20 * x).clip(0).astype(np.uint8), marked((4, 5)), grad=False),
            Case(f, x + 1j * x[::-1], places((4, 5), 7), rtol=1e-11),
            Case(f, x.astype("f4"), places((4, 5), 7).astype("f4"), rtol=1e-4, grad=False),
        ]
    x, at = rng.normal(size=(4, 5)), places((4, 5), 6)
    made += [
        Case(read(order=1, output=np.float32), x, at, rtol=1e-6, grad=False),
        Case(read(order=1, output=int), x * 9, at, grad=False),
        Case(read(order=1, prefilter=False), x, at.reshape(2, 3, 2), rtol=1e-11),
        Case(lambda x: ndimage.map_coordinates(x, [[0.5, 1.25], [2.0, 3.5]], order=1), x, rtol=1e-11),
        Case(lambda x, c: ndimage.map_coordinates(x, [[0.5, -3.0], [2.0, 3.5]], order=1, cval=c), x, np.float64(0.5)),
        Case(read(order=1), x, np.array([[0, 1, 9], [2, 3, 1]])),
    ]
    return made


CASES: dict[str, list[Case]] = {"scipy.ndimage.map_coordinates": cases()}
